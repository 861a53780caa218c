#include "attune/base/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <span>

#include "attune/base/check.h"

namespace attune {
namespace {

double Polynomial(std::span<const double> coefficients, double x) {
  double sum = 0;
  for (auto c = coefficients.rbegin(); c != coefficients.rend(); ++c) {
    sum = sum * x + *c;
  }
  return sum;
}

// Inverse of the normal distribution function for 0 < p < 1, about 16 digits: Wichura, "Algorithm
// AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37 (1988), PPND16.
double InverseNormal(double p) {
  static constexpr std::array<double, 8> kCentreTop = {
      3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
      1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
      3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr std::array<double, 8> kCentreBottom = {1.0,
                                                          4.2313330701600911252e1,
                                                          6.8718700749205790830e2,
                                                          5.3941960214247511077e3,
                                                          2.1213794301586595867e4,
                                                          3.9307895800092710610e4,
                                                          2.8729085735721942674e4,
                                                          5.2264952788528545610e3};
  static constexpr std::array<double, 8> kMiddleTop = {
      1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
      3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
      2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array<double, 8> kMiddleBottom = {1.0,
                                                          2.05319162663775882187e0,
                                                          1.67638483018380384940e0,
                                                          6.89767334985100004550e-1,
                                                          1.48103976427480074590e-1,
                                                          1.51986665636164571966e-2,
                                                          5.47593808499534494600e-4,
                                                          1.05075007164441684324e-9};
  static constexpr std::array<double, 8> kTailTop = {
      6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
      2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
      2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array<double, 8> kTailBottom = {1.0,
                                                        5.99832206555887937690e-1,
                                                        1.36929880922735805310e-1,
                                                        1.48753612908506148525e-2,
                                                        7.86869131145613259100e-4,
                                                        1.84631831751005468180e-5,
                                                        1.42151175831644588870e-7,
                                                        2.04426310338993978564e-15};

  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kCentreTop, r) / Polynomial(kCentreBottom, r);
  }
  double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  double value = 0;
  if (r <= 5) {
    r -= 1.6;
    value = Polynomial(kMiddleTop, r) / Polynomial(kMiddleBottom, r);
  } else {
    r -= 5;
    value = Polynomial(kTailTop, r) / Polynomial(kTailBottom, r);
  }
  return q < 0 ? -value : value;
}

}  // namespace

// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), the
// finalizer with Stafford's "Mix13" constants.
std::uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::uint64_t Random::Below(std::uint64_t n) {
  ATTUNE_CHECK(n > 0, "a range needs at least one value");
  // 2^64 mod n values at the bottom are thrown away, so that each remainder is equally likely.
  const std::uint64_t biased = (0 - n) % n;
  for (;;) {
    const std::uint64_t bits = Next();
    if (bits >= biased) {
      return bits % n;
    }
  }
}

double Random::Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double Random::Normal() {
  // The middles of 2^52 cells: exact in a double, and never 0 or 1, whose inverse is infinite.
  return InverseNormal(static_cast<double>(Next() >> 12) * 0x1p-52 + 0x1p-53);
}

std::string RandomHex(int digits) {
  ATTUNE_CHECK(digits >= 0, "a number of digits");
  std::string hex;
  hex.reserve(static_cast<std::size_t>(digits));
  while (hex.size() < static_cast<std::size_t>(digits)) {
    unsigned char byte = 0;
    const ssize_t got = getrandom(&byte, 1, 0);
    ATTUNE_CHECK(got == 1 || errno == EINTR, "the system has no random bits");
    if (got == 1) {
      hex += "0123456789abcdef"[byte & 15];
    }
  }
  return hex;
}

}  // namespace attune
