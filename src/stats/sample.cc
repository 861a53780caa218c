#include <algorithm>
#include <cmath>

#include "attune/base/check.h"
#include "attune/stats/stats.h"

namespace attune {

double Mean(std::span<const double> xs) {
  ATTUNE_CHECK(!xs.empty(), "a mean needs a value");
  double sum = 0;
  for (const double x : xs) {
    sum += x;
  }
  return sum / static_cast<double>(xs.size());
}

double SampleSd(std::span<const double> xs) {
  ATTUNE_CHECK(xs.size() >= 2, "a spread needs two values");
  const double mean = Mean(xs);
  double squares = 0;
  for (const double x : xs) {
    squares += (x - mean) * (x - mean);
  }
  return std::sqrt(squares / static_cast<double>(xs.size() - 1));
}

double RelativeSd(std::span<const double> xs) {
  const double mean = Mean(xs);
  ATTUNE_CHECK(mean != 0, "a relative spread needs a mean");
  return SampleSd(xs) / std::abs(mean);
}

double Percentile(std::span<const double> xs, double p) {
  ATTUNE_CHECK(!xs.empty() && p >= 0 && p <= 1, "a percentile needs values and a share");
  std::vector<double> sorted(xs.begin(), xs.end());
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(sorted.begin(), at, sorted.end());
  const double fraction = place - static_cast<double>(below);
  if (fraction == 0) {
    return *at;
  }
  const double above = *std::min_element(at + 1, sorted.end());
  return *at + fraction * (above - *at);
}

double Median(std::span<const double> xs) { return Percentile(xs, 0.5); }

double Mad(std::span<const double> xs) {
  const double median = Median(xs);
  std::vector<double> distances;
  distances.reserve(xs.size());
  for (const double x : xs) {
    distances.push_back(std::abs(x - median));
  }
  return Median(distances);
}

double GeometricMean(std::span<const double> xs) {
  ATTUNE_CHECK(!xs.empty(), "a mean needs a value");
  double logs = 0;
  for (const double x : xs) {
    ATTUNE_CHECK(x > 0, "a geometric mean needs positive values");
    logs += std::log(x);
  }
  return std::exp(logs / static_cast<double>(xs.size()));
}

double TheilSenSlope(std::span<const double> ys) {
  ATTUNE_CHECK(ys.size() >= 2, "a slope needs two values");
  std::vector<double> slopes;
  slopes.reserve(ys.size() * (ys.size() - 1) / 2);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    for (std::size_t j = i + 1; j < ys.size(); ++j) {
      slopes.push_back((ys[j] - ys[i]) / static_cast<double>(j - i));
    }
  }
  return Median(slopes);
}

double Lag1Autocorrelation(std::span<const double> xs) {
  ATTUNE_CHECK(xs.size() >= 2, "a correlation needs two values");
  const double mean = Mean(xs);
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double d = xs[i] - mean;
    squares += d * d;
    if (i + 1 < xs.size()) {
      products += d * (xs[i + 1] - mean);
    }
  }
  return squares > 0 ? products / squares : 0;
}

MeanVerdict MeanRule(std::span<const double> a, std::span<const double> b, double band) {
  if (MeanRatioExceeds(a, b, band)) {
    return MeanVerdict::kBeats;
  }
  return MeanRatioExceeds(b, a, band) ? MeanVerdict::kLoses : MeanVerdict::kTie;
}

KnownSigma KnownSigmaRule(std::span<const double> xs, double target, double constant) {
  ATTUNE_CHECK(!xs.empty(), "a mean needs a value");
  const Decimal n(static_cast<std::int64_t>(xs.size()));
  // With d = n (target - mean): d / sqrt(n) >= c, for d and c of one sign d^2 >= c^2 n.
  const Decimal d = Decimal::FromDouble(target) * n - Sum(xs);
  const Decimal c = Decimal::FromDouble(constant);
  const bool square = d * d >= c * c * n;
  KnownSigma rule;
  rule.value = d.ToDouble() / std::sqrt(static_cast<double>(xs.size()));
  if (c.Sign() >= 0) {
    rule.accept = d.Sign() >= 0 && square;
  } else {
    rule.accept = d.Sign() >= 0 || d * d <= c * c * n;
  }
  return rule;
}

}  // namespace attune
