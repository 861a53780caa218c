// attune_fit_physics FILE [--sweeps N] [--folds K] [--seed N] [--rows] [--explain ID]: fits the
// coefficients marked `fitted` in src/sim/data/coefficients.tsv, the scalar of each stack profile
// and the all-to-all rate of EFA to the published table, and prints them as lines of those tables.
// Cyclic pattern search over the real implementation: each parameter moves within its bounds, its
// step grows on success and shrinks on failure. Deterministic: the seed orders the parameters and
// deals the folds.
// --folds K: fits K times without one fold of groups each, and prints the error on what was left
// out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "attune/base/random.h"
#include "attune/base/text.h"
#include "throughput_score.h"

namespace attune::corpus {
namespace {

struct Parameter {
  std::string name;
  double* value;
  double low, high;
  bool logarithmic;
  double center, spread;  // prior: a (log) distance from center costs half its square over spread
  double step = 0.15;
};

// A coefficient may leave its source's value by this much (in log) at about the cost of a badly
// missed row; a stack's scalar, which could soak up what the physics should explain, by less.
constexpr double kSpread = 0.35, kStackSpread = 0.2;

using StackKey = std::pair<std::string, std::string>;

struct Guess {
  sim::Coefficients c = sim::BuiltInCoefficients();
  std::map<StackKey, double> factors;
  double efa_alltoall = 0.5;

  sim::StackProfile Stack(const ThroughputRow& row) const {
    sim::StackProfile s = StackOf(row, true);
    const auto it = factors.find({s.framework, s.version});
    if (it != factors.end()) s.factor = it->second;
    return s;
  }
};

class Fit {
 public:
  Fit(std::vector<ThroughputRow> rows, std::uint64_t seed) : rows_(std::move(rows)), seed_(seed) {
    for (const ThroughputRow& row : rows_) {
      if (!row.not_modelled.empty()) continue;
      const sim::StackProfile s = StackOf(row, true);
      guess_.factors.emplace(StackKey{s.framework, s.version}, s.factor);
      if (row.machine.network.name == "efa") {
        guess_.efa_alltoall = row.machine.network.alltoall_efficiency;
      }
    }
    Bind();
    Rank();
  }
  Fit(const Fit&) = delete;

  // Back to what the sources say.
  void Forget() {
    for (Parameter& p : parameters_) *p.value = std::clamp(p.center, p.low, p.high);
  }
  Guess& guess() { return guess_; }
  std::vector<ThroughputRow>& rows() { return rows_; }

  // Weight 0 leaves a row out.
  void Run(int sweeps, const std::vector<double>& weights) {
    weights_ = weights;
    double best = Loss();
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      const double before = best;
      for (Parameter& p : parameters_) best = Move(p, best);
      if (before - best < 1e-6 * before && sweep > 10) break;
    }
    loss_ = best;
  }
  double loss() const { return loss_; }

  // The one scalar of a framework that suits all its rows best, versions ignored.
  std::map<std::string, double> FrameworkFactors() {
    std::map<std::string, double> best;
    for (const ThroughputRow& row : rows_) best.emplace(row.framework, 1);
    Apply();
    for (auto& [framework, factor] : best) {
      double least = -1;
      for (double f = 0.5; f < 2.5; f *= 1.01) {
        double sum = 0;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
          const ThroughputRow& row = rows_[i];
          if (row.framework != framework || weights_[i] <= 0 || !row.not_modelled.empty()) continue;
          sim::StackProfile s = StackOf(row, false);
          s.factor = f;
          sim::ModelStep(row.job, row.machine, s, guess_.c, row.conditions, scratch_);
          const std::optional<double> e = ErrorOf(row, {true, true, scratch_.tokens_per_gpu});
          if (e) sum += std::fabs(std::log(1 + *e));
        }
        if (least < 0 || sum < least) {
          least = sum;
          factor = f;
        }
      }
    }
    return best;
  }

