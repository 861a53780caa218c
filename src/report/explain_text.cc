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

Json Of(const std::vector<Finding>& findings) {
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

Json Of(const Measurement& m) {
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

Json Of(const Diagnosis& d) {
  Json json = {{"source", d.source}, {"summary", d.summary}};
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
  if (e.expected_gain) {
    lines.Add("expected", fmt::format("{:+.1f}% to {:+.1f}%", 100 * e.expected_gain->first,
                                      100 * e.expected_gain->second));
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
    for (const Bottleneck& b : e.diagnosis->bottlenecks) {
      if (b.named) lines.Add("", b.cls + ": " + b.evidence);
    }
  }
  key = "then";
  for (const std::string& next : e.next) lines.Add(std::exchange(key, ""), next);
  lines.Add("cost", e.run.empty() ? "nothing: it was not launched" : Cost(e));
  return text + lines.Take();
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
  json["lever"] = e.lever;
  json["change"] = e.change;
  json["argv_diff"] = e.argv_diff;
  json["gate"] = nullptr;
  if (e.has_gate) {
    json["gate"] = {{"admitted", e.admitted},
                    {"reason", e.turned_back},
                    {"detail", e.turned_back_detail},
                    {"findings", Of(e.gate)}};
  }
  json["timeline"] = Json::array();
  for (const ExplainedMoment& m : e.timeline) {
    json["timeline"].push_back({{"at", Rfc3339(m.at)}, {"what", m.what}});
  }
  json["measurement"] = e.measurement ? Of(*e.measurement) : Json(nullptr);
  json["gain_pct"] = e.gain ? Json(100 * *e.gain) : Json(nullptr);
  json["reason"] = e.reason;
  json["findings"] = Of(e.findings);
  json["diagnosis"] = e.diagnosis ? Of(*e.diagnosis) : Json(nullptr);
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
