// What the agent expected of its launches against what came: kept with each proposal, and shown to
// it, because a forecaster that sees its misses gets better at the next one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"

namespace attune {

struct Forecast {
  ProposalId proposal;
  RunId run;
  std::string label;
  std::pair<double, double> gain{0, 0};  // expected, over the leader of that moment
  std::optional<double> peak_gb;
  std::optional<double> got_gain;  // absent: the run has no score
  std::optional<double> got_peak_gb;
  Standing standing = Standing::kInvalid;
  RunEnd end = RunEnd::kCompleted;
};

// Of every judged run whose proposal expected a gain, oldest first.
std::vector<Forecast> ForecastsOf(const CampaignState& s);

struct ForecastRecord {
  int scored = 0, inside = 0, above = 0, below = 0;  // of the runs that have a gain
  int no_score = 0;                                  // failed, rejected, stopped early ...
  double mean_miss = 0;  // got - middle of the range, of the scored ones; a relative gain
  int peaks = 0;
  double mean_peak_ratio = 0;  // measured / expected peak memory
};
ForecastRecord RecordOf(const std::vector<Forecast>& forecasts);

std::string ForecastLine(const Forecast& forecast);
std::string RecordLine(const ForecastRecord& record);

}  // namespace attune