  std::vector<Prediction> Predictions() {
    Apply();
    return Predict(rows_, guess_.c, [this](const ThroughputRow& r) { return guess_.Stack(r); });
  }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  void Bind() {
    const sim::Coefficients first;  // what the sources say before any fit
    for (const sim::CoefficientRow& row : sim::CoefficientRows()) {
      if (!row.fitted) continue;
      parameters_.push_back({std::string(row.name), &(guess_.c.*row.member), row.low, row.high,
                             row.low > 0, first.*row.member, kSpread});
    }
    for (auto& [key, factor] : guess_.factors) {
      // Without a prior the scalar would soak up what the physics should explain.
      parameters_.push_back(
          {key.first + "/" + key.second, &factor, 0.3, 3.5, true, 1, kStackSpread});
    }
    parameters_.push_back({"efa alltoall", &guess_.efa_alltoall, 0.2, 1, true, 0.5, kSpread});
    Random random(seed_);
    for (std::size_t i = parameters_.size(); i > 1; --i) {
      std::swap(parameters_[i - 1], parameters_[random.Below(i)]);
    }
  }
  void Apply() {
    for (ThroughputRow& row : rows_) {
      if (row.machine.network.name == "efa") {
        row.machine.network.alltoall_efficiency = guess_.efa_alltoall;
      }
    }
  }

  // A tuner sees ranks: pairs of one model, cluster and stack in the wrong order cost extra,
  // smoothly from one percent of predicted distance on.
  double RankLoss(const std::vector<Prediction>& p) const {
    double sum = 0;
    for (const auto& [low, high] : ranked_) {
      if (weights_[low] <= 0 || weights_[high] <= 0) continue;
      const double distance = std::log(p[high].tokens / p[low].tokens) / 0.01;
      sum += 0.5 * std::log1p(std::exp(-std::clamp(distance, -40.0, 40.0)));
    }
    return sum;
  }
  void Rank() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t j = 0; j < rows_.size(); ++j) {
        const ThroughputRow &a = rows_[i], &b = rows_[j];
        const bool together = a.model == b.model && a.gpu == b.gpu && a.job.world == b.job.world &&
                              a.framework == b.framework && a.version == b.version &&
                              a.task == b.task && a.job.batch.seq_len == b.job.batch.seq_len;
        if (!together || !ErrorOf(a, {true, true, 1}) || !ErrorOf(b, {true, true, 1})) continue;
        if (*b.published > 1.015 * *a.published) ranked_.emplace_back(i, j);
      }
    }
  }

  // Robust: linear beyond about 4%, so that a few rows nobody explains do not pull the rest.
  double Loss() {
    const std::vector<Prediction> p = Predictions();
    double sum = RankLoss(p);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::optional<double> e = weights_[i] > 0 ? ErrorOf(rows_[i], p[i]) : std::nullopt;
      if (!e) continue;
      const double x = std::log(1 + *e) / 0.04;
      sum += weights_[i] * (std::sqrt(1 + x * x) - 1);
    }
    for (const Parameter& q : parameters_) {
      const double off = q.logarithmic ? std::log(*q.value / q.center)
                                       : (*q.value - q.center) / std::max(0.1, q.center);
      sum += off * off / (2 * q.spread * q.spread);
    }
    return sum;
  }

  double Move(Parameter& p, double best) {
    const double old = *p.value;
    const auto to = [&](double unit) {
      unit = std::clamp(unit, 0.0, 1.0);
      return p.logarithmic ? p.low * std::pow(p.high / p.low, unit)
                           : p.low + unit * (p.high - p.low);
    };
    const double unit = p.logarithmic ? std::log(old / p.low) / std::log(p.high / p.low)
                                      : (old - p.low) / (p.high - p.low);
    for (const double sign : {1.0, -1.0}) {
      *p.value = to(unit + sign * p.step);
      if (*p.value == old) continue;
      const double loss = Loss();
      if (loss < best) {
        p.step = std::min(0.5, sign * p.step * 1.7);
        p.step = std::fabs(p.step);
        return loss;
      }
    }
    *p.value = old;
    p.step = std::max(0.002, p.step * 0.5);
    return best;
  }

  std::vector<ThroughputRow> rows_;
  sim::StepModel scratch_;
  std::vector<std::pair<std::size_t, std::size_t>> ranked_;  // slower, faster as published
  std::uint64_t seed_;
  Guess guess_;
  std::vector<Parameter> parameters_;
  std::vector<double> weights_;
  double loss_ = 0;
};

