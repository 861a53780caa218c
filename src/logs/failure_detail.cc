#include "failure_detail.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "attune/base/text.h"

namespace attune {
namespace {

// The text behind `key` up to one of `stops`; empty when the key is not there.
std::string After(std::string_view line, std::string_view key, std::string_view stops) {
  constexpr std::size_t kLongest = 80;
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) {
    return {};
  }
  std::string_view rest = line.substr(at + key.size());
  rest = Trim(rest.substr(0, std::min(rest.find_first_of(stops), kLongest)));
  return EscapeForDisplay(rest, kLongest);
}

// "2.63 GiB" before the text `key`: "... of which 2.61 GiB is free".
std::string SizeBefore(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::vector<std::string_view> words = Split(line.substr(0, at), ' ');
  if (words.size() < 2) {
    return {};
  }
  const std::string_view unit = words.back();
  const std::string_view number = words[words.size() - 2];
  if (!ParseDouble(number) ||
      (unit != "GiB" && unit != "MiB" && unit != "KiB" && unit != "bytes")) {
    return {};
  }
  return fmt::format("{} {}", number, unit);
}

// "Tried to allocate 2.63 GiB." : number and unit, with the sentence's full stop off.
std::string Tried(std::string_view line) {
  constexpr std::string_view kKey = "Tried to allocate ";
  const std::size_t at = line.find(kKey);
  if (at == std::string_view::npos) {
    return {};
  }
  std::string_view rest = line.substr(at + kKey.size());
  const std::size_t unit_end = rest.find_first_of("B(");
  if (unit_end == std::string_view::npos || unit_end > 24) {
    return {};
  }
  return EscapeForDisplay(Trim(rest.substr(0, unit_end + 1)), 40);
}

std::string OomDetail(std::string_view line) {
  std::vector<std::string> parts;
  if (const std::string tried = Tried(line); !tried.empty()) {
    parts.push_back("tried " + tried);
  }
  std::string free = SizeBefore(line, " is free");
  if (free.empty()) {
    free = SizeBefore(line, " free;");
  }
  if (!free.empty()) {
    parts.push_back(free + " free");
  }
  return Join(parts, ", ");
}

std::string HangDetail(std::string_view line) {
  std::vector<std::string> parts;
  if (const std::string op = After(line, "OpType=", ",)"); !op.empty()) {
    parts.push_back(op);
  }
  if (const std::string n = After(line, "NumelIn=", ",)"); !n.empty()) {
    parts.push_back(n + " elements");
  }
  if (const std::string n = After(line, "SeqNum=", ",)"); !n.empty()) {
    parts.push_back("work " + n);
  }
  if (const std::string ms = After(line, "ran for ", " "); !ms.empty() && ParseDouble(ms)) {
    parts.push_back(fmt::format("waited {:.0f} s", *ParseDouble(ms) / 1000));
  }
  return Join(parts, ", ");
}

}  // namespace

std::string FailureDetail(FailureClass cls, const LogLine& line) {
  std::string what;
  if (cls == FailureClass::kOomGpu) {
    what = OomDetail(line.text);
  } else if (cls == FailureClass::kHang) {
    what = HangDetail(line.text);
  }
  if (line.rank) {
    return what.empty() ? fmt::format("rank {}", *line.rank)
                        : fmt::format("rank {}: {}", *line.rank, what);
  }
  return what;
}

}  // namespace attune
