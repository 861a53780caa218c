#include "summary.h"

#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/gates/calibration.h"
#include "attune/report/report.h"
#include "exit_code.h"
#include "json_out.h"
#include "ship.h"

namespace attune::cli {
namespace {

std::string Changes(const CampaignState& s) {
  const std::string text = DescribeDifference(s.recipe.base, s.leader.user);
  return text.empty() ? "none" : EscapeForDisplay(text, 2'000);
}

const FinalResult* Passed(const CampaignState& s) {
  return !s.finals.empty() && s.finals.back().passed ? &s.finals.back() : nullptr;
}

std::string Spent(const CampaignState& s) {
  const Counts counts = CountsOf(s);
  std::string text = fmt::format("{}", ShowGpuHours(s.ledger.Charged()));
  if (s.budget) text += fmt::format(" of {}", ShowGpuHours(*s.budget));
  text += " GPU-h";
  if (s.recipe.price_gpu_hour_usd > 0) {
    text += fmt::format(" (${:.2f} at ${:.2f})",
                        s.ledger.Charged().Hours() * s.recipe.price_gpu_hour_usd,
                        s.recipe.price_gpu_hour_usd);
  }
  text += fmt::format("   {} launches in the search, {} failed ({} GPU-h)", counts.launched,
                      counts.failed, ShowGpuHours(s.ledger.failed));
  if (s.llm_usd_micros > 0) {
    text += fmt::format("   llm ${:.2f}", static_cast<double>(s.llm_usd_micros) / 1e6);
  }
  return text;
}

std::string Relaxed(const CampaignState& s) {
  if (s.recipe.measure.relaxed.empty()) return {};
  return "  measure   relaxed (" + Join(s.recipe.measure.relaxed, ", ") + ")\n";
}

}  // namespace

std::string NoiseAdvice(const CampaignState& s) {
  constexpr double kWide = 0.06;
  if (!s.calibration || s.calibration->band <= kWide) return {};
  const int runs = RunsForBand(s.calibration->sigma, 0.03, Thresholds{});
  return fmt::format(
      "the band is {:.1f}% because the baseline's own runs differ by {:.1f}% (sigma); a change "
      "that "
      "gains less cannot win. About {} calibration runs, or a quieter machine, bring it to 3%",
      100 * s.calibration->band, 100 * s.calibration->sigma, runs);
}

std::string SummaryText(const CampaignState& s, int code, const std::string& why,
                        const std::string& folder) {
  std::string text;
  if (const FinalResult* f = Passed(s); f != nullptr && s.phase == Phase::kShipped) {
    text += fmt::format(
        "attune: {}  gain {:+.1f}% ({:.1f} -> {:.1f} tok/s/GPU)  verified, strength {}\n",
        s.id.value, 100 * f->gain, f->baseline_mean, f->winner_mean, f->strength);
    text += "  changes   " + Changes(s) + "\n";
  } else if (s.phase == Phase::kNoGain) {
    text += fmt::format("attune: {}  no gain beyond the band", s.id.value);
    if (s.calibration) {
      text += fmt::format(" ({:.2f}%); the recipe as given stays at {:.1f} tok/s/GPU",
                          100 * s.calibration->band, s.calibration->mean);
    }
    text += "\n";
    for (const FinalResult& fell : s.finals) {
      text +=
          fmt::format("  fell      {}: {}\n", fell.leader.value, EscapeForDisplay(fell.reason));
    }
    if (const std::string advice = NoiseAdvice(s); !advice.empty()) {
      text += "  noise     " + advice + "\n";
    }
  } else {
    text += fmt::format("attune: {}  {}: {}\n", s.id.value,
                        s.Ended() ? std::string(Word(s.phase)) : std::string("not finished"),
                        EscapeForDisplay(why, 1'000));
    if (s.leader.mean > 0) {
      text += fmt::format("  so far    {} {:.1f} tok/s/GPU ({:+.1f}%, not verified)\n",
                          s.leader.run.empty() ? "baseline" : s.leader.run.value, s.leader.mean,
                          100 * s.leader.gain);
    }
    if (const std::string advice = NoiseAdvice(s); code == kExitLimit && !advice.empty()) {
      text += "  noise     " + advice + "\n";
    }
  }
  if (s.calibration) {
    text += fmt::format("  baseline  {:.1f} tok/s/GPU  sigma {:.2f}%  band {:.2f}% ({})\n",
                        s.calibration->mean, 100 * s.calibration->sigma, 100 * s.calibration->band,
                        s.calibration->how);
  }
  text += Relaxed(s);
  if (s.opened && !s.opened->world.empty()) {
    text += fmt::format("  simulated in world {}; no real GPU was used\n",
                        EscapeForDisplay(s.opened->world));
  }
  text += "  spent     " + Spent(s) + "\n";
  if (const FinalResult* f = Passed(s); f != nullptr && s.phase == Phase::kShipped && f->gain > 0) {
    text += "  pays back " + PaysBack(s.ledger.Charged(), f->gain, s.recipe.workload.gpus) + "\n";
  }
  if (s.shipped) {
    if (s.phase == Phase::kShipped) {
      text += "  recipe    " + ShippedPlace(folder, s.shipped->recipe_path) + "\n";
    }
    text += "  bundle    " + ShippedPlace(folder, s.shipped->bundle) + "\n";
  }
  text += s.Ended() ? fmt::format("  report    attune report {}\n", s.id.value)
                    : fmt::format("  next      attune resume {}\n", s.id.value);
  return text;
}

std::string SummaryJson(const CampaignState& s, int code, const std::string& why) {
  JsonOut json("attune.end/1");
  json.Text("campaign", s.id.value);
  json.Text("phase", Word(s.phase));
  json.Int("code", code);
  json.Text("why", why);
  json.Text("stop_reason", s.stop);
  const FinalResult* f = Passed(s);
  if (f != nullptr) {
    JsonOut final("");
    final.Number("gain_pct", 100 * f->gain);
    final.Number("baseline", f->baseline_mean);
    final.Number("winner", f->winner_mean);
    final.Int("blocks", static_cast<std::int64_t>(f->block_ratios.size()));
    final.Bool("verified", f->passed);
    final.Text("strength", f->strength);
    json.Raw("final", final.Take());
  } else {
    json.Null("final");
  }
  json.Text("changes", DescribeDifference(s.recipe.base, s.leader.user));
  JsonOut hours("");
  hours.Number("used", s.ledger.Charged().Hours());
  hours.Number("held", s.ledger.held.Hours());
  hours.Number("calibration", s.ledger.calibration.Hours());
  hours.Number("search", s.ledger.search.Hours());
  hours.Number("final", s.ledger.final.Hours());
  hours.Number("failed", s.ledger.failed.Hours());
  hours.Number("overrun", s.ledger.overrun.Hours());
  hours.Number("budget", s.budget ? std::optional<double>(s.budget->Hours()) : std::nullopt);
  json.Raw("gpu_hours", hours.Take());
  if (s.shipped) {
    json.Text("bundle", s.shipped->bundle);
    json.Text("recipe", s.shipped->recipe_path);
  }
  return json.Take();
}

}  // namespace attune::cli
