// declare: the levers of a trainer that attune does not know. levers: restricts, never adds.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "attune/base/text.h"
#include "read_recipe.h"

namespace attune {
namespace {

bool IsId(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

// Exactly one of flag and env.
void ReadTarget(const Section& section, const LoadOptions& options, std::string& flag,
                std::string& env) {
  if (!section.present()) {
    return;
  }
  Problems& problems = section.problems();
  section.Text("flag", flag);
  section.Text("env", env);
  if (problems.none() && flag.empty() == env.empty()) {
    problems.At(section.where(), fmt::format("{} takes either flag or env", section.Name("flag")));
    return;
  }
  if (!flag.empty() && !IsFlag(flag)) {
    problems.At(section.WhereOf("flag"), fmt::format("'{}' is no flag", EscapeForDisplay(flag, 80)),
                "write it with its dashes, like --micro-batch-size");
  }
  if (!env.empty()) {
    CheckEnvName(env, section.WhereOf("env"), options, problems);
  }
}

std::vector<LeverCondition> ReadConditions(const Section& lever, std::string_view key,
                                           const LoadOptions& options) {
  std::vector<LeverCondition> out;
  for (const Section& section : lever.Subs(key)) {
    LeverCondition condition;
    ReadTarget(section, options, condition.flag, condition.env);
    section.Text("is", condition.is);
    out.push_back(std::move(condition));
  }
  return out;
}

void CheckValues(const Section& section, const DeclaredLever& lever) {
  const Node* values = section.Find("values");
  if (values == nullptr) {
    return;
  }
  Problems& problems = section.problems();
  if (lever.values.empty()) {
    problems.At(values->where, fmt::format("lever {} has no values", lever.id));
  }
  std::set<std::string> seen;
  for (const Node& item : values->items) {
    if (!seen.insert(item.text).second) {
      problems.At(item.where, fmt::format("lever {} has the value '{}' twice", lever.id,
                                          EscapeForDisplay(item.text, 40)));
    }
    if (IsFlag(item.text) || item.text.find('\n') != std::string::npos) {
      problems.At(item.where, fmt::format("a value of lever {} would be read as a flag or has a "
                                          "newline",
                                          lever.id));
    }
  }
}

}  // namespace

void ReadDeclared(const Section& top, const LoadOptions& options, Recipe& recipe) {
  const Node* declare = top.Find("declare");
  Problems& problems = top.problems();
  if (declare != nullptr && recipe.framework != Framework::kCustom) {
    problems.At(declare->where, "declare is for framework custom: megatron-lm has its own levers",
                "use levers: to restrict them");
    return;
  }
  std::map<std::string, std::string> owners;  // flag or variable -> lever
  for (const Section& section : top.Subs("declare")) {
    DeclaredLever lever;
    section.Text("lever", lever.id);
    if (!problems.none()) {
      return;
    }
    if (!IsId(lever.id)) {
      problems.At(section.WhereOf("lever"),
                  fmt::format("'{}' is no lever id", EscapeForDisplay(lever.id, 80)),
                  "lower-case letters, digits, _ and -, beginning with a letter");
    }
    ReadTarget(section, options, lever.flag, lever.env);
    const std::string target = lever.flag.empty() ? lever.env : lever.flag;
    const auto [owner, fresh] = owners.try_emplace(target, lever.id);
    if (!fresh) {
      problems.At(section.where(),
                  fmt::format("{} belongs to lever {} already", target, owner->second),
                  "one flag or variable has one lever");
    }
    section.Texts("values", lever.values);
    CheckValues(section, lever);
    std::string cls;
    section.Text("class", cls);
    lever.cls = ParseLeverClass(cls).value_or(LeverClass::kUnknown);
    // One id may stand over several arguments that move together; they are one lever of one class.
    for (const DeclaredLever& other : recipe.declared) {
      if (other.id == lever.id && other.cls != lever.cls) {
        problems.At(section.WhereOf("class"),
                    fmt::format("lever {} is declared as {} already", lever.id, Word(other.cls)));
      }
    }
    lever.excludes = ReadConditions(section, "excludes", options);
    lever.needs = ReadConditions(section, "needs", options);
    for (auto& [key, form] : section.TextMap("derives")) {
      lever.derives[key] = form;
    }
    section.Text("why", lever.why);
    recipe.declared.push_back(std::move(lever));
  }
}

void ReadLevers(const Section& levers, const LoadOptions& options, Recipe& recipe) {
  levers.Texts("allow", recipe.allow);
  levers.Texts("deny", recipe.deny);
  for (auto& [lever, why] : levers.TextMap("why")) {
    recipe.why[lever] = why;
  }
  Problems& problems = levers.problems();
  if (!levers.present() || !problems.none()) {
    return;
  }
  std::vector<std::string> known = options.lever_ids;
  if (recipe.framework == Framework::kCustom) {
    known.clear();
    for (const DeclaredLever& lever : recipe.declared) {
      known.push_back(lever.id);
    }
  }
  const auto check = [&](const std::string& lever, const Where& where) {
    const bool unchecked = recipe.framework != Framework::kCustom && known.empty();
    if (unchecked || std::find(known.begin(), known.end(), lever) != known.end()) {
      return;
    }
    const std::string near = Nearest(lever, known);
    problems.At(
        where, fmt::format("unknown lever '{}'", EscapeForDisplay(lever, 80)),
        near.empty() ? "attune levers list names them" : fmt::format("did you mean '{}'?", near));
  };
  for (const std::string_view key : {"allow", "deny"}) {
    if (const Node* list = levers.Find(key); list != nullptr) {
      for (const Node& item : list->items) {
        check(item.text, item.where);
        if (key == "deny" &&
            std::find(recipe.allow.begin(), recipe.allow.end(), item.text) != recipe.allow.end()) {
          problems.At(item.where, fmt::format("lever {} is allowed and denied", item.text));
        }
      }
    }
  }
  if (const Node* why = levers.Find("why"); why != nullptr) {
    for (const Entry& entry : why->entries) {
      check(entry.key, entry.where);
    }
  }
}

}  // namespace attune
