// Schoolbook arithmetic on limbs of nine decimal digits: verdicts compare a handful of numbers, and
// a decimal base makes scaling by powers of ten a matter of appending zeros.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/stats/decimal.h"

namespace attune {
namespace {

constexpr std::uint32_t kBase = 1'000'000'000;
constexpr int kLimbDigits = 9;
constexpr int kSignificant =
    15;  // decimals of 15 digits survive the way through a double (DBL_DIG)
constexpr std::size_t kMaxExponentDigits = 4;

using Limbs = std::vector<std::uint32_t>;

void DropLeadingZeros(Limbs& limbs) {
  while (!limbs.empty() && limbs.back() == 0) {
    limbs.pop_back();
  }
}

int CompareLimbs(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) {
    return a.size() < b.size() ? -1 : 1;
  }
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) {
      return a[i] < b[i] ? -1 : 1;
    }
  }
  return 0;
}

Limbs AddLimbs(const Limbs& a, const Limbs& b) {
  Limbs sum;
  std::uint32_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    const std::uint32_t digit = (i < a.size() ? a[i] : 0) + (i < b.size() ? b[i] : 0) + carry;
    sum.push_back(digit % kBase);
    carry = digit / kBase;
  }
  return sum;
}

// a >= b
Limbs SubtractLimbs(const Limbs& a, const Limbs& b) {
  Limbs difference = a;
  std::uint32_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint32_t take = (i < b.size() ? b[i] : 0) + borrow;
    borrow = difference[i] < take ? 1 : 0;
    difference[i] = difference[i] + borrow * kBase - take;
  }
  DropLeadingZeros(difference);
  return difference;
}

Limbs MultiplyLimbs(const Limbs& a, const Limbs& b) {
  Limbs product(a.size() + b.size(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.size() || carry != 0; ++j) {
      const std::uint64_t digit =
          product[i + j] + carry + (j < b.size() ? std::uint64_t{a[i]} * b[j] : 0);
      product[i + j] = static_cast<std::uint32_t>(digit % kBase);
      carry = digit / kBase;
    }
  }
  DropLeadingZeros(product);
  return product;
}

void MultiplySmall(Limbs& limbs, std::uint32_t factor) {
  std::uint64_t carry = 0;
  for (std::uint32_t& limb : limbs) {
    const std::uint64_t digit = std::uint64_t{limb} * factor + carry;
    limb = static_cast<std::uint32_t>(digit % kBase);
    carry = digit / kBase;
  }
  if (carry != 0) {
    limbs.push_back(static_cast<std::uint32_t>(carry));
  }
}

std::uint32_t DivideSmall(Limbs& limbs, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (std::size_t i = limbs.size(); i-- > 0;) {
    const std::uint64_t value = rest * kBase + limbs[i];
    limbs[i] = static_cast<std::uint32_t>(value / divisor);
    rest = value % divisor;
  }
  DropLeadingZeros(limbs);
  return static_cast<std::uint32_t>(rest);
}

}  // namespace

Decimal::Decimal(std::int64_t whole) : negative_(whole < 0) {
  std::uint64_t rest = static_cast<std::uint64_t>(whole);
  if (negative_) {
    rest = 0 - rest;
  }
  while (rest != 0) {
    digits_.push_back(static_cast<std::uint32_t>(rest % kBase));
    rest /= kBase;
  }
  Normalise();
}

Decimal Decimal::FromDouble(double x) {
  ATTUNE_CHECK(std::isfinite(x), "only finite numbers have a decimal");
  char text[64];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, x, std::chars_format::scientific, kSignificant - 1);
  ATTUNE_CHECK(error == std::errc(), "15 digits fit in the buffer");
  const std::optional<Decimal> value =
      Parse(std::string_view(text, static_cast<std::size_t>(end - text)));
  ATTUNE_CHECK(value.has_value(), "to_chars prints the grammar that Parse reads");
  return *value;
}

std::optional<Decimal> Decimal::Parse(std::string_view text) {
  if (!CompareDecimal(text, "0")) {  // base/text.h owns the grammar
    return std::nullopt;
  }
  Decimal d;
  d.negative_ = text.front() == '-';
  const std::size_t e = text.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view exponent = text.substr(e + 1);
    const bool down = exponent.front() == '-';
    exponent.remove_prefix(exponent.find_first_of("0123456789"));
    if (exponent.size() > kMaxExponentDigits) {
      return std::nullopt;
    }
    std::from_chars(exponent.data(), exponent.data() + exponent.size(), d.exponent_);
    d.exponent_ = down ? -d.exponent_ : d.exponent_;
    text = text.substr(0, e);
  }
  bool behind_point = false;
  for (const char c : text) {
    if (c == '.') {
      behind_point = true;
    } else if (c != '-') {
      MultiplySmall(d.digits_, 10);
      if (c != '0') {
        d.digits_ = AddLimbs(d.digits_, {static_cast<std::uint32_t>(c - '0')});
      }
      d.exponent_ -= behind_point ? 1 : 0;
    }
  }
  d.Normalise();
  return d;
}

// Zeros at the end move into the exponent, so that equal numbers are equal member by member.
void Decimal::Normalise() {
  DropLeadingZeros(digits_);
  while (!digits_.empty() && digits_.front() % 10 == 0) {
    DivideSmall(digits_, 10);
    ++exponent_;
  }
  if (digits_.empty()) {
    negative_ = false;
    exponent_ = 0;
  }
}

