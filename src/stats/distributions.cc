#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "attune/base/check.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

// The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kMaxTerms = 10'000;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double fraction = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double k = m;
    const double even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k));
    d = 1 + even * d;
    c = 1 + even / c;
    d = 1 / (std::abs(d) < kTiny ? kTiny : d);
    c = std::abs(c) < kTiny ? kTiny : c;
    fraction *= d * c;
    const double odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1));
    d = 1 + odd * d;
    c = 1 + odd / c;
    d = 1 / (std::abs(d) < kTiny ? kTiny : d);
    c = std::abs(c) < kTiny ? kTiny : c;
    const double step = d * c;
    fraction *= step;
    if (std::abs(step - 1) < std::numeric_limits<double>::epsilon()) {
      break;
    }
  }
  return fraction;
}

// Root of an increasing function by bisection: slow, and never wrong by more than a rounding step.
template <class Function>
double Bisect(double low, double high, Function too_low) {
  for (int i = 0; i < 2'000; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) {
      break;
    }
    (too_low(middle) ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

// The limit of t as the spread goes to 0.
TTest WithoutSpread(double distance, double df) {
  if (distance == 0) {
    return {.t = 0, .df = df, .p = 0.5};
  }
  const double t = std::copysign(std::numeric_limits<double>::infinity(), distance);
  return {.t = t, .df = df, .p = distance < 0 ? 0.0 : 1.0};
}

// Quantile of the upper tail: t > 0 with P(T > t) = tail, tail < 0.5. Newton's method inside a
// bracket that every value narrows, since far out the density is too small to steer by.
double StudentTailQuantile(double tail, double df) {
  const double log_scale =
      std::lgamma((df + 1) / 2) - std::lgamma(df / 2) - 0.5 * std::log(df * std::numbers::pi);
  double low = 0;
  double high = 1;
  while (StudentUpperTail(high, df) > tail && high < 1e300) {
    low = high;
    high *= 2;
  }
  double t = low + (high - low) / 2;
  for (int i = 0; i < 2'000 && high - low > 1e-15 * high; ++i) {
    const double excess = StudentUpperTail(t, df) - tail;
    (excess > 0 ? low : high) = t;
    const double density = std::exp(log_scale - (df + 1) / 2 * std::log1p(t * t / df));
    const double next = t + excess / density;
    if (next == t) {
      break;
    }
    // Inside the bracket a step this small is the last one that changes a digit.
    const bool inside = next > low && next < high;
    const bool last = inside && std::abs(next - t) <= 1e-15 * t;
    t = inside ? next : low + (high - low) / 2;
    if (last) {
      break;
    }
  }
  return t;
}

}  // namespace

double IncompleteBeta(double a, double b, double x) {
  ATTUNE_CHECK(a > 0 && b > 0, "the beta distribution needs positive parameters");
  if (x <= 0 || x >= 1) {
    return x <= 0 ? 0 : 1;
  }
  // In long double: the three terms are large and cancel when a or b is.
  const long double log_front =
      std::lgamma(static_cast<long double>(a) + b) - std::lgamma(static_cast<long double>(a)) -
      std::lgamma(static_cast<long double>(b)) + a * std::log(static_cast<long double>(x)) +
      b * std::log1p(-static_cast<long double>(x));
  const double front = static_cast<double>(std::exp(log_front));
  if (x < (a + 1) / (a + b + 2)) {
    return front * BetaFraction(a, b, x) / a;
  }
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double InverseIncompleteBeta(double a, double b, double p) {
  ATTUNE_CHECK(p >= 0 && p <= 1, "a probability");
  if (p == 0 || p == 1) {
    return p;
  }
  return Bisect(0, 1, [&](double x) { return IncompleteBeta(a, b, x) < p; });
}

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }
double NormalUpperTail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

double NormalQuantile(double p) {
  ATTUNE_CHECK(p > 0 && p < 1, "a probability inside (0, 1)");
  // The tail function keeps its digits on the right; the left is its mirror.
  const bool left = p < 0.5;
  const double tail = left ? p : 1 - p;
  const double z = Bisect(0, 40, [&](double t) { return NormalUpperTail(t) > tail; });
  return left ? -z : z;
}

double StudentUpperTail(double t, double df) {
  ATTUNE_CHECK(df > 0, "degrees of freedom");
  if (t < 0) {
    return 1 - StudentUpperTail(-t, df);
  }
  const double square = t * t;
  // Each form loses digits where its argument is close to 1.
  if (square < df) {
    return 0.5 - 0.5 * IncompleteBeta(0.5, df / 2, square / (df + square));
  }
  return 0.5 * IncompleteBeta(df / 2, 0.5, df / (df + square));
}

double StudentCdf(double t, double df) { return StudentUpperTail(-t, df); }

double StudentQuantile(double p, double df) {
  ATTUNE_CHECK(p > 0 && p < 1, "a probability inside (0, 1)");
  if (p == 0.5) {
    return 0;
  }
  return p < 0.5 ? -StudentTailQuantile(p, df) : StudentTailQuantile(1 - p, df);
}

// The integrand is smooth and all its derivatives vanish at both ends, where the trapezoid rule
// converges faster than any power of the step.
double ExpectedMaxNormal(int k) {
  ATTUNE_CHECK(k >= 1, "a maximum needs a value");
  constexpr double kStep = 0.01;
  constexpr int kEnd = 1'200;  // +-12 sd
  double sum = 0;
  for (int i = -kEnd; i <= kEnd; ++i) {
    const double x = i * kStep;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    sum += x * density * std::pow(NormalCdf(x), k - 1);
  }
  return k * sum * kStep;
}

Interval BinomialInterval(std::int64_t k, std::int64_t n, double confidence) {
  ATTUNE_CHECK(n >= 1 && k >= 0 && k <= n, "k of n");
  const double tail = (1 - confidence) / 2;
  const auto hits = static_cast<double>(k);
  const auto misses = static_cast<double>(n - k);
  Interval interval{0, 1};
  if (k > 0) {
    interval.low = InverseIncompleteBeta(hits, misses + 1, tail);
  }
  if (k < n) {
    // By the mirrored distribution: tail, not 1 - tail, keeps the digits.
    interval.high = 1 - InverseIncompleteBeta(misses, hits + 1, tail);
  }
  return interval;
}

double UpperRateIfNone(std::int64_t n, double confidence) {
  ATTUNE_CHECK(n >= 1, "a rate needs trials");
  return -std::expm1(std::log(1 - confidence) / static_cast<double>(n));
}

PredictionBand MakePredictionBand(std::span<const double> replicas, double alpha_two_sided) {
  const auto n = static_cast<double>(replicas.size());
  const double mean = Mean(replicas);
  PredictionBand made;
  made.t = StudentQuantile(1 - alpha_two_sided / 2, n - 1);
  const double reach = made.t * SampleSd(replicas) * std::sqrt(1 + 1 / n);
  made.band = {mean - reach, mean + reach};
  return made;
}

TTest WelchLess(std::span<const double> a, std::span<const double> b) {
  const double va = std::pow(SampleSd(a), 2) / static_cast<double>(a.size());
  const double vb = std::pow(SampleSd(b), 2) / static_cast<double>(b.size());
  if (va + vb == 0) {
    return WithoutSpread(Mean(a) - Mean(b), static_cast<double>(a.size() + b.size() - 2));
  }
  TTest test;
  test.t = (Mean(a) - Mean(b)) / std::sqrt(va + vb);
  test.df = std::pow(va + vb, 2) / (va * va / static_cast<double>(a.size() - 1) +
                                    vb * vb / static_cast<double>(b.size() - 1));
  test.p = StudentCdf(test.t, test.df);
  return test;
}

TTest OneSampleLess(std::span<const double> xs, double mu) {
  const auto n = static_cast<double>(xs.size());
  const double sd = SampleSd(xs);
  // n (mean - mu) in decimals: a mean that is mu must give t = 0.
  const Decimal distance =
      Sum(xs) - Decimal::FromDouble(mu) * Decimal(static_cast<std::int64_t>(xs.size()));
  if (sd == 0) {
    return WithoutSpread(distance.ToDouble(), n - 1);
  }
  TTest test;
  test.df = n - 1;
  test.t = distance.ToDouble() / (sd * std::sqrt(n));
  test.p = StudentCdf(test.t, test.df);
  return test;
}

FalsePromotion FalsePromotionRate(double sigma_rel, double band, int leader_runs) {
  ATTUNE_CHECK(sigma_rel > 0 && leader_runs >= 1, "a noise and a leader");
  FalsePromotion rate;
  rate.z = band / (sigma_rel * std::sqrt(1 + 1.0 / leader_runs));
  rate.p = NormalUpperTail(rate.z);
  return rate;
}

}  // namespace attune
