#include "line_text.h"

namespace attune {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool InRange(char c, char low, char high) { return c >= low && c <= high; }

// Length of the escape sequence at the start of `s`, which begins with the escape byte.
std::size_t SequenceLength(std::string_view s) {
  if (s.size() < 2) {
    return 1;
  }
  std::size_t i = 2;
  if (s[1] == '[') {
    while (i < s.size() && InRange(s[i], '\x30', '\x3f')) {
      ++i;
    }
    while (i < s.size() && InRange(s[i], '\x20', '\x2f')) {
      ++i;
    }
    return i < s.size() && InRange(s[i], '\x40', '\x7e') ? i + 1 : 1;
  }
  if (s[1] == ']') {
    for (; i < s.size(); ++i) {
      if (s[i] == kBell) {
        return i + 1;
      }
      if (s[i] == kEscape && i + 1 < s.size() && s[i + 1] == '\\') {
        return i + 2;
      }
    }
    return 1;
  }
  i = 1;
  while (i < s.size() && InRange(s[i], '\x20', '\x2f')) {
    ++i;
  }
  return i < s.size() && InRange(s[i], '\x30', '\x7e') ? i + 1 : 1;
}

// Kinds of source are kept apart so that srun's task 3 is not rank 3.
enum class SourceKind : std::int64_t { kRank = 1, kTask = 2, kActor = 3, kRole = 4 };
std::int64_t SourceOf(SourceKind kind, std::int64_t n) {
  return static_cast<std::int64_t>(kind) << 48 | (n & 0xffffffffffff);
}

// "[rank3]:" and torchrun's "[default0]:", "[trainer12]:".
bool TakeRole(std::string_view& s, Prefix& prefix) {
  std::string_view rest = s;
  if (!TakeLiteral(rest, "[")) {
    return false;
  }
  std::size_t letters = 0;
  while (letters < rest.size() && letters < 32 && IsLetter(rest[letters])) {
    ++letters;
  }
  const std::string_view word = rest.substr(0, letters);
  rest.remove_prefix(letters);
  const std::optional<std::int64_t> n = TakeNumber(rest);
  if (letters == 0 || !n || !TakeLiteral(rest, "]:")) {
    return false;
  }
  if (word == "rank" && *n < (1 << 24)) {
    prefix.rank = static_cast<int>(*n);
    prefix.source = SourceOf(SourceKind::kRank, *n);
  } else if (prefix.source == 0) {
    prefix.source = SourceOf(SourceKind::kRole, *n);
  }
  s = rest;
  return true;
}

bool TakeTask(std::string_view& s, Prefix& prefix) {
  std::string_view rest = s;
  const std::optional<std::int64_t> n = TakeNumber(rest);
  if (!n || *n >= (1 << 24) || !TakeLiteral(rest, ": ")) {
    return false;
  }
  prefix.source = SourceOf(SourceKind::kTask, *n);
  s = rest;
  return true;
}

bool TakeActor(std::string_view& s, Prefix& prefix) {
  constexpr std::size_t kLongest = 200;
  if (!s.starts_with('(')) {
    return false;
  }
  const std::size_t close = s.substr(0, kLongest).find(')');
  const std::size_t pid = s.substr(0, kLongest).find(" pid=");
  if (close == std::string_view::npos || pid == std::string_view::npos || pid > close) {
    return false;
  }
  std::string_view digits = s.substr(pid + 5, close - pid - 5);
  const std::optional<std::int64_t> n = TakeNumber(digits);
  if (!n) {
    return false;
  }
  if (prefix.source == 0) {
    prefix.source = SourceOf(SourceKind::kActor, *n);
  }
  s.remove_prefix(close + 1);
  return true;
}

// `shape`: '0' stands for a digit, anything else for itself.
bool TakeShape(std::string_view& s, std::string_view shape) {
  if (s.size() < shape.size()) {
    return false;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == '0' ? !IsDigit(s[i]) : s[i] != shape[i]) {
      return false;
    }
  }
  s.remove_prefix(shape.size());
  return true;
}

bool TakeTimeStamp(std::string_view& s) {
  std::string_view rest = s;
  const bool bracket = TakeLiteral(rest, "[");
  if (!TakeShape(rest, "0000-00-00 00:00:00") && !TakeShape(rest, "0000-00-00T00:00:00")) {
    return false;
  }
  if (TakeLiteral(rest, ".") || TakeLiteral(rest, ",")) {
    TakeNumber(rest);
  }
  if (!TakeLiteral(rest, "Z") && !TakeShape(rest, "+00:00")) {
    TakeShape(rest, "-00:00");
  }
  if (bracket ? !TakeLiteral(rest, "]") : !(rest.empty() || rest.front() == ' ')) {
    return false;
  }
  s = rest;
  return true;
}

}  // namespace

std::optional<std::int64_t> TakeNumber(std::string_view& s) {
  constexpr std::size_t kMostDigits = 18;
  std::int64_t value = 0;
  std::size_t n = 0;
  while (n < s.size() && n <= kMostDigits && IsDigit(s[n])) {
    value = n < kMostDigits ? value * 10 + (s[n] - '0') : value;
    ++n;
  }
  if (n == 0 || n > kMostDigits) {
    return std::nullopt;
  }
  s.remove_prefix(n);
  return value;
}

bool TakeLiteral(std::string_view& s, std::string_view literal) {
  if (!s.starts_with(literal)) {
    return false;
  }
  s.remove_prefix(literal.size());
  return true;
}

void SkipSpaces(std::string_view& s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) {
    s.remove_prefix(1);
  }
}

std::string StripAnsi(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  while (!s.empty()) {
    const std::size_t escape = s.find(kEscape);
    out.append(s.substr(0, escape));
    if (escape == std::string_view::npos) {
      break;
    }
    s.remove_prefix(escape);
    s.remove_prefix(SequenceLength(s));
  }
  return out;
}

Prefix StripPrefixes(std::string_view s) {
  Prefix prefix;
  SkipSpaces(s);
  // srun labels the outside of everything, and "12: " further in is text.
  if (!s.empty() && IsDigit(s.front()) && TakeTask(s, prefix)) {
    SkipSpaces(s);
  }
  constexpr int kDeepest = 6;
  for (int i = 0; i < kDeepest && !s.empty(); ++i) {
    const bool taken =
        (s.front() == '[' && (TakeRole(s, prefix) || TakeTimeStamp(s))) ||
        (IsDigit(s.front()) && TakeTimeStamp(s)) || (s.front() == '(' && TakeActor(s, prefix)) ||
        (s.front() == 's' && (TakeLiteral(s, "stdout: ") || TakeLiteral(s, "stderr: ")));
    if (!taken) {
      break;
    }
    SkipSpaces(s);
  }
  prefix.rest = s;
  return prefix;
}

}  // namespace attune
