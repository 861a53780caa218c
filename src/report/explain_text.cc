#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "attune/base/text.h"
#include "attune/report/explain.h"
#include "markup.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

class Lines {
 public:
  void Add(std::string_view key, const std::string& text) {
    if (text.empty()) return;
    out_ += fmt::format("{:<11} {}\n", key, EscapeForDisplay(text, report::kMaxField));
  }
  void Raw(std::string_view text) { out_ += text; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string Cost(const Explanation& e) {
  const bool over = e.held.value == 0;
  const GpuMillis hours = over ? e.charged : e.held;
  std::string text = fmt::format("{} GPU-h{}", ShowGpuHours(hours), over ? "" : " held");
  if (e.price > 0) text += fmt::format(", ${:.2f}", hours.Hours() * e.price);
  if (e.runs_of_launch > 1) text += fmt::format(" (of a launch with {} runs)", e.runs_of_launch);
  return text;
}

std::string Show(const Finding& f) {
  std::string text = fmt::format("{} {}", Word(f.severity), f.rule);
  if (!f.key.empty()) text += " " + f.key;
  if (!f.was.empty() || !f.now.empty()) text += fmt::format("  {} -> {}", f.was, f.now);
  return text + ": " + f.why;
}

std::string Show(const Measurement& m) {
  std::string text = fmt::format("{:.1f} tok/s/GPU over iterations {} to {} ({} steps, {:.1f} s{})",
                                 m.tokens_per_s_per_slot, m.first_iteration, m.last_iteration,
                                 m.steps, m.seconds, m.short_window ? ", short window" : "");
  text += fmt::format("; median step {:.4g} ms, p95 {:.4g} ms, cv {:.2f}%", m.median_step_ms,
                      m.p95_step_ms, 100 * m.cv);
  if (m.mfu) text += fmt::format("; MFU {:.1f}%", 100 * *m.mfu);
  if (m.memory && m.memory->max_reserved > 0) {
    text += fmt::format("; {:.2f} GiB reserved",
                        static_cast<double>(m.memory->max_reserved) / (1024.0 * 1024 * 1024));
  }
  return text;
}

std::string Missed(double projected, const std::optional<double>& got, double unit,
                   std::string_view name) {
  if (!got || *got <= 0) return {};
  return fmt::format(", came to {:.4g}{} ({:+.1f}% off)", *got / unit, name,
                     100 * (projected / *got - 1));
}

std::string ProjectionLine(const RunProjection& p) {
  return fmt::format(
      "{:.4g} s a step, give or take {:.0f}%{}; peak {:.1f} GB, give or take {:.0f}%{}; after {} "
      "run{}, bare formulas {:.4g} s",
      p.step_seconds, 100 * p.step_sd, Missed(p.step_seconds, p.got_step_seconds, 1, " s"),
      p.peak_bytes / 1e9, 100 * p.peak_sd, Missed(p.peak_bytes, p.got_peak_bytes, 1e9, " GB"),
      p.runs, p.runs == 1 ? "" : "s", p.bare_step_seconds);
}

Json ProjectionJson(const RunProjection& p) {
  const auto got = [](const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); };
  return {{"runs", p.runs},
          {"step_seconds", p.step_seconds},
          {"step_sd", p.step_sd},
          {"bare_step_seconds", p.bare_step_seconds},
          {"got_step_seconds", got(p.got_step_seconds)},
          {"peak_bytes", p.peak_bytes},
          {"peak_sd", p.peak_sd},
          {"got_peak_bytes", got(p.got_peak_bytes)}};
}

Json JsonOf(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) {
    list.push_back({{"severity", Word(f.severity)},
                    {"rule", f.rule},
                    {"key", f.key},
                    {"was", f.was},
                    {"now", f.now},
                    {"why", f.why}});
  }
  return list;
}

Json JsonOf(const Measurement& m) {
  Json json = {{"score", m.tokens_per_s_per_slot},
               {"first_iteration", m.first_iteration},
               {"last_iteration", m.last_iteration},
               {"steps", m.steps},
               {"short_window", m.short_window},
               {"seconds", m.seconds},
               {"median_step_ms", m.median_step_ms},
               {"p95_step_ms", m.p95_step_ms},
               {"cv", m.cv}};
  json["mfu"] = m.mfu ? Json(*m.mfu) : Json(nullptr);
  json["step0_loss"] = m.step0_loss ? Json(*m.step0_loss) : Json(nullptr);
  json["max_reserved"] = m.memory ? Json(m.memory->max_reserved) : Json(nullptr);
  return json;
}

