#include "json_number.h"

#include <limits>

namespace attune::traces {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// mantissa * 10^exponent, rounded half away from zero.
std::optional<std::int64_t> Scale(std::uint64_t mantissa, int exponent, bool negative) {
  if (mantissa == 0) return 0;
  for (; exponent > 0; --exponent) {
    if (mantissa > static_cast<std::uint64_t>(kMax) / 10) return std::nullopt;
    mantissa *= 10;
  }
  bool up = false;
  for (; exponent < 0; ++exponent) {
    up = mantissa % 10 >= 5;
    mantissa /= 10;
    if (mantissa == 0 && !up) return 0;
  }
  if (up) ++mantissa;
  if (mantissa > static_cast<std::uint64_t>(kMax)) return std::nullopt;
  const auto value = static_cast<std::int64_t>(mantissa);
  return negative ? -value : value;
}

// With an exponent or many digits. Digits that no int64 could hold are dropped, with their weight.
std::optional<std::int64_t> SlowMicros(std::string_view s, bool negative) {
  std::uint64_t mantissa = 0;
  int exponent = 3;
  std::size_t i = 0;
  bool any = false, point = false;
  for (; i < s.size(); ++i) {
    const char c = s[i];
    if (c == '.' && !point && any) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (mantissa < 1'000'000'000'000'000'000ull) {
      mantissa = mantissa * 10 + static_cast<std::uint64_t>(c - '0');
      if (point) --exponent;
    } else if (!point) {
      if (++exponent > 400) return std::nullopt;
    }
  }
  if (!any || s[i - 1] == '.') return std::nullopt;
  if (i < s.size()) {
    if (s[i] != 'e' && s[i] != 'E') return std::nullopt;
    ++i;
    bool minus = false;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) minus = s[i++] == '-';
    if (i == s.size()) return std::nullopt;
    int power = 0;
    for (; i < s.size(); ++i) {
      if (s[i] < '0' || s[i] > '9') return std::nullopt;
      if (power < 1000) power = power * 10 + (s[i] - '0');
    }
    exponent += minus ? -power : power;
  }
  return Scale(mantissa, exponent, negative);
}

}  // namespace

std::optional<std::int64_t> MicrosToNanos(std::string_view text) {
  std::string_view s = text;
  const bool negative = !s.empty() && s[0] == '-';
  if (negative) s.remove_prefix(1);
  // Up to 15 digits before the point cannot overflow once multiplied.
  std::uint64_t whole = 0;
  std::size_t i = 0;
  while (i < s.size() && s[i] >= '0' && s[i] <= '9') {
    whole = whole * 10 + static_cast<std::uint64_t>(s[i] - '0');
    if (++i > 16) return SlowMicros(s, negative);
  }
  if (i == 0 || whole > 9'000'000'000'000'000ull) return SlowMicros(s, negative);
  std::uint64_t fraction = 0;
  if (i < s.size()) {
    if (s[i] != '.' || i + 1 == s.size()) return SlowMicros(s, negative);
    std::size_t digits = 0;
    for (++i; i < s.size(); ++i, ++digits) {
      if (digits == 3 || s[i] < '0' || s[i] > '9') return SlowMicros(s, negative);
      fraction = fraction * 10 + static_cast<std::uint64_t>(s[i] - '0');
    }
    for (; digits < 3; ++digits) fraction *= 10;
  }
  const auto value = static_cast<std::int64_t>(whole * 1000 + fraction);
  return negative ? -value : value;
}

std::optional<std::uint64_t> ParseUnsigned(std::string_view s) {
  std::uint64_t value = 0;
  if (s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
    if (s.size() > 18) return std::nullopt;
    for (const char c : s.substr(2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value << 4 | static_cast<std::uint64_t>(digit);
    }
    return value;
  }
  if (s.empty()) return std::nullopt;
  for (const char c : s) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

std::optional<std::int64_t> ParseSigned(std::string_view s) {
  const bool negative = !s.empty() && s[0] == '-';
  const auto value = ParseUnsigned(negative ? s.substr(1) : s);
  if (!value || *value > static_cast<std::uint64_t>(kMax)) return std::nullopt;
  return negative ? -static_cast<std::int64_t>(*value) : static_cast<std::int64_t>(*value);
}

bool IsNotANumber(std::string_view s) {
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  for (const std::string_view word : {"NaN", "nan", "NAN", "Infinity", "infinity", "Inf", "inf"}) {
    if (s == word) return true;
  }
  return s.rfind("nan(", 0) == 0 || s.rfind("-nan", 0) == 0;
}

}  // namespace attune::traces
