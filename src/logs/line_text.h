// What launchers and terminals add to a line, taken off again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

// One line as dialects and the failure rules see it.
struct LogLine {
  std::string_view whole;   // without colour, with prefixes: what a person sees
  std::string_view text;    // without prefixes and leading spaces
  std::int64_t source = 0;  // who printed it, as far as prefixes tell; 0: no prefix
  std::optional<int> rank;  // global rank, only from "[rankN]:"
  std::int64_t number = 0;
  std::int64_t arrival_ms = -1;
  bool ended = true;
};

// Removes escape sequences (ECMA-48: CSI, OSC, and two-byte ones). A broken sequence loses its
// escape byte only.
std::string StripAnsi(std::string_view s);

struct Prefix {
  std::string_view rest;
  std::int64_t source = 0;
  std::optional<int> rank;
};
// "[rank3]:", "[default0]:", "12: " (srun -l), "(Actor pid=7)", "stdout: ", time stamps
// (log_formats.md, notes). They nest: "3: [rank3]: 2026-01-05 12:20:29 text".
Prefix StripPrefixes(std::string_view s);

// Leading digits of `s` as a number, removed from `s`; nullopt (and `s` as it was) when there are
// none or more than 18.
std::optional<std::int64_t> TakeNumber(std::string_view& s);
bool TakeLiteral(std::string_view& s, std::string_view literal);
void SkipSpaces(std::string_view& s);

}  // namespace attune
