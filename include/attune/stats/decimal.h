// Exact decimal arithmetic for verdicts. A number that a log or a recipe prints is a decimal, and a
// limit such as 2% or a band is one too; binary arithmetic gets "exactly the limit" wrong
// (10.2 / 10 - 1 > 0.02 is true in doubles).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// An exact decimal of any length: sum, difference, product and order; no division.
class Decimal {
 public:
  Decimal() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): whole numbers are decimals
  Decimal(std::int64_t whole);
  // The decimal that `x` was printed as: the nearest with at most 15 significant digits. Every
  // decimal of 15 digits survives the way through a double, and the rounding noise of a computed
  // double (103.00000000000001) is gone. `x` is finite.
  static Decimal FromDouble(double x);
  // -?digits[.digits][e[+-]digits], exponents of at most 4 digits; nullopt otherwise.
  static std::optional<Decimal> Parse(std::string_view text);

  int Sign() const { return digits_.empty() ? 0 : (negative_ ? -1 : 1); }
  Decimal Abs() const;
  double ToDouble() const;
  // value * 10^scale as an integer, nullopt when it is not whole or beyond `bits` of magnitude
  // 2^62.
  std::optional<std::int64_t> Scaled(int scale) const;
  int DecimalPlaces() const;  // digits behind the point that it needs, 0 when whole

  friend Decimal operator+(const Decimal& a, const Decimal& b);
  friend Decimal operator-(const Decimal& a, const Decimal& b);
  friend Decimal operator*(const Decimal& a, const Decimal& b);
  friend Decimal operator-(Decimal a);
  friend bool operator==(const Decimal& a, const Decimal& b) { return Compare(a, b) == 0; }
  friend bool operator<(const Decimal& a, const Decimal& b) { return Compare(a, b) < 0; }
  friend bool operator>(const Decimal& a, const Decimal& b) { return Compare(a, b) > 0; }
  friend bool operator<=(const Decimal& a, const Decimal& b) { return Compare(a, b) <= 0; }
  friend bool operator>=(const Decimal& a, const Decimal& b) { return Compare(a, b) >= 0; }
  static int Compare(const Decimal& a, const Decimal& b);

 private:
  // value = (-1)^negative * digits * 10^exponent; digits little-endian in base 10^9, no leading
  // zero limbs; zero has no limbs.
  bool negative_ = false;
  int exponent_ = 0;
  std::vector<std::uint32_t> digits_;

  void Normalise();
  static Decimal AddMagnitudes(const Decimal& a, const Decimal& b, int exponent);
  void Rescale(int exponent);  // to a smaller exponent
};

Decimal Sum(std::span<const double> xs);  // of FromDouble of each

// value / reference - 1 > limit, exactly in decimals. reference > 0.
bool RatioExceeds(double value, double reference, double limit);
// |value / reference - 1| > limit, exactly in decimals. reference != 0.
bool ShiftExceeds(double value, double reference, double limit);
// mean(a) / mean(b) - 1 > limit, exactly in decimals. Both non-empty, sum(b) > 0.
bool MeanRatioExceeds(std::span<const double> a, std::span<const double> b, double limit);

}  // namespace attune
