#include "attune/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "attune/base/check.h"
#include "attune/base/text.h"

namespace attune {
namespace {

constexpr double kMillisPerHour = 3'600'000.0;
// Half the range, so that sums of two amounts stay exact.
constexpr double kMostGpuMillis = 0x1p62;

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
// No campaign is longer; keeps now + duration and slots x duration far from overflow.
constexpr std::int64_t kLongestDuration = 100 * 365 * kDay;

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
// From large to small: the order in which a duration must name them.
constexpr std::array<Unit, 4> kDurationUnits = {
    {{"h", kHour}, {"m", kMinute}, {"s", kSecond}, {"ms", 1}}};
constexpr std::array<Unit, 5> kSizeUnits = {{{"B", 1},
                                             {"KiB", std::int64_t{1} << 10},
                                             {"MiB", std::int64_t{1} << 20},
                                             {"GiB", std::int64_t{1} << 30},
                                             {"TiB", std::int64_t{1} << 40}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view TakeWhile(std::string_view& rest, bool digits) {
  std::size_t n = 0;
  while (n < rest.size() && IsDigit(rest[n]) == digits) {
    ++n;
  }
  const std::string_view taken = rest.substr(0, n);
  rest.remove_prefix(n);
  return taken;
}

// Exactly `width` digits at `at`.
std::optional<int> Field(std::string_view text, std::size_t at, std::size_t width) {
  if (at + width > text.size()) {
    return std::nullopt;
  }
  int value = 0;
  for (const char c : text.substr(at, width)) {
    if (!IsDigit(c)) {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  return value;
}

struct Civil {
  std::chrono::year_month_day date;
  std::int64_t ms_of_day = 0;
};

Civil ToCivil(std::int64_t ms) {
  const std::chrono::sys_time<Millis> point{Millis{ms}};
  const auto day = std::chrono::floor<std::chrono::days>(point);
  return {std::chrono::year_month_day{day}, (point - day).count()};
}

constexpr std::int64_t StartOf(int year) {
  return std::chrono::sys_time<Millis>{
      std::chrono::sys_days{std::chrono::year{year} / std::chrono::January / 1}}
      .time_since_epoch()
      .count();
}
constexpr std::int64_t kFirstMs = StartOf(0);  // RFC 3339 has four digits for the year
constexpr std::int64_t kLastMs = StartOf(10'000) - 1;

// The offset from UTC after the seconds: "Z", "+hh:mm", "-hh:mm".
std::optional<std::int64_t> ParseOffset(std::string_view zone) {
  if (zone == "Z") {
    return 0;
  }
  if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') {
    return std::nullopt;
  }
  const std::optional<int> hours = Field(zone, 1, 2);
  const std::optional<int> minutes = Field(zone, 4, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) {
    return std::nullopt;
  }
  const std::int64_t offset = *hours * kHour + *minutes * kMinute;
  return zone[0] == '-' ? -offset : offset;
}

// ".5" is 500 ms; up to nanoseconds are read and what is below a millisecond is dropped.
std::optional<std::int64_t> ParseFraction(std::string_view& rest) {
  if (rest.empty() || rest.front() != '.') {
    return 0;
  }
  rest.remove_prefix(1);
  const std::string_view digits = TakeWhile(rest, true);
  if (digits.empty() || digits.size() > 9) {
    return std::nullopt;
  }
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    ms = ms * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  return ms;
}

std::optional<std::int64_t> ParseInstant(std::string_view text) {
  const std::optional<int> year = Field(text, 0, 4);
  const std::optional<int> month = Field(text, 5, 2);
  const std::optional<int> day = Field(text, 8, 2);
  const std::optional<int> hour = Field(text, 11, 2);
  const std::optional<int> minute = Field(text, 14, 2);
  const std::optional<int> second = Field(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  // No leap second: the system's clock has none either.
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(19);
  const std::optional<std::int64_t> fraction = ParseFraction(rest);
  const std::optional<std::int64_t> offset = ParseOffset(rest);
  if (!fraction || !offset) {
    return std::nullopt;
  }
  const std::int64_t midnight =
      std::chrono::sys_time<Millis>{std::chrono::sys_days{date}}.time_since_epoch().count();
  return midnight + *hour * kHour + *minute * kMinute + *second * kSecond + *fraction - *offset;
}

}  // namespace

GpuMillis FromGpuHours(double hours) {
  ATTUNE_CHECK(!std::isnan(hours), "an amount of GPU-hours is a number");
  const double exact = hours * kMillisPerHour;
  if (std::abs(exact) >= kMostGpuMillis) {
    return {static_cast<std::int64_t>(std::copysign(kMostGpuMillis, exact))};
  }
  // 7.86 h is 28'296'000 ms and not one more: the last bits of the product are the binary
  // spelling's, not the holder's.
  const double whole = std::nearbyint(exact);
  const bool is_whole = std::abs(exact - whole) <= 4 * 0x1p-53 * std::abs(exact);
  return {static_cast<std::int64_t>(is_whole ? whole : std::ceil(exact))};
}

std::string Rfc3339(Instant t) {
  // What the format cannot spell (Never) is shown as the nearest instant that it can.
  const Civil c = ToCivil(std::clamp(t.ms, kFirstMs, kLastMs));
  std::string out = fmt::format(
      "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(c.date.year()),
      static_cast<unsigned>(c.date.month()), static_cast<unsigned>(c.date.day()),
      c.ms_of_day / kHour, c.ms_of_day % kHour / kMinute, c.ms_of_day % kMinute / kSecond);
  if (c.ms_of_day % kSecond != 0) {
    out += fmt::format(".{:03}", c.ms_of_day % kSecond);
  }
  return out + "Z";
}

Result<Instant> ParseRfc3339(std::string_view text) {
  if (const std::optional<std::int64_t> ms = ParseInstant(text)) {
    return Instant{*ms};
  }
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("'{}' is not a time", EscapeForDisplay(text, 60)),
              "write it as 2026-11-30T20:00:00Z or with an offset such as +01:00");
}

Result<Millis> ParseDuration(std::string_view text) {
  const auto fail = [text](std::string_view why) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is not a duration: {}", EscapeForDisplay(text, 60), why),
                "write it as 90s, 8m, 2h, 250ms or 1h30m");
  };
  std::string_view rest = text;
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  if (rest.empty()) {
    return fail("it is empty");
  }
  while (!rest.empty()) {
    const std::optional<std::int64_t> count = ParseInt(TakeWhile(rest, true));
    const std::string_view name = TakeWhile(rest, false);
    if (!count) {
      return fail("a whole number must come before each unit");
    }
    std::size_t unit = next_unit;
    while (unit < kDurationUnits.size() && kDurationUnits[unit].name != name) {
      ++unit;
    }
    if (unit == kDurationUnits.size()) {
      return fail(name.empty() ? "it has no unit"
                               : "units are h, m, s, ms, each once, in this order");
    }
    next_unit = unit + 1;
    std::int64_t part = 0;
    if (__builtin_mul_overflow(*count, kDurationUnits[unit].factor, &part) ||
        __builtin_add_overflow(total, part, &total) || total > kLongestDuration) {
      return fail("it is longer than a hundred years");
    }
  }
  if (total == 0) {
    return fail("it must be more than zero");
  }
  return Millis{total};
}

std::string ShowDuration(Millis d) {
  const bool negative = d.count() < 0;
  // Unsigned, so that the most negative value has a magnitude.
  std::uint64_t ms = static_cast<std::uint64_t>(d.count());
  ms = negative ? 0 - ms : ms;
  const std::string sign = negative ? "-" : "";
  if (ms == 0) {
    return "0s";
  }
  if (ms < 1000) {
    return fmt::format("{}{}ms", sign, ms);
  }
  std::uint64_t seconds = (ms + 500) / 1000;
  std::string out = sign;
  if (seconds >= 3600) {
    out += fmt::format("{}h", seconds / 3600);
  }
  if (seconds % 3600 >= 60) {
    out += fmt::format("{}m", seconds % 3600 / 60);
  }
  if (seconds % 60 != 0) {
    out += fmt::format("{}s", seconds % 60);
  }
  return out;
}

Result<std::int64_t> ParseSize(std::string_view text) {
  const auto fail = [text](std::string_view why) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is not a size: {}", EscapeForDisplay(text, 60), why),
                "write it as 80GiB, 512MiB or a number of bytes");
  };
  std::string_view rest = text;
  const std::optional<std::int64_t> count = ParseInt(TakeWhile(rest, true));
  if (!count) {
    return fail("it must start with a whole number");
  }
  if (rest.empty()) {
    return *count;
  }
  for (const Unit& unit : kSizeUnits) {
    if (unit.name == rest) {
      std::int64_t bytes = 0;
      if (__builtin_mul_overflow(*count, unit.factor, &bytes)) {
        return fail("it is too large");
      }
      return bytes;
    }
  }
  // GB is refused on purpose: it is read as 10^9 by some and as 2^30 by others.
  return fail("units are B, KiB, MiB, GiB, TiB");
}

std::string ShowGpuHours(GpuMillis g) {
  if (g.value == 0) {
    return "0";
  }
  const double hours = g.Hours();
  return std::abs(hours) < 1 ? fmt::format("{:.4f}", hours) : fmt::format("{:.2f}", hours);
}

}  // namespace attune
