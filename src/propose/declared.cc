#include "declared.h"

#include <algorithm>

namespace attune {
namespace {

constexpr std::size_t kMaxEnablers = 3;

bool SameLever(const DeclaredLever& lever, const LeverCondition& c) {
  return (!c.flag.empty() && c.flag == lever.flag) || (!c.env.empty() && c.env == lever.env);
}

// Conditions of either side that forbid `lever` and `other` as they stand in `e`.
bool Conflict(const DeclaredLever& lever, const DeclaredLever& other, const Effective& e,
              const Effective& base) {
  const auto hits = [&](const DeclaredLever& a, const DeclaredLever& b) {
    // `a` may not be away from the baseline while a condition on `b` holds.
    if (ValueIn(a, e) == ValueIn(a, base)) return false;
    return std::any_of(a.excludes.begin(), a.excludes.end(),
                       [&](const LeverCondition& c) { return SameLever(b, c) && Holds(c, e); });
  };
  return hits(lever, other) || hits(other, lever);
}

}  // namespace

std::optional<std::string> ValueIn(const DeclaredLever& lever, const Effective& e) {
  if (!lever.env.empty()) {
    const auto it = e.env.find(lever.env);
    if (it == e.env.end()) return std::nullopt;
    return it->second;
  }
  const bool bare = std::any_of(lever.values.begin(), lever.values.end(),
                                [](const std::string& v) { return v == "true" || v == "false"; });
  const Argument* a = e.args.Find(lever.flag);
  if (a == nullptr) return bare ? std::optional<std::string>("false") : std::nullopt;
  if (a->values.empty()) return "true";
  if (a->values.size() == 1) return a->values.front();
  return std::nullopt;
}

std::optional<std::size_t> IndexIn(const DeclaredLever& lever, const Effective& e) {
  const std::optional<std::string> value = ValueIn(lever, e);
  if (!value) return std::nullopt;
  const auto it = std::find(lever.values.begin(), lever.values.end(), *value);
  if (it == lever.values.end()) return std::nullopt;
  return static_cast<std::size_t>(it - lever.values.begin());
}

Edit EditTo(const DeclaredLever& lever, const std::string& value) {
  if (!lever.env.empty()) return {Edit::Op::kEnv, lever.env, {value}};
  if (value == "true") return {Edit::Op::kSet, lever.flag, {}};
  if (value == "false") return {Edit::Op::kUnset, lever.flag, {}};
  return {Edit::Op::kSet, lever.flag, {value}};
}

bool Holds(const LeverCondition& c, const Effective& e) {
  if (!c.env.empty()) {
    const auto it = e.env.find(c.env);
    return it != e.env.end() && (c.is.empty() || it->second == c.is);
  }
  const Argument* a = e.args.Find(c.flag);
  if (a == nullptr) return c.is == "false";
  if (c.is.empty()) return true;
  if (a->values.empty()) return c.is == "true";
  return a->values.size() == 1 && a->values.front() == c.is;
}

std::optional<Change> MoveTo(const Recipe& recipe, const Effective& from,
                             const DeclaredLever& lever, const std::string& value) {
  Change change{.lever = lever.id, .edits = {EditTo(lever, value)}, .enablers = {}};
  Effective e = ApplyEdits(from, change.edits);
  for (const DeclaredLever& other : recipe.declared) {
    if (other.id == lever.id || !Conflict(lever, other, e, recipe.base)) continue;
    bool solved = false;
    // The baseline's own value first: it is the one the user has run.
    std::vector<std::string> values;
    if (auto base = ValueIn(other, recipe.base)) values.push_back(*base);
    values.insert(values.end(), other.values.begin(), other.values.end());
    for (const std::string& v : values) {
      const Edit edit = EditTo(other, v);
      const Effective tried = ApplyEdits(e, {edit});
      if (tried == e || Conflict(lever, other, tried, recipe.base)) continue;
      change.edits.push_back(edit);
      change.enablers.push_back(other.id);
      e = tried;
      solved = true;
      break;
    }
    if (!solved || change.enablers.size() > kMaxEnablers) return std::nullopt;
  }
  return change;
}

std::string MoveLabel(const DeclaredLever& lever, const std::string& value) {
  std::string label;
  for (const char c : lever.id + "-" + value) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    label += fine ? c : '-';
  }
  return label.substr(0, 24);
}

bool IsOffered(const Recipe& recipe, const DeclaredLever& lever) {
  const auto in = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), lever.id) != list.end();
  };
  return !in(recipe.deny) && (recipe.allow.empty() || in(recipe.allow));
}

}  // namespace attune
