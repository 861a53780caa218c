#include "report_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "attune/base/text.h"
#include "attune/report/levers_against.h"

namespace attune::report {
namespace {

std::string Percent(double x) { return fmt::format("{:+.1f}%", 100 * x); }

std::string Dollars(const Report& r, GpuMillis g) {
  return r.price > 0 ? fmt::format(" = ${:.2f}", g.Hours() * r.price) : std::string();
}

std::string Gain(const Report& r) {
  if (r.final) {
    std::string text =
        fmt::format("{:.1f} tok/s/GPU   {} over the re-measured recipe ({:.1f})",
                    r.final->winner_mean, Percent(r.final->gain), r.final->baseline_mean);
    if (r.mfu) text += fmt::format("   MFU {:.1f}%", 100 * *r.mfu);
    return text;
  }
  if (r.phase == Phase::kNoGain) {
    return r.baseline ? fmt::format(
                            "no gain beyond the band ({:.2f}%); the recipe as given stays "
                            "at {:.1f} tok/s/GPU",
                            100 * r.baseline->band, r.baseline->mean)
                      : std::string("nothing was measured");
  }
  if (r.leader_mean <= 0) return "nothing is measured yet";
  return fmt::format("best so far {} {:.1f} tok/s/GPU ({}, not verified)",
                     r.leader.empty() ? "the recipe" : r.leader.value, r.leader_mean,
                     Percent(r.leader_gain));
}

void AddEvidence(const Report& r, std::vector<Line>& lines) {
  if (r.final) {
    std::vector<std::string> ratios;
    for (const double ratio : r.final->block_ratios) ratios.push_back(fmt::format("{:.4f}", ratio));
    lines.push_back(
        {"evidence", fmt::format("{} blocks of recipe and winner in turn; winner over recipe {}; "
                                 "sign-flip p {:.4g} (lowest that so many blocks can give: {:.4g})",
                                 ratios.size(), Join(ratios, " "), r.final->p, r.final->p_floor)});
  }
  if (r.baseline) {
    lines.push_back({"band", fmt::format("{:.2f}%: sigma {:.2f}% from {} calibration runs ({}{})",
                                         100 * r.baseline->band, 100 * r.baseline->sigma,
                                         r.baseline->runs, r.baseline->how,
                                         r.baseline->distinct_nodes ? ", distinct nodes" : "")});
  }
  if (!r.relaxed.empty()) lines.push_back({"measure", "relaxed (" + Join(r.relaxed, ", ") + ")"});
  for (const FinalResult& f : r.fell) {
    lines.push_back({"fell", fmt::format("{}: {}", f.leader.value, f.reason)});
  }
}

void AddGate(const Report& r, std::vector<Line>& lines) {
  std::string gate = fmt::format("{} admitted, {} refused", r.admitted, r.refused.size());
  if (r.duplicates > 0) gate += fmt::format(", {} duplicate", r.duplicates);
  if (!r.turned_back.empty()) gate += fmt::format(", {} turned back", r.turned_back.size());
  if (r.counts.rejected > 0) {
    gate += fmt::format(", {} rejected by what they computed", r.counts.rejected);
  }
  lines.push_back({"gate", gate});
  for (const auto& [key, list] :
       {std::pair{"refused", &r.refused}, std::pair{"turned back", &r.turned_back}}) {
    for (const ReportRefusal& x : *list) {
      std::string text = fmt::format("{} {}  {}", x.proposal.value, x.label, x.rule);
      if (!x.was.empty() || !x.now.empty()) text += fmt::format("  {} -> {}", x.was, x.now);
      if (!x.why.empty()) text += ": " + x.why;
      lines.push_back({key, text});
    }
  }
  if (r.step0) {
    lines.push_back(
        {"step-0 loss", fmt::format("largest shift {:.3f}% over {} runs (limit {:.2f}%){}",
                                    100 * r.step0->largest, r.step0->runs, 100 * r.step0->limit,
                                    r.step0->weak ? "; weak: layouts can't be compared by the "
                                                    "first loss here"
                                                  : "")});
  }
  if (r.steps_survived > 0) {
    lines.push_back({"survived", fmt::format("{} steps in {} runs, the longest {}",
                                             r.steps_survived, r.runs_of_leader, r.longest_run)});
  }
  if (r.final) {
    std::string strength = r.final->strength;
    if (r.final->rehearsed) strength += ", rehearsed in the user's form";
    lines.push_back({"strength", strength});
    for (const Finding& f : r.final->findings) {
      lines.push_back({std::string(Word(f.severity)), f.rule + ": " + f.why});
    }
  }
  for (const Finding& f : r.alarms) {
    lines.push_back(
        {std::string(Word(f.severity)), fmt::format("{} {}: {}", f.rule, f.key, f.why)});
  }
  for (const AcceptedLever& a : r.accepted) {
    lines.push_back(
        {"accepted", fmt::format("{} by the recipe's owner, not tested: {}", a.lever, a.why)});
  }
}

void AddCost(const Report& r, std::vector<Line>& lines) {
  const Ledger& l = r.ledger;
  std::string cost = ShowGpuHours(l.Charged());
  if (r.budget) cost += " of " + ShowGpuHours(*r.budget);
  cost += " GPU-h" + Dollars(r, l.Charged());
  cost += fmt::format(
      ": calibration {}, search {} ({} of it in failed launches), final {}, idle "
      "{}, overrun {}",
      ShowGpuHours(l.calibration), ShowGpuHours(l.search), ShowGpuHours(l.failed),
      ShowGpuHours(l.final), ShowGpuHours(l.idle), ShowGpuHours(l.overrun));
  if (l.held.value > 0) cost += "; held " + ShowGpuHours(l.held);
  lines.push_back({"cost", cost});
  lines.push_back(
      {"launches", fmt::format("{} in the search: {} win, {} tie, {} loss, {} failed, {} stopped "
                               "early, {} rejected",
                               r.counts.launched, r.counts.win, r.counts.tie, r.counts.loss,
                               r.counts.failed, r.counts.stopped_early, r.counts.rejected)});
  if (!r.final || r.final->gain <= 0) return;
  std::string text = PaysBack(l.Charged(), r.final->gain, r.gpus);
  if (r.price > 0 && r.final->baseline_mean > 0 && r.final->winner_mean > 0) {
    const double tokens = 1e6 / 3600;
    text +=
        fmt::format("; $ per 1M tokens {:.4g} -> {:.4g}", r.price * tokens / r.final->baseline_mean,
                    r.price * tokens / r.final->winner_mean);
  }
  lines.push_back({"pays back", text});
}

std::string Show(const ReportRemaining& left) {
  std::string text = left.bottleneck;
  if (left.share >= 0) text += fmt::format(" ({:.1f}% of the step)", 100 * left.share);
  if (!left.tried.empty()) text += "; tried against it: " + Join(left.tried, ", ");
  if (!left.untried.empty()) text += "; not tried: " + ShowLevers(left.untried);
  if (!left.classes.empty()) text += "; levers of class " + Join(left.classes, ", ");
  return text;
}

void AddSearch(const Report& r, std::vector<Line>& lines) {
  std::vector<std::string> points;
  for (const ReportPoint& p : r.curve) {
    points.push_back(fmt::format("{} GPU-h {}{}",
                                 ShowGpuHours(FromGpuHours(std::max(p.gpu_hours, 0.0))),
                                 Percent(p.gain), p.verified ? " (verified)" : ""));
  }
  if (!points.empty()) lines.push_back({"best so far", Join(points, " | ")});
  if (!r.changes.empty()) lines.push_back({"changes", r.changes});
  for (const ReportTrial& t : r.paid) {
    lines.push_back(
        {"paid", fmt::format("{} {} ({}) {} over the one before", t.run.value, t.label,
                             t.lever.empty() ? "-" : t.lever, t.gain ? Percent(*t.gain) : "-")});
  }
  for (const ReportTrial& t : r.no_gain) {
    std::string text = fmt::format("{} {} ({}) {}", t.run.value, t.label, t.change, t.result);
    if (t.gain) text += " " + Percent(*t.gain);
    if (!t.reason.empty()) text += ": " + t.reason;
    lines.push_back({"no gain", text});
  }
  if (!r.baseline_time.empty()) lines.push_back({"time, recipe", r.baseline_time});
  if (!r.leader_time.empty()) lines.push_back({"time, leader", r.leader_time});
  for (const ReportRemaining& left : r.remaining) lines.push_back({"left", Show(left)});
}

}  // namespace

std::string Title(const Report& r) {
  std::string title = fmt::format("{}   {} x {}   {}", r.recipe, r.gpus, r.gpu, r.campaign.value);
  switch (r.phase) {
    case Phase::kShipped:
    case Phase::kNoGain:
    case Phase::kAborted:
      title += "   ended";
      if (!r.stop.empty()) title += ": " + r.stop;
      break;
    case Phase::kCalibrating:
    case Phase::kSearching:
    case Phase::kFinalizing:
      title += fmt::format("   {}", Word(r.phase));
      break;
  }
  return title + "   " + ShowDuration(r.last_at - r.opened_at);
}

std::string Verdict(const Report& r) {
  switch (r.phase) {
    case Phase::kShipped:
      return "SHIPPED";
    case Phase::kNoGain:
      return "NO GAIN";
    case Phase::kAborted:
      return "ABORTED";
    case Phase::kCalibrating:
    case Phase::kSearching:
    case Phase::kFinalizing:
      break;
  }
  return "NOT FINISHED";
}

std::vector<Line> Lines(const Report& r) {
  std::vector<Line> lines;
  lines.push_back({Verdict(r), Gain(r)});
  if (!r.phase_reason.empty()) lines.push_back({"why", r.phase_reason});
  if (!r.paused.empty()) lines.push_back({"paused", r.paused});
  AddEvidence(r, lines);
  AddGate(r, lines);
  AddCost(r, lines);
  AddSearch(r, lines);
  if (!r.shipped_recipe.empty() && r.final) lines.push_back({"recipe", r.shipped_recipe});
  if (!r.bundle.empty()) lines.push_back({"bundle", r.bundle});
  lines.push_back({"reproduce", fmt::format("attune export {} --as command", r.campaign.value)});
  return lines;
}

}  // namespace attune::report

namespace attune {

std::string PaysBack(GpuMillis spent, double gain, int gpus) {
  // Training that would take B GPU-h of the recipe takes B / (1 + gain): what was spent is saved
  // after B = spent / (1 - 1 / (1 + gain)).
  const double pays = spent.Hours() / (1 - 1 / (1 + gain));
  std::string text = fmt::format("after {:.4g} GPU-h of the recipe as given", pays);
  if (gpus > 0) text += fmt::format(" ({:.3g} h on {} GPUs)", pays / gpus, gpus);
  return text;
}

}  // namespace attune
