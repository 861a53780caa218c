// Numbers of foreign JSON, from their digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace attune::traces {

// A decimal number of microseconds as whole nanoseconds, rounded to nearest; never through binary
// fractions, so 1694040010088500.123 keeps its last digit. Also scientific form. nullopt: no
// number, or more than 292 years.
std::optional<std::int64_t> MicrosToNanos(std::string_view text);
// Decimal, or hexadecimal with 0x. The whole text.
std::optional<std::uint64_t> ParseUnsigned(std::string_view text);
// The same with a sign; "-1" and 4294967295 are both written for "no stream".
std::optional<std::int64_t> ParseSigned(std::string_view text);
// NaN, Infinity, inf and their like, signed or not.
bool IsNotANumber(std::string_view text);

}  // namespace attune::traces
