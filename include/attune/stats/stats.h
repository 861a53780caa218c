// Statistics of small samples: what bands, gates, verdicts and reports need, each from a stated
// source, nothing fitted. Samples are spans of finite doubles; where a function needs more values
// than it gets, that is a broken contract (ATTUNE_CHECK), so callers decide what few values mean.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "attune/stats/decimal.h"

namespace attune {

// ----- descriptions of a sample

double Mean(std::span<const double> xs);                  // n >= 1
double SampleSd(std::span<const double> xs);              // n - 1 in the divisor; n >= 2
double RelativeSd(std::span<const double> xs);            // SampleSd / Mean; n >= 2, mean != 0
double Median(std::span<const double> xs);                // n >= 1
double Mad(std::span<const double> xs);                   // median |x - median|, not scaled; n >= 1
double Percentile(std::span<const double> xs, double p);  // p in [0, 1], linear between the order
                                                          // statistics (Hyndman-Fan 7); n >= 1
double GeometricMean(std::span<const double> xs);         // all > 0; n >= 1
// Median of the slopes of all pairs (Theil 1950, Sen 1968) over the positions 0, 1, ...; n >= 2.
// Quadratic: callers thin long series (see ThinnedDrift in gates).
double TheilSenSlope(std::span<const double> ys);
// sum (x_i - m)(x_{i+1} - m) / sum (x_i - m)^2; 0 for a constant series; n >= 2.
double Lag1Autocorrelation(std::span<const double> xs);

// ----- distributions

// I_x(a, b): continued fraction by the modified Lentz method (Press et al., Numerical Recipes,
// section 6.4; Abramowitz and Stegun 26.5.8). Relative error below 1e-11 for a, b <= 1e4.
double IncompleteBeta(double a, double b, double x);
double InverseIncompleteBeta(double a, double b, double p);  // x with I_x(a, b) = p
double NormalCdf(double z);
double NormalUpperTail(double z);  // 1 - NormalCdf(z) without cancellation
double NormalQuantile(double p);   // 0 < p < 1, by bisection of the tail
double StudentCdf(double t, double df);
double StudentUpperTail(double t, double df);
double StudentQuantile(double p, double df);  // 0 < p < 1, df > 0; relative error below 1e-10
// E[max of k standard normals] = k * integral of x phi(x) Phi(x)^(k-1): the winner's curse.
double ExpectedMaxNormal(int k);  // k >= 1

// ----- intervals and bands

struct Interval {
  double low = 0, high = 0;
};
// Clopper-Pearson: exact in the sense that coverage is at least `confidence`. 0 <= k <= n, n >= 1.
Interval BinomialInterval(std::int64_t k, std::int64_t n, double confidence);
// Upper bound of the rate when none of n failed, one-sided: 1 - (1 - confidence)^(1/n).
double UpperRateIfNone(std::int64_t n, double confidence);
// Where one more replica falls: mean +- t(1 - alpha/2; n-1) s sqrt(1 + 1/n). n >= 2.
struct PredictionBand {
  Interval band;
  double t = 0;
  bool Inside(double x) const { return x >= band.low && x <= band.high; }
};
PredictionBand MakePredictionBand(std::span<const double> replicas, double alpha_two_sided);

// ----- exact tests. All are one-sided ("greater"), count the observed assignment, and count ties
// in full, in exact decimals (values as printed, at most 15 significant digits).

struct ExactTest {
  std::uint64_t count = 0;  // assignments at least as extreme as the observed one
  std::uint64_t total = 0;
  double P() const { return static_cast<double>(count) / static_cast<double>(total); }
  double Floor() const { return 1.0 / static_cast<double>(total); }  // lowest possible p
};
// All C(n+m, n) assignments; statistic mean(a) - mean(b). nullopt: more than 20 million of them.
std::optional<ExactTest> PermutationTest(std::span<const double> a, std::span<const double> b);
struct SampleBlock {
  std::vector<double> a, b;
};
// Values change hands only inside a block; statistic: sum of all a-values. nullopt as above.
std::optional<ExactTest> BlockPermutationTest(std::span<const SampleBlock> blocks);
// H0: symmetric about 0; 2^n sign patterns; statistic: the sum. n <= 24, else nullopt.
std::optional<ExactTest> SignFlipTest(std::span<const double> xs);
// Number of assignments; nullopt beyond 2^63.
std::optional<std::uint64_t> Binomial(std::uint64_t n, std::uint64_t k);
std::optional<std::uint64_t> AssignmentsTwoSample(std::uint64_t n, std::uint64_t m);
std::optional<std::uint64_t> AssignmentsInBlocks(
    std::span<const std::pair<std::uint64_t, std::uint64_t>> blocks);

// P(first cell >= observed | margins), table {{a, b}, {c, d}}.
double FisherGreater(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d);

// ----- tests with a normal model

struct TTest {
  double t = 0, df = 0, p = 1;
};
TTest WelchLess(std::span<const double> a, std::span<const double> b);  // H1: mean a < mean b
TTest OneSampleLess(std::span<const double> xs, double mu);             // H1: mean < mu
// (target - mean) sqrt(n) >= constant, the constant being z times a known sigma; exact at the
// limit.
struct KnownSigma {
  double value = 0;
  bool accept = false;
};
KnownSigma KnownSigmaRule(std::span<const double> xs, double target, double constant);

// Chance that a candidate without gain is promoted after one run, against a leader measured
// `leader_runs` times: normal approximation, z = band / (sigma sqrt(1 + 1/leader_runs)).
struct FalsePromotion {
  double z = 0, p = 1;
};
FalsePromotion FalsePromotionRate(double sigma_rel, double band, int leader_runs);

// ----- the rules on means

enum class MeanVerdict { kBeats, kTie, kLoses };
// a beats b iff mean(a)/mean(b) - 1 > band, loses iff mean(b)/mean(a) - 1 > band: strict, exact.
MeanVerdict MeanRule(std::span<const double> a, std::span<const double> b, double band);

}  // namespace attune