// Where the slowest stage's step goes, as shares of it.
void Explain(Fit& fit, const std::string& id) {
  for (const ThroughputRow& row : fit.rows()) {
    if (row.id != id || !row.not_modelled.empty()) continue;
    const sim::StepModel m =
        sim::ModelStep(row.job, row.machine, fit.guess().Stack(row), fit.guess().c, row.conditions);
    std::printf("%s: step %.3f s, %d micro-batches, %.0f tokens/s/GPU, peak %.1f GB\n", id.c_str(),
                m.step, m.microbatches, m.tokens_per_gpu, m.peak_bytes / 1e9);
    const sim::Terms& terms = m.stages[static_cast<std::size_t>(m.slowest)].terms;
    for (std::size_t t = 0; t < sim::kTermCount; ++t) {
      if (terms[t] == 0) continue;
      std::printf("  %-20s %6.2f%%\n", std::string(sim::Word(static_cast<sim::Term>(t))).c_str(),
                  100 * terms[t] / m.step);
    }
  }
}

// The two GLM-4.5 rows that the paper's agent estimated from runs it stopped are no measurements.
std::vector<double> Weights(const std::vector<ThroughputRow>& rows) {
  std::vector<double> weights;
  for (const ThroughputRow& row : rows) {
    weights.push_back(row.id == "T574" || row.id == "T575" ? 0 : 1);
  }
  return weights;
}

void PrintScore(const char* what, const Score& s) {
  std::printf(
      "%s: %d rows, median %.1f%%, mean %.1f%%, p90 %.1f%%; signs %d of %d; "
      "OOM %d of %d, ran but OOM %d of %d\n",
      what, s.compared, 100 * s.median, 100 * s.mean, 100 * s.p90, s.pairs_right, s.pairs,
      s.ooms_right, s.ooms, s.ran_wrong, s.ran);
}

// A group (one model, GPU, size and layout) is never on both sides of a split.
std::vector<int> Folds(const std::vector<ThroughputRow>& rows, int folds, std::uint64_t seed,
                       bool by_model) {
  std::map<std::string, int> fold;
  Random random(seed);
  for (const ThroughputRow& row : rows) {
    const std::string key = by_model ? row.model + "|" + row.gpu : row.group;
    fold.emplace(key, 0);
  }
  for (auto& [key, f] : fold) f = static_cast<int>(random.Below(static_cast<std::uint64_t>(folds)));
  std::vector<int> out;
  for (const ThroughputRow& row : rows) {
    out.push_back(fold[by_model ? row.model + "|" + row.gpu : row.group]);
  }
  return out;
}

void CrossValidate(const std::vector<ThroughputRow>& rows, int sweeps, int folds,
                   std::uint64_t seed, bool by_model) {
  const std::vector<int> fold = Folds(rows, folds, seed, by_model);
  std::vector<double> errors;
  for (int k = 0; k < folds; ++k) {
    Fit fit(rows, seed);
    fit.Forget();  // the built-in values have seen what is left out
    std::vector<double> weights = Weights(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (fold[i] == k) weights[i] = 0;
    }
    fit.Run(sweeps, weights);
    const std::vector<Prediction> p = fit.Predictions();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (fold[i] != k) continue;
      if (const std::optional<double> e = ErrorOf(rows[i], p[i])) errors.push_back(std::fabs(*e));
    }
  }
  std::printf("left out by %s, %d folds: %zu rows, median %.1f%%, p90 %.1f%%\n",
              by_model ? "model and GPU" : "group", folds, errors.size(), 100 * MedianOf(errors),
              100 * QuantileOf(errors, 0.9));
}

