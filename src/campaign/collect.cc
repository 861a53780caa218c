#include "collect.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/logs/diagnose_log.h"
#include "attune/model/training_job.h"
#include "attune/traces/diagnose.h"
#include "attune/traces/trace_reader.h"
#include "config_gate.h"

namespace attune {
namespace {

// At a gigabyte a second this is two seconds a file, whatever the job wrote.
constexpr std::int64_t kMaxTraceText = std::int64_t{2} << 30;
constexpr std::size_t kMaxNotes = 20;

Diagnosis FromLog(const CampaignState& s, const RunRecord& run) {
  LogEvidence evidence;
  evidence.steps = run.steps;
  if (run.memory.max_reserved > 0) evidence.memory = run.memory;
  evidence.device_bytes = DeviceMemory(s.recipe).value_or(0);
  evidence.warmup_steps = s.recipe.measure.warmup_steps;
  if (run.end) {
    evidence.failure_class = run.end->detail.failure_class;
    evidence.failure_evidence = run.end->detail.evidence;
  }
  return DiagnoseLog(evidence);
}

std::optional<PipelineShape> PipelineOf(const Recipe& recipe, const Effective& executed) {
  if (recipe.framework != Framework::kMegatronLm) return std::nullopt;
  const auto resolved = ResolveMegatron(executed.args, executed.env, recipe.workload);
  const auto* job = std::get_if<TrainingJob>(&resolved);
  if (job == nullptr || job->layout.pp <= 1) return std::nullopt;
  return PipelineShape{job->layout.pp, static_cast<int>(job->batch.microbatches), job->layout.vp};
}

bool ReachedProfile(const RunRecord& run) {
  return run.plan.profile_first > 0 && !run.steps.empty() &&
         run.steps.back().iteration + 1 >= run.plan.profile_first;
}

// The log's rows beside the trace's: what a trace knows better replaces nothing, as no class is in
// both.
void Join(Diagnosis& traced, const Diagnosis& log) {
  for (Bottleneck& b : traced.bottlenecks) {
    // The timed window ran without the profiler, so its own cost is no part of the step.
    if (b.cls == "profiler_overhead") b.named = false;
  }
  traced.bottlenecks.insert(traced.bottlenecks.end(), log.bottlenecks.begin(),
                            log.bottlenecks.end());
  std::stable_sort(traced.bottlenecks.begin(), traced.bottlenecks.end(),
                   [](const Bottleneck& a, const Bottleneck& b) {
                     return a.named != b.named ? a.named : a.share > b.share;
                   });
  traced.summary += " Log: " + log.summary;
}

void AddNotes(Diagnosis& d, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (d.notes.size() == kMaxNotes) return;
    d.notes.push_back(EscapeForDisplay(note, 400));
  }
}

}  // namespace

std::string TracesBelow(const Recipe& recipe, const RunId& run) {
  // Megatron-LM writes them where TensorBoard looks; a custom trainer anywhere below {run}.
  const std::string scratch = "scratch/" + run.value;
  return recipe.framework == Framework::kMegatronLm ? scratch + "/tensorboard" : scratch;
}

Diagnosis DiagnoseRun(const CampaignState& s, const RunRecord& run, Launcher& launcher) {
  Diagnosis log = FromLog(s, run);
  const LaunchRecord& launch = s.launches.at(run.launch);
  if (!ReachedProfile(run) || !launch.handle) return log;
  const ProfileSpec& spec = s.recipe.profile;
  const std::string below = TracesBelow(s.recipe, run.plan.id);
  const Result<std::string> root = launcher.BringHere(*launch.handle, below, spec.max_bytes);
  if (!root) {
    AddNotes(log, {"the traces could not be fetched: " + root.error().message});
    return log;
  }
  RunTraces found = FindRunTraces(*root, below, spec.ranks);
  if (found.files.empty()) {
    AddNotes(log, {"the run was profiled and left no trace in " + found.folder});
    AddNotes(log, found.notes);
    return log;
  }
  TraceOptions options;
  options.max_text_bytes = kMaxTraceText;
  const Result<TraceSet> set = ReadTraces(found.files, options);
  CapRunTraces(found, *root, spec.max_bytes);
  if (!set) {
    AddNotes(log, {"no trace could be read: " + set.error().message});
    AddNotes(log, found.notes);
    return log;
  }
  DiagnoseOptions how;
  how.pipeline = PipelineOf(s.recipe, run.plan.executed);
  Diagnosis traced = DiagnoseTraces(*set, how);
  Join(traced, log);
  if (!found.files.empty()) traced.traces = found.folder;
  AddNotes(traced, found.notes);
  AddNotes(traced, set->remarks);
  for (const RankTrace& rank : set->ranks) {
    if (!rank.whole) {
      AddNotes(traced,
               {fmt::format("{} is not whole: {} events were read", rank.path, rank.events)});
    }
  }
  return traced;
}

}  // namespace attune