Json JsonOf(const TimeSplit& t) {
  return {{"rank", t.rank < 0 ? Json(nullptr) : Json(t.rank)},
          {"steps", t.steps},
          {"span_ns", t.span},
          {"compute_ns", t.compute},
          {"memory_ns", t.memory},
          {"exposed_ns", t.exposed},
          {"host_wait_ns", t.host_wait},
          {"other_idle_ns", t.other_idle},
          {"host_operators_ns", t.host_operators}};
}

Json JsonOf(const Diagnosis& d, const std::vector<BottleneckLevers>& levers) {
  Json json = {
      {"source", d.source}, {"summary", d.summary}, {"traces", d.traces}, {"notes", d.notes}};
  json["times"] = Json::array();
  for (const TimeSplit& t : d.times) json["times"].push_back(JsonOf(t));
  json["levers"] = Json::array();
  for (const BottleneckLevers& row : levers) {
    json["levers"].push_back(
        {{"class", row.bottleneck}, {"lever_classes", row.classes}, {"levers", row.levers}});
  }
  json["bottlenecks"] = Json::array();
  for (const Bottleneck& b : d.bottlenecks) {
    json["bottlenecks"].push_back({{"class", b.cls},
                                   {"share", b.share < 0 ? Json(nullptr) : Json(b.share)},
                                   {"metric", b.metric},
                                   {"threshold", b.threshold},
                                   {"named", b.named},
                                   {"evidence", b.evidence}});
  }
  return json;
}

Json IdOrNull(const std::string& id) { return id.empty() ? Json(nullptr) : Json(id); }

}  // namespace

std::string DiagnosisText(const Diagnosis& d, const std::vector<BottleneckLevers>& levers,
                          std::string_view indent) {
  constexpr int kCells = 50;
  std::string text;
  const auto line = [&](const std::string& what) {
    text += fmt::format("{}{}\n", indent, EscapeForDisplay(what, report::kMaxField));
  };
  bool legend = false;
  for (const TimeSplit& t : d.times) {
    if (t.host_operators > 0) {
      line(fmt::format("{}: operators of the host run {} of {}", RankName(t.rank),
                       ShowNanoseconds(t.host_operators), ShowNanoseconds(t.span)));
      continue;
    }
    if (t.span <= 0) continue;
    if (!std::exchange(legend, true)) line("time of the GPU: " + TimeLegend(false));
    line(fmt::format("{:<10}{:>10}  |{}|", RankName(t.rank), ShowNanoseconds(t.span),
                     TimeBar(t, kCells, false)));
  }
  for (const Bottleneck& b : d.bottlenecks) {
    if (!b.named) continue;
    line(fmt::format("{}{}: {}", b.cls,
                     b.share < 0 ? "" : fmt::format(" ({:.1f}% of the step)", 100 * b.share),
                     b.evidence));
    for (const BottleneckLevers& row : levers) {
      if (row.bottleneck != b.cls) continue;
      line("  levers against it: " + (row.levers.empty() ? "of class " + Join(row.classes, ", ")
                                                        : ShowLevers(row.levers)));
    }
  }
  for (const std::string& note : d.notes) line("note: " + note);
  if (!d.traces.empty()) line("traces: " + d.traces);
  return text;
}

