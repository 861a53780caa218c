#include <nlohmann/json.hpp>

#include "attune/report/report.h"
#include "report_lines.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json Of(const Finding& f) {
  return {{"severity", Word(f.severity)},
          {"rule", f.rule},
          {"key", f.key},
          {"was", f.was},
          {"now", f.now},
          {"why", f.why}};
}

Json Of(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) list.push_back(Of(f));
  return list;
}

Json Of(const FinalResult& f) {
  return {{"leader", f.leader.value},       {"verified", f.passed},
          {"gain_pct", 100 * f.gain},       {"baseline", f.baseline_mean},
          {"winner", f.winner_mean},        {"blocks", f.block_ratios.size()},
          {"block_ratios", f.block_ratios}, {"p", f.p},
          {"p_floor", f.p_floor},           {"strength", f.strength},
          {"rehearsed", f.rehearsed},       {"reason", f.reason},
          {"findings", Of(f.findings)}};
}

Json Of(const std::vector<ReportTrial>& trials) {
  Json list = Json::array();
  for (const ReportTrial& t : trials) {
    list.push_back({{"run", t.run.value},
                    {"label", t.label},
                    {"lever", t.lever},
                    {"change", t.change},
                    {"result", t.result},
                    {"score", OrNull(t.score)},
                    {"gain_pct", t.gain ? Json(100 * *t.gain) : Json(nullptr)},
                    {"reason", t.reason}});
  }
  return list;
}

Json Of(const std::vector<ReportRefusal>& refusals) {
  Json list = Json::array();
  for (const ReportRefusal& x : refusals) {
    list.push_back({{"proposal", x.proposal.value},
                    {"label", x.label},
                    {"rule", x.rule},
                    {"was", x.was},
                    {"now", x.now},
                    {"why", x.why}});
  }
  return list;
}

Json Hours(const Report& r) {
  const Ledger& l = r.ledger;
  return {
      {"used", l.Charged().Hours()}, {"budget", r.budget ? Json(r.budget->Hours()) : Json(nullptr)},
      {"held", l.held.Hours()},      {"calibration", l.calibration.Hours()},
      {"search", l.search.Hours()},  {"final", l.final.Hours()},
      {"failed", l.failed.Hours()},  {"idle", l.idle.Hours()},
      {"overrun", l.overrun.Hours()}};
}

Json Counted(const Counts& c) {
  return {{"launched", c.launched},  {"win", c.win},         {"tie", c.tie},
          {"loss", c.loss},          {"failed", c.failed},   {"stopped_early", c.stopped_early},
          {"rejected", c.rejected},  {"refused", c.refused}, {"turned_back", c.turned_back},
          {"duplicate", c.duplicate}};
}

}  // namespace

std::string ReportJson(const Report& r) {
  Json json = {{"schema", "attune.report/1"}, {"campaign", r.campaign.value}};
  json["recipe"] = r.recipe;
  json["model"] = r.model;
  json["gpus"] = r.gpus;
  json["gpu"] = r.gpu;
  json["phase"] = Word(r.phase);
  json["phase_reason"] = r.phase_reason;
  json["stop_reason"] = r.stop.empty() ? Json(nullptr) : Json(r.stop);
  json["opened"] = Rfc3339(r.opened_at);
  json["updated"] = Rfc3339(r.last_at);
  json["score_unit"] = "tok/s/GPU";
  json["shipped"] = r.phase == Phase::kShipped;
  json["baseline"] = nullptr;
  json["band_pct"] = nullptr;
  if (r.baseline) {
    json["baseline"] = {{"mean", r.baseline->mean},
                        {"sigma_pct", 100 * r.baseline->sigma},
                        {"n", r.baseline->runs},
                        {"how", r.baseline->how},
                        {"distinct_nodes", r.baseline->distinct_nodes}};
    json["band_pct"] = 100 * r.baseline->band;
  }
  json["relaxed"] = r.relaxed;
  json["leader"] = {{"run", r.leader.empty() ? Json(nullptr) : Json(r.leader.value)},
                    {"score", r.leader_mean},
                    {"gain_pct", 100 * r.leader_gain}};
  json["changes"] = r.changes;
  json["final"] = r.final ? Of(*r.final) : Json(nullptr);
  json["fell"] = Json::array();
  for (const FinalResult& f : r.fell) json["fell"].push_back(Of(f));
  json["mfu"] = OrNull(r.mfu);
  json["gate"] = {{"admitted", r.admitted},
                  {"duplicates", r.duplicates},
                  {"refused", Of(r.refused)},
                  {"turned_back", Of(r.turned_back)},
                  {"alarms", Of(r.alarms)}};
  json["step0"] = nullptr;
  if (r.step0) {
    json["step0"] = {{"largest_shift_pct", 100 * r.step0->largest},
                     {"runs", r.step0->runs},
                     {"limit_pct", 100 * r.step0->limit},
                     {"weak", r.step0->weak}};
  }
  json["survived"] = {
      {"steps", r.steps_survived}, {"runs", r.runs_of_leader}, {"longest_run", r.longest_run}};
  json["accepted"] = Json::array();
  for (const AcceptedLever& a : r.accepted) {
    json["accepted"].push_back({{"lever", a.lever}, {"why", a.why}});
  }
  json["gpu_hours"] = Hours(r);
  json["usd"] = r.price > 0 ? Json(r.ledger.Charged().Hours() * r.price) : Json(nullptr);
  json["counts"] = Counted(r.counts);
  json["curve"] = Json::array();
  for (const ReportPoint& p : r.curve) {
    json["curve"].push_back({{"gpu_hours", p.gpu_hours},
                             {"gain_pct", 100 * p.gain},
                             {"run", p.run.empty() ? Json(nullptr) : Json(p.run.value)},
                             {"verified", p.verified}});
  }
  json["paid"] = Of(r.paid);
  json["no_gain"] = Of(r.no_gain);
  json["remaining"] = Json::array();
  for (const ReportRemaining& left : r.remaining) {
    json["remaining"].push_back({{"class", left.bottleneck},
                                 {"share", left.share < 0 ? Json(nullptr) : Json(left.share)},
                                 {"tried", left.tried},
                                 {"untried", left.untried},
                                 {"lever_classes", left.classes}});
  }
  json["bundle"] = r.bundle.empty() ? Json(nullptr) : Json(r.bundle);
  json["reproduce"] = "attune export " + r.campaign.value + " --as command";
  // Numbers that are not finite become null, bytes that are no UTF-8 U+FFFD.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attune
