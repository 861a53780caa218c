// Exact decimals: a number is its sign, its digits without zeros at either end, and the place of
// the first digit. Two of these are equal if and only if the numbers are.
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "attune/base/text.h"

namespace attune {
namespace {

// Bounds a value such as "1e99999999999999999999"; nobody prints such a number.
constexpr std::size_t kMaxExponentDigits = 9;

bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

// The parts of -?digits[.digits][(e|E)[+-]digits] with a digit before or after the point.
struct Spelling {
  bool negative = false;
  std::string_view whole;
  std::string_view fraction;
  bool exponent_negative = false;
  std::string_view exponent;
};

std::string_view TakeDigits(std::string_view& rest) {
  std::size_t n = 0;
  while (n < rest.size() && IsDecimalDigit(rest[n])) {
    ++n;
  }
  const std::string_view digits = rest.substr(0, n);
  rest.remove_prefix(n);
  return digits;
}

bool Take(std::string_view& rest, char c) {
  if (rest.empty() || rest.front() != c) {
    return false;
  }
  rest.remove_prefix(1);
  return true;
}

std::optional<Spelling> ReadSpelling(std::string_view rest) {
  Spelling s;
  s.negative = Take(rest, '-');
  s.whole = TakeDigits(rest);
  if (Take(rest, '.')) {
    s.fraction = TakeDigits(rest);
  }
  if (s.whole.empty() && s.fraction.empty()) {
    return std::nullopt;
  }
  if (Take(rest, 'e') || Take(rest, 'E')) {
    s.exponent_negative = Take(rest, '-');
    if (!s.exponent_negative) {
      Take(rest, '+');
    }
    s.exponent = TakeDigits(rest);
    if (s.exponent.empty()) {
      return std::nullopt;
    }
  }
  if (!rest.empty()) {
    return std::nullopt;
  }
  return s;
}

struct Decimal {
  int sign = 0;            // -1, 0, 1
  std::int64_t place = 0;  // value = sign * 0.d1d2d3... * 10^place
  std::string digits;
};

std::optional<Decimal> ReadDecimal(std::string_view text) {
  const std::optional<Spelling> s = ReadSpelling(text);
  if (!s) {
    return std::nullopt;
  }
  Decimal d;
  d.digits.append(s->whole).append(s->fraction);
  d.place = static_cast<std::int64_t>(s->whole.size());
  const std::size_t first = d.digits.find_first_not_of('0');
  std::string_view exponent = s->exponent;
  while (!exponent.empty() && exponent.front() == '0') {
    exponent.remove_prefix(1);
  }
  if (exponent.size() > kMaxExponentDigits) {
    return std::nullopt;
  }
  if (first == std::string::npos) {
    return Decimal{};  // -0, 0.000 and 0e7 are all zero
  }
  std::int64_t power = 0;
  for (const char c : exponent) {
    power = power * 10 + (c - '0');
  }
  d.sign = s->negative ? -1 : 1;
  d.place += (s->exponent_negative ? -power : power) - static_cast<std::int64_t>(first);
  d.digits.erase(0, first);
  d.digits.erase(d.digits.find_last_not_of('0') + 1);
  return d;
}

int Order(int left, int right) { return left < right ? -1 : (left > right ? 1 : 0); }

int CompareMagnitude(const Decimal& a, const Decimal& b) {
  if (a.place != b.place) {
    return a.place < b.place ? -1 : 1;
  }
  // Same place: digits compare as text, and a prefix is smaller because no digits end in zero.
  return Order(a.digits.compare(b.digits), 0);
}

}  // namespace

std::optional<int> CompareDecimal(std::string_view a, std::string_view b) {
  const std::optional<Decimal> left = ReadDecimal(a);
  const std::optional<Decimal> right = ReadDecimal(b);
  if (!left || !right) {
    return std::nullopt;
  }
  if (left->sign != right->sign) {
    return Order(left->sign, right->sign);
  }
  return left->sign * CompareMagnitude(*left, *right);
}

std::optional<double> ParseDouble(std::string_view s) {
  // from_chars alone would take "inf" and "nan" too.
  if (!ReadSpelling(s)) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) {
    return std::nullopt;  // too large or too small for a double
  }
  return value;
}

std::optional<std::int64_t> ParseInt(std::string_view s) {
  std::string_view digits = s;
  const bool negative = Take(digits, '-');
  if (digits.empty() || (digits.front() == '0' && (digits.size() > 1 || negative))) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace attune
