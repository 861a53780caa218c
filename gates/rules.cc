#include "attune/gates/rules.h"

#include <algorithm>

namespace attune {
namespace {

bool Matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return pattern == name;
}

}  // namespace

const FlagRow* FindFlag(const Rules& rules, std::string_view flag) {
  const auto it =
      std::lower_bound(rules.flags.begin(), rules.flags.end(), flag,
                       [](const FlagRow& row, std::string_view f) { return row.flag < f; });
  return it != rules.flags.end() && it->flag == flag ? &*it : nullptr;
}

const EnvRow* FindEnv(const Rules& rules, std::string_view name) {
  const EnvRow* refusal = nullptr;
  for (const EnvRow& row : rules.env) {
    if (row.allow) {
      if (row.name == name) return &row;
    } else if (refusal == nullptr && Matches(row.name, name)) {
      refusal = &row;
    }
  }
  return refusal;
}

}  // namespace attune