int Main(const std::vector<std::string>& args) {
  std::string path;
  std::int64_t sweeps = 60, folds = 0, seed = 1;
  bool show_rows = false;
  std::vector<std::string> explain;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto number = [&](std::int64_t& to) {
      const std::optional<std::int64_t> n =
          i + 1 < args.size() ? ParseInt(args[++i]) : std::nullopt;
      if (n) to = *n;
      return n.has_value();
    };
    bool good = true;
    if (args[i] == "--sweeps") {
      good = number(sweeps);
    } else if (args[i] == "--folds") {
      good = number(folds);
    } else if (args[i] == "--seed") {
      good = number(seed);
    } else if (args[i] == "--explain" && i + 1 < args.size()) {
      explain.push_back(args[++i]);
    } else if (args[i] == "--rows") {
      show_rows = true;
    } else {
      good = path.empty();
      path = args[i];
    }
    if (!good) path.clear();
    if (!good) break;
  }
  if (path.empty()) {
    std::fprintf(stderr,
                 "usage: attune_fit_physics FILE [--sweeps N] [--folds K] [--seed N] [--rows] "
                 "[--explain ID]\n");
    return 2;
  }
  auto rows = ReadThroughputRows(path);
  if (!rows) {
    std::fprintf(stderr, "attune_fit_physics: %s\n", rows.error().message.c_str());
    return 2;
  }
  Fit fit(*rows, static_cast<std::uint64_t>(seed));
  PrintScore("before", ScoreOf(fit.rows(), fit.Predictions()));
  fit.Run(static_cast<int>(sweeps), Weights(*rows));
  const auto shared = fit.FrameworkFactors();
  const std::vector<Prediction> predictions = fit.Predictions();
  PrintScore("fitted", ScoreOf(fit.rows(), predictions));
  std::printf("loss %.2f\n", fit.loss());
  std::vector<std::string> lines;
  for (const Parameter& p : fit.parameters()) {
    const double edge = (p.high - p.low) * 0.01;
    const bool at_edge = *p.value < p.low + edge || *p.value > p.high - edge;
    lines.push_back(p.name + "\t" + fmt::format("{:.4g}", *p.value) + (at_edge ? "\tEDGE" : ""));
  }
  for (const auto& [framework, factor] : shared) {
    lines.push_back("one profile " + framework + "\t" + fmt::format("{:.3g}", factor));
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  for (std::size_t i = 0; show_rows && i < rows->size(); ++i) {
    const ThroughputRow& r = (*rows)[i];
    const std::optional<double> e = ErrorOf(r, predictions[i]);
    if (r.outcome == "oom") {
      std::printf("oom %s mem %.1f of %.1f\n", r.id.c_str(), predictions[i].peak / 1e9,
                  predictions[i].limit / 1e9);
    }
    if (e) {
      std::printf("row %s %+.1f%% pred %.1f pub %.1f %s %s mem %.1f of %.1f %s\n", r.id.c_str(),
                  100 * *e, predictions[i].tokens, *r.published, r.framework.c_str(),
                  r.version.c_str(), predictions[i].peak / 1e9, predictions[i].limit / 1e9,
                  r.group.c_str());
    }
  }
  for (const std::string& id : explain) Explain(fit, id);
  if (folds > 1) {
    CrossValidate(*rows, static_cast<int>(sweeps), static_cast<int>(folds),
                  static_cast<std::uint64_t>(seed), false);
    CrossValidate(*rows, static_cast<int>(sweeps), static_cast<int>(folds),
                  static_cast<std::uint64_t>(seed), true);
  }
  return 0;
}

}  // namespace
}  // namespace attune::corpus

int main(int argc, char** argv) {
  return attune::corpus::Main(std::vector<std::string>(argv + 1, argv + argc));
}