std::string ExplainText(const Explanation& e) {
  std::string head = e.run.empty() ? e.proposal.value : e.run.value;
  if (!e.label.empty()) head += " " + e.label;
  head += "  " + e.outcome;
  if (e.gain) head += fmt::format(" {:+.1f}%", 100 * *e.gain);
  if (!e.purpose.empty()) head += "  (" + e.purpose + ")";
  std::string text = EscapeForDisplay(head, report::kMaxField) + "\n";
  Lines lines;
  if (!e.hypothesis.empty()) lines.Add("hypothesis", fmt::format("\"{}\"", e.hypothesis));
  if (!e.bottleneck.empty()) lines.Add("against", e.bottleneck);
  if (e.projection) lines.Add("projected", ProjectionLine(*e.projection));
  if (e.expected_gain) {
    std::string expected = fmt::format("{:+.1f}% to {:+.1f}%", 100 * e.expected_gain->first,
                                   100 * e.expected_gain->second);
    if (e.expected_peak_gb) expected += fmt::format(", peak {:.1f} GB", *e.expected_peak_gb);
    if (!e.forecast.empty()) {
      expected += fmt::format("; came to {:+.1f}%, {}{}", 100 * *e.gain, e.forecast,
                          e.forecast == "inside" ? "" : " it");
    }
    lines.Add("expected", expected);
  }
  lines.Add("change", e.lever.empty() ? e.change : e.lever + ": " + e.change);
  lines.Add("argv diff", e.argv_diff);
  if (e.has_gate) {
    std::string gate = e.admitted ? "admitted" : "turned back: " + e.turned_back;
    if (!e.source.empty()) gate += " (proposed by " + e.source + ")";
    lines.Add("gate", gate);
    lines.Add("", e.turned_back_detail);
    for (const Finding& f : e.gate) lines.Add("", Show(f));
  }
  std::string_view key = "timeline";
  for (const ExplainedMoment& m : e.timeline) {
    lines.Add(std::exchange(key, ""), Rfc3339(m.at) + "  " + m.what);
  }
  if (e.measurement) lines.Add("measured", Show(*e.measurement));
  lines.Add("verdict", e.reason);
  for (const Finding& f : e.findings) lines.Add("", Show(f));
  if (!e.failure_class.empty() || !e.evidence.empty()) {
    lines.Add("failure", e.cause.empty() ? e.failure_class : e.failure_class + ": " + e.cause);
    if (!e.evidence.empty()) {
      lines.Add("evidence", e.evidence_at.empty()
                                ? fmt::format("\"{}\"", e.evidence)
                                : fmt::format("{}  \"{}\"", e.evidence_at, e.evidence));
    }
  }
  if (e.diagnosis) {
    lines.Add("diagnosis", e.diagnosis->summary);
    lines.Raw(DiagnosisText(*e.diagnosis, e.levers, std::string(12, ' ')));
  }
  key = "then";
  for (const std::string& next : e.next) lines.Add(std::exchange(key, ""), next);
  lines.Add("cost", e.run.empty() ? "nothing: it was not launched" : Cost(e));
  return text + lines.Take();
}

std::string DiagnosisJson(const Diagnosis& diagnosis, const std::vector<BottleneckLevers>& levers) {
  return JsonOf(diagnosis, levers).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ExplainJson(const Explanation& e) {
  Json json = {{"schema", "attune.explain/1"}, {"campaign", e.campaign.value}};
  json["run"] = IdOrNull(e.run.value);
  json["proposal"] = IdOrNull(e.proposal.value);
  json["label"] = e.label;
  json["purpose"] = IdOrNull(e.purpose);
  json["outcome"] = e.outcome;
  json["source"] = e.source;
  json["hypothesis"] = e.hypothesis;
  json["bottleneck"] = e.bottleneck;
  json["fits_because"] = e.fits_because;
  json["stop_if"] = e.stop_if;
  json["expected_gain"] = nullptr;
  if (e.expected_gain) {
    json["expected_gain"] = Json::array({e.expected_gain->first, e.expected_gain->second});
  }
  json["expected_peak_gb"] = e.expected_peak_gb ? Json(*e.expected_peak_gb) : Json(nullptr);
  json["projection"] = e.projection ? ProjectionJson(*e.projection) : Json(nullptr);
  json["forecast"] = IdOrNull(e.forecast);
  json["llm_call"] = IdOrNull(e.llm_call);
  json["lever"] = e.lever;
  json["change"] = e.change;
  json["argv_diff"] = e.argv_diff;
  json["gate"] = nullptr;
  if (e.has_gate) {
    json["gate"] = {{"admitted", e.admitted},
                    {"reason", e.turned_back},
                    {"detail", e.turned_back_detail},
                    {"findings", JsonOf(e.gate)}};
  }
  json["timeline"] = Json::array();
  for (const ExplainedMoment& m : e.timeline) {
    json["timeline"].push_back({{"at", Rfc3339(m.at)}, {"what", m.what}});
  }
  json["measurement"] = e.measurement ? JsonOf(*e.measurement) : Json(nullptr);
  json["gain_pct"] = e.gain ? Json(100 * *e.gain) : Json(nullptr);
  json["reason"] = e.reason;
  json["findings"] = JsonOf(e.findings);
  json["diagnosis"] = e.diagnosis ? JsonOf(*e.diagnosis, e.levers) : Json(nullptr);
  json["failure"] = nullptr;
  if (!e.failure_class.empty() || !e.evidence.empty()) {
    json["failure"] = {{"class", e.failure_class},
                       {"cause", e.cause},
                       {"evidence", e.evidence},
                       {"at", e.evidence_at}};
  }
  json["next"] = e.next;
  json["gpu_hours"] = {{"charged", e.charged.Hours()}, {"held", e.held.Hours()}};
  json["usd"] = e.price > 0 ? Json(e.charged.Hours() * e.price) : Json(nullptr);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attune