void Decimal::Rescale(int exponent) {
  ATTUNE_CHECK(exponent <= exponent_ || digits_.empty(), "rescaling never drops digits");
  for (; exponent_ - exponent >= kLimbDigits; exponent_ -= kLimbDigits) {
    digits_.insert(digits_.begin(), 0);
  }
  for (; exponent_ > exponent; --exponent_) {
    MultiplySmall(digits_, 10);
  }
  DropLeadingZeros(digits_);
  exponent_ = exponent;
}

Decimal Decimal::Abs() const {
  Decimal d = *this;
  d.negative_ = false;
  return d;
}

Decimal operator-(Decimal a) {
  a.negative_ = !a.negative_ && !a.digits_.empty();
  return a;
}

Decimal operator+(const Decimal& a, const Decimal& b) {
  if (a.digits_.empty() || b.digits_.empty()) {
    return a.digits_.empty() ? b : a;
  }
  Decimal left = a;
  Decimal right = b;
  const int exponent = std::min(a.exponent_, b.exponent_);
  left.Rescale(exponent);
  right.Rescale(exponent);
  if (left.negative_ == right.negative_) {
    left.digits_ = AddLimbs(left.digits_, right.digits_);
  } else if (CompareLimbs(left.digits_, right.digits_) >= 0) {
    left.digits_ = SubtractLimbs(left.digits_, right.digits_);
  } else {
    left.digits_ = SubtractLimbs(right.digits_, left.digits_);
    left.negative_ = right.negative_;
  }
  left.Normalise();
  return left;
}

Decimal operator-(const Decimal& a, const Decimal& b) { return a + -b; }

Decimal operator*(const Decimal& a, const Decimal& b) {
  Decimal product;
  product.digits_ = MultiplyLimbs(a.digits_, b.digits_);
  product.exponent_ = a.exponent_ + b.exponent_;
  product.negative_ = a.negative_ != b.negative_;
  product.Normalise();
  return product;
}

int Decimal::Compare(const Decimal& a, const Decimal& b) { return (a - b).Sign(); }

double Decimal::ToDouble() const {
  std::string text = negative_ ? "-" : "";
  for (std::size_t i = digits_.size(); i-- > 0;) {
    const std::string limb = std::to_string(digits_[i]);
    text.append(static_cast<std::size_t>(kLimbDigits) - limb.size(), '0').append(limb);
  }
  text.append(digits_.empty() ? "0" : "").append("e").append(std::to_string(exponent_));
  return std::strtod(text.c_str(), nullptr);
}

int Decimal::DecimalPlaces() const { return exponent_ < 0 ? -exponent_ : 0; }

std::optional<std::int64_t> Decimal::Scaled(int scale) const {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62;
  const int zeros = exponent_ + scale;
  if (digits_.empty()) {
    return 0;
  }
  // 2^62 has 19 digits: more limbs or more zeros cannot fit, and must not be built.
  if (zeros < 0 || zeros > 19 || digits_.size() > 3) {
    return std::nullopt;
  }
  Decimal d = *this;
  d.exponent_ = zeros;
  d.Rescale(0);
  std::uint64_t magnitude = 0;
  for (std::size_t i = d.digits_.size(); i-- > 0;) {
    if (magnitude > (kLimit - d.digits_[i]) / kBase) {
      return std::nullopt;
    }
    magnitude = magnitude * kBase + d.digits_[i];
  }
  const auto value = static_cast<std::int64_t>(magnitude);
  return negative_ ? -value : value;
}

namespace {

// Binary arithmetic on a few positive numbers is wrong by some 1e-15 only: far from the limit it
// decides, a thousand times faster.
bool FarFrom(double limit, double value) {
  return std::abs(value - limit) > 1e-9 * std::max(1.0, std::abs(value));
}

}  // namespace

Decimal Sum(std::span<const double> xs) {
  Decimal sum;
  for (const double x : xs) {
    sum = sum + Decimal::FromDouble(x);
  }
  return sum;
}

bool RatioExceeds(double value, double reference, double limit) {
  return MeanRatioExceeds({&value, 1}, {&reference, 1}, limit);
}

bool ShiftExceeds(double value, double reference, double limit) {
  ATTUNE_CHECK(reference != 0, "a relative shift needs a reference");
  const double shift = std::abs(value / reference - 1);
  if (FarFrom(limit, shift)) {
    return shift > limit;
  }
  const Decimal base = Decimal::FromDouble(reference);
  return (Decimal::FromDouble(value) - base).Abs() > Decimal::FromDouble(limit) * base.Abs();
}

// Without division: sum(a) n_b > (1 + limit) sum(b) n_a.
bool MeanRatioExceeds(std::span<const double> a, std::span<const double> b, double limit) {
  ATTUNE_CHECK(!a.empty() && !b.empty(), "a mean needs values");
  const double sum_a = std::accumulate(a.begin(), a.end(), 0.0);
  const double sum_b = std::accumulate(b.begin(), b.end(), 0.0);
  const double ratio =
      sum_a / sum_b * static_cast<double>(b.size()) / static_cast<double>(a.size());
  const bool positive =
      *std::min_element(a.begin(), a.end()) >= 0 && *std::min_element(b.begin(), b.end()) > 0;
  if (positive && FarFrom(limit, ratio - 1)) {
    return ratio - 1 > limit;
  }
  const Decimal base = Sum(b);
  ATTUNE_CHECK(base.Sign() > 0, "a ratio needs a positive reference");
  const Decimal left = Sum(a) * Decimal(static_cast<std::int64_t>(b.size()));
  const Decimal right = base * Decimal(static_cast<std::int64_t>(a.size()));
  return left > right * (Decimal(1) + Decimal::FromDouble(limit));
}

}  // namespace attune
