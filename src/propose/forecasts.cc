#include "forecasts.h"

#include <fmt/core.h>

namespace attune {
namespace {

constexpr double kGb = 1e9;

std::string Percent(double x) { return fmt::format("{:+.1f}%", 100 * x); }

}  // namespace

std::vector<Forecast> ForecastsOf(const CampaignState& s) {
  std::vector<Forecast> out;
  for (const ProposalRecord& p : s.proposals) {
    const RunRecord* run = s.FindRun(p.run);
    if (!p.proposal || !p.proposal->expected_gain || run == nullptr || !run->judged) continue;
    Forecast f;
    f.proposal = p.id;
    f.run = p.run;
    f.label = run->plan.label;
    f.gain = *p.proposal->expected_gain;
    f.peak_gb = p.proposal->expected_peak_gb;
    f.got_gain = run->judged->gain;
    if (run->memory.max_reserved > 0) {
      f.got_peak_gb = static_cast<double>(run->memory.max_reserved) / kGb;
    }
    f.standing = run->judged->standing;
    if (run->end) f.end = run->end->detail.end;
    out.push_back(std::move(f));
  }
  return out;
}

ForecastRecord RecordOf(const std::vector<Forecast>& forecasts) {
  ForecastRecord r;
  double misses = 0, ratios = 0;
  for (const Forecast& f : forecasts) {
    if (f.peak_gb && *f.peak_gb > 0 && f.got_peak_gb) {
      ++r.peaks;
      ratios += *f.got_peak_gb / *f.peak_gb;
    }
    if (!f.got_gain) {
      ++r.no_score;
      continue;
    }
    ++r.scored;
    if (*f.got_gain < f.gain.first) {
      ++r.below;
    } else if (*f.got_gain > f.gain.second) {
      ++r.above;
    } else {
      ++r.inside;
    }
    misses += *f.got_gain - (f.gain.first + f.gain.second) / 2;
  }
  if (r.scored > 0) r.mean_miss = misses / r.scored;
  if (r.peaks > 0) r.mean_peak_ratio = ratios / r.peaks;
  return r;
}

std::string ForecastLine(const Forecast& f) {
  std::string line = fmt::format("{} {} expected {} to {}", f.run.value, f.label,
                                 Percent(f.gain.first), Percent(f.gain.second));
  if (!f.got_gain) {
    line +=
        fmt::format(", got {}", f.standing == Standing::kFailed ? Word(f.end) : Word(f.standing));
  } else {
    line += fmt::format(", got {} ({})", Percent(*f.got_gain),
                        *f.got_gain < f.gain.first    ? "below"
                        : *f.got_gain > f.gain.second ? "above"
                                                      : "inside");
  }
  if (f.peak_gb) {
    line += fmt::format("; peak expected {:.1f} GB", *f.peak_gb);
    if (f.got_peak_gb) line += fmt::format(", got {:.1f}", *f.got_peak_gb);
  }
  return line;
}

std::string RecordLine(const ForecastRecord& r) {
  if (r.scored + r.no_score == 0) return "no forecast has an outcome yet";
  std::string line =
      fmt::format("{} of {} scored runs inside the expected range, {} below, {} above", r.inside,
                  r.scored, r.below, r.above);
  if (r.scored > 0) {
    line += fmt::format("; on the mean {:+.1f} points from its middle", 100 * r.mean_miss);
  }
  if (r.no_score > 0) line += fmt::format("; {} without a score", r.no_score);
  if (r.peaks > 0) {
    line += fmt::format("; peak memory {:.2f} x what was expected", r.mean_peak_ratio);
  }
  return line;
}

}  // namespace attune
