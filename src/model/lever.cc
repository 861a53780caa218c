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

std::set<std::string> Flags(const Effective& a, const Effective& b) {
  std::set<std::string> flags;
  for (const Effective* e : {&a, &b}) {
    for (const Argument& x : e->args.items()) flags.insert(x.flag);
  }
  return flags;
}

std::set<std::string> Names(const Effective& a, const Effective& b) {
  std::set<std::string> names;
  for (const Effective* e : {&a, &b}) {
    for (const auto& [name, value] : e->env) names.insert(name);
  }
  return names;
}

// All occurrences, so that a repeated flag differs from a single one.
std::vector<const Argument*> All(const Arguments& args, std::string_view flag) {
  std::vector<const Argument*> out;
  for (const Argument& a : args.items()) {
    if (a.flag == flag) out.push_back(&a);
  }
  return out;
}

bool SameFlag(const Effective& a, const Effective& b, std::string_view flag) {
  const auto x = All(a.args, flag);
  const auto y = All(b.args, flag);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const Argument* p, const Argument* q) { return *p == *q; });
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
  for (const std::string& flag : Flags(from, to)) {
    if (SameFlag(from, to, flag)) continue;
    if (const Argument* a = to.args.Find(flag)) {
      edits.push_back({Edit::Op::kSet, flag, a->values});
    } else {
      edits.push_back({Edit::Op::kUnset, flag, {}});
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
