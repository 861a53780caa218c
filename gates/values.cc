#include "values.h"

#include <algorithm>

#include "attune/base/text.h"
#include "attune/model/pipeline_layout.h"

namespace attune::gates {
namespace {

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsWord(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// What no token of a change may hold, whatever its kind. A space too: one value is one token.
std::string WhyNoToken(std::string_view v, const ConfigLimits& limits) {
  if (v.empty()) return "the value is empty";
  if (v.size() > limits.value_bytes) {
    return "the value is longer than " + std::to_string(limits.value_bytes) + " bytes";
  }
  const bool plain = std::all_of(v.begin(), v.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!plain) return "only printable ASCII without spaces may stand in a value";
  return {};
}

std::string Range(double lo, double hi) {
  const auto show = [](double x) {
    std::string s = std::to_string(x);
    s.erase(s.find_last_not_of('0') + 1);
    if (s.ends_with('.')) s.pop_back();
    return s;
  };
  return show(lo) + " to " + show(hi);
}

std::string WhyNoInt(std::string_view v, double lo, double hi) {
  const std::optional<std::int64_t> n = ParseInt(v);
  if (n && static_cast<double>(*n) >= lo && static_cast<double>(*n) <= hi) return {};
  return "must be a whole number, " + Range(lo, hi);
}

std::string WhyNoChoice(std::string_view choices, std::string_view v) {
  if (choices == "word" ? IsWord(v) : InChoices(choices, v)) return {};
  return "must be one of " + std::string(choices);
}

}  // namespace

bool InChoices(std::string_view choices, std::string_view word) {
  while (!choices.empty()) {
    const std::size_t bar = choices.find('|');
    if (choices.substr(0, bar) == word) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
  return false;
}

std::string WhyIllegal(ValueKind kind, std::string_view choices, double lo, double hi,
                       std::span<const std::string> values, const ConfigLimits& limits) {
  if (kind == ValueKind::kBool) {
    return values.empty() ? std::string() : "a boolean flag takes no value: set it to true";
  }
  if (values.empty()) return "a value is missing";
  if (kind != ValueKind::kList && values.size() != 1) return "exactly one value is wanted";
  if (values.size() > limits.list_values) {
    return "more than " + std::to_string(limits.list_values) + " values";
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& v = values[i];
    if (std::string why = WhyNoToken(v, limits); !why.empty()) return why;
    if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), v) !=
            values.begin() + static_cast<std::ptrdiff_t>(i) &&
        !choices.empty()) {
      return "a value stands twice";
    }
    std::string why;
    switch (kind) {
      case ValueKind::kInt:
        why = WhyNoInt(v, lo, hi);
        break;
      case ValueKind::kFloat: {
        const std::optional<double> x = ParseDouble(v);
        if (!x || *x < lo || *x > hi) why = "must be a number, " + Range(lo, hi);
        break;
      }
      case ValueKind::kEnum:
        why = WhyNoChoice(choices, v);
        break;
      case ValueKind::kList:
        why = choices.empty() ? WhyNoInt(v, lo, hi) : WhyNoChoice(choices, v);
        break;
      case ValueKind::kLayout:
        why = ParsePipelineLayout(v).error;
        break;
      case ValueKind::kBool:
        break;
      case ValueKind::kString:
      case ValueKind::kPath:
      case ValueKind::kAny:
        why = "free text and paths belong to the recipe";
        break;
    }
    if (!why.empty()) return why;
  }
  return {};
}

bool IsFlagSpelling(std::string_view flag) {
  if (!flag.starts_with("--") || flag.size() < 3 || !IsAlnum(flag[2])) return false;
  return std::all_of(flag.begin() + 2, flag.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_'; });
}

bool IsEnvSpelling(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return IsAlnum(c) || c == '_'; });
}

bool SameValue(ValueKind kind, std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (kind != ValueKind::kInt && kind != ValueKind::kFloat) return false;
  const std::optional<int> order = CompareDecimal(a, b);
  return order && *order == 0;
}

}  // namespace attune::gates
