#include "throughput_score.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "attune/base/text.h"

namespace attune::corpus {
namespace {

bool DifferBeyondVersion(const ThroughputRow& a, const ThroughputRow& b) {
  return a.design != b.design;
}

// Some input beside the version is stated by both rows, differently: a blank may mean the same.
bool StateADifference(const ThroughputRow& a, const ThroughputRow& b) {
  const std::vector<std::string_view> x = SplitLines(a.design), y = SplitLines(b.design);
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (x[i] != y[i] && !x[i].ends_with('=') && !y[i].ends_with('=')) return true;
  }
  return false;
}

std::vector<double> Ranks(const std::vector<double>& x) {
  std::vector<std::size_t> order(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  std::vector<double> rank(x.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t j = i;
    while (j < order.size() && x[order[j]] == x[order[i]]) ++j;
    for (std::size_t k = i; k < j; ++k) {
      rank[order[k]] = static_cast<double>(i + j - 1) / 2;
    }
    i = j;
  }
  return rank;
}

// Where recomputation is not stated nobody can say that memory ran out: it buys what is missing.
bool FitsRecomputed(const ThroughputRow& row, const sim::StackProfile& stack,
                    const sim::Coefficients& c) {
  if (row.states_recompute) return false;
  TrainingJob job = row.job;
  job.switches.recompute = "full";
  job.switches.recompute_method = "uniform";
  return sim::ModelStep(job, row.machine, stack, c, row.conditions).fits;
}

}  // namespace

std::vector<Prediction> Predict(
    std::span<const ThroughputRow> rows, const sim::Coefficients& c,
    const std::function<sim::StackProfile(const ThroughputRow&)>& stack) {
  std::vector<Prediction> out(rows.size());
  sim::StepModel model;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ThroughputRow& row = rows[i];
    if (!row.not_modelled.empty()) continue;
    const sim::StackProfile profile = stack(row);
    sim::ModelStep(row.job, row.machine, profile, c, row.conditions, model);
    const bool fits = model.fits || FitsRecomputed(row, profile, c);
    out[i] = {true, fits, model.tokens_per_gpu, model.peak_bytes, model.limit_bytes};
  }
  return out;
}

std::optional<double> ErrorOf(const ThroughputRow& row, const Prediction& p) {
  if (!p.modelled || !row.published || row.outcome == "oom" || *row.published <= 0) {
    return std::nullopt;
  }
  return p.tokens / *row.published - 1;
}

Score ScoreOf(std::span<const ThroughputRow> rows, std::span<const Prediction> predictions) {
  Score s;
  std::vector<double> errors;
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!predictions[i].modelled) continue;
    if (rows[i].outcome == "oom") {
      ++s.ooms;
      s.ooms_right += predictions[i].fits ? 0 : 1;
      continue;
    }
    if (const std::optional<double> e = ErrorOf(rows[i], predictions[i])) {
      errors.push_back(std::fabs(*e));
      groups[rows[i].group].push_back(i);
    }
    if (rows[i].outcome == "ok") {
      ++s.ran;
      s.ran_wrong += predictions[i].fits ? 0 : 1;
    }
  }
  for (const auto& [name, members] : groups) {
    for (std::size_t a = 0; a < members.size(); ++a) {
      for (std::size_t b = a + 1; b < members.size(); ++b) {
        const std::size_t i = members[a], j = members[b];
        const double published = *rows[i].published / *rows[j].published;
        if (std::max(published, 1 / published) <= 1.05) continue;
        if (!DifferBeyondVersion(rows[i], rows[j])) continue;
        ++s.pairs;
        const double predicted = predictions[i].tokens / predictions[j].tokens;
        const bool right = (published > 1) == (predicted > 1) && predicted != 1;
        s.pairs_right += right ? 1 : 0;
        if (!StateADifference(rows[i], rows[j])) continue;
        ++s.stated_pairs;
        s.stated_right += right ? 1 : 0;
      }
    }
  }
  s.compared = static_cast<int>(errors.size());
  for (const double e : errors) s.mean += e / static_cast<double>(errors.size());
  s.median = MedianOf(errors);
  s.p90 = QuantileOf(errors, 0.9);
  return s;
}

double MedianOf(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double QuantileOf(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double rank = std::ceil(q * static_cast<double>(v.size()));
  return v[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || a.size() != b.size()) return 0;
  const std::vector<double> ra = Ranks(a), rb = Ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

}  // namespace attune::corpus
