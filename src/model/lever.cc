#include "attune/model/lever.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "attune/base/check.h"
#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::pair<LeverClass, std::string_view> kClassWords[] = {
    {LeverClass::kPlacement, "placement"},  {LeverClass::kMemory, "memory"},
    {LeverClass::kOverlap, "overlap"},      {LeverClass::kBatching, "batching"},
    {LeverClass::kKernel, "kernel"},        {LeverClass::kEnv, "env"},
    {LeverClass::kIoLogging, "io/logging"}, {LeverClass::kUnsafe, "unsafe"},
    {LeverClass::kObjective, "objective"},  {LeverClass::kUnknown, "unknown"},
};

std::string ShowArgument(const Argument* a) {
  if (a == nullptr) return "off";
  if (a->values.empty()) return "on";
  return Join(a->values, ",");
}

// All occurrences, so that a repeated flag differs from a single one.
bool SameFlag(const Arguments& a, const Arguments& b, std::string_view flag) {
  const auto next = [&](auto from, auto end) {
    return std::find_if(from, end, [&](const Argument& x) { return x.flag == flag; });
  };
  const std::vector<Argument>&x = a.items(), &y = b.items();
  auto p = next(x.begin(), x.end());
  auto q = next(y.begin(), y.end());
  while (p != x.end() && q != y.end()) {
    if (p->values != q->values) return false;
    p = next(p + 1, x.end());
    q = next(q + 1, y.end());
  }
  return p == x.end() && q == y.end();
}

// Flags that may differ, by name: those between the common start and the common end of the lists.
// The gate compares two lists of which one was made from the other, twice a candidate.
std::vector<std::string_view> Suspects(const Arguments& a, const Arguments& b) {
  auto p = a.items().begin(), q = b.items().begin();
  auto p_end = a.items().end(), q_end = b.items().end();
  for (; p != p_end && q != q_end && *p == *q; ++p, ++q) {
  }
  for (; p != p_end && q != q_end && *(p_end - 1) == *(q_end - 1); --p_end, --q_end) {
  }
  std::vector<std::string_view> flags;
  for (; p != p_end; ++p) flags.emplace_back(p->flag);
  for (; q != q_end; ++q) flags.emplace_back(q->flag);
  std::sort(flags.begin(), flags.end());
  flags.erase(std::unique(flags.begin(), flags.end()), flags.end());
  return flags;
}

std::set<std::string> Names(const Effective& a, const Effective& b) {
  std::set<std::string> names;
  for (const Effective* e : {&a, &b}) {
    for (const auto& [name, value] : e->env) names.insert(name);
  }
  return names;
}

}  // namespace

std::string_view Word(LeverClass c) {
  for (const auto& [cls, word] : kClassWords) {
    if (cls == c) return word;
  }
  ATTUNE_CHECK(false, "a lever class without a word");
}

std::optional<LeverClass> ParseLeverClass(std::string_view word) {
  if (word == "comm") return LeverClass::kOverlap;
  for (const auto& [cls, known] : kClassWords) {
    if (known == word) return cls;
  }
  return std::nullopt;
}

std::string_view Word(Edit::Op op) {
  switch (op) {
    case Edit::Op::kSet:
      return "set";
    case Edit::Op::kUnset:
      return "unset";
    case Edit::Op::kEnv:
      return "env";
    case Edit::Op::kUnsetEnv:
      return "unset_env";
  }
  ATTUNE_CHECK(false, "an edit without a word");
}

Effective ApplyEdits(Effective base, const std::vector<Edit>& edits) {
  for (const Edit& e : edits) {
    switch (e.op) {
      case Edit::Op::kSet:
        base.args.Set(e.name, e.values);
        break;
      case Edit::Op::kUnset:
        base.args.Unset(e.name);
        break;
      case Edit::Op::kEnv:
        base.env[e.name] = e.values.empty() ? std::string() : e.values.front();
        break;
      case Edit::Op::kUnsetEnv:
        base.env.erase(e.name);
        break;
    }
  }
  return base;
}

std::vector<Edit> Difference(const Effective& from, const Effective& to) {
  std::vector<Edit> edits;
  for (const std::string_view flag : Suspects(from.args, to.args)) {
    if (SameFlag(from.args, to.args, flag)) continue;
    if (const Argument* a = to.args.Find(flag)) {
      edits.push_back({Edit::Op::kSet, std::string(flag), a->values});
    } else {
      edits.push_back({Edit::Op::kUnset, std::string(flag), {}});
    }
  }
  for (const std::string& name : Names(from, to)) {
    const auto was = from.env.find(name);
    const auto now = to.env.find(name);
    if (now == to.env.end()) {
      edits.push_back({Edit::Op::kUnsetEnv, name, {}});
    } else if (was == from.env.end() || was->second != now->second) {
      edits.push_back({Edit::Op::kEnv, name, {now->second}});
    }
  }
  return edits;
}

std::string DescribeDifference(const Effective& from, const Effective& to) {
  std::vector<std::string> parts;
  for (const Edit& e : Difference(from, to)) {
    if (e.op == Edit::Op::kSet || e.op == Edit::Op::kUnset) {
      std::string_view name = e.name;
      while (name.starts_with('-')) name.remove_prefix(1);
      parts.push_back(std::string(name) + " " + ShowArgument(from.args.Find(e.name)) + "->" +
                      ShowArgument(to.args.Find(e.name)));
      continue;
    }
    const auto show = [&](const Env& env) {
      const auto it = env.find(e.name);
      return it == env.end() ? std::string("unset") : it->second;
    };
    parts.push_back(e.name + " " + show(from.env) + "->" + show(to.env));
  }
  return Join(parts, "; ");
}

}  // namespace attune
