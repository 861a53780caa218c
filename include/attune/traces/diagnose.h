// From the figures of a trace to named bottlenecks. Every class gets a row with its metric; only
// those past their threshold are named. Thresholds and where they come from: Thresholds(), and
// docs/formats/traces.md. Which levers help is not decided here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/model/diagnosis.h"
#include "attune/traces/trace_reader.h"
#include "attune/traces/trace_report.h"

namespace attune {

// A pipeline as the recipe has it; a trace does not tell.
struct PipelineShape {
  int stages = 1, microbatches = 1, virtual_stages = 1;
};

struct DiagnoseOptions {
  std::optional<PipelineShape> pipeline;
};

struct DiagnosisThreshold {
  std::string_view cls;
  double value;
  std::string_view metric;  // what is compared, in words
  std::string_view source;
};
std::span<const DiagnosisThreshold> Thresholds();

// source "trace". With several ranks a row is of the rank where the metric is worst, and says so.
// Shares are of the analysed steps' time. Without GPU events: what the host's marks tell.
Diagnosis DiagnoseTraces(const TraceSet& traces, const DiagnoseOptions& options = {});

// For programs: schema attune.traces/1, docs/formats/traces.md. Ends with a newline.
std::string TracesJson(const TraceSet& traces, const Diagnosis& diagnosis);

// For people: summary, bars by class of time for each rank and step, tables. Plain ASCII unless
// `unicode`; no line longer than `width`.
std::string TracesText(const TraceSet& traces, const Diagnosis& diagnosis, int width = 100,
                       bool unicode = false);

// One step's streams as a picture (SVG, no outside link): a lane a stream, GPU events coloured by
// what they do. step: its name; empty: the analysed step of median length. Reads the file again.
// Error: as ReadTraceFile; kNotFound when there is no such step or no GPU event.
Result<std::string> StepSvg(const std::string& path, const TraceOptions& options = {},
                            std::string_view step = {});

}  // namespace attune
