#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"

namespace attune {
namespace {

constexpr double kNoBound = 100'000;

std::string ValuesOf(ValueKind kind, std::string_view choices, double lo, double hi) {
  // A bound that no job comes near says nothing.
  const auto range = [&] {
    if (lo == 0 && hi == 0) return std::string("any");
    return hi >= kNoBound ? fmt::format("{:.12g} or more", lo)
                          : fmt::format("{:.12g}..{:.12g}", lo, hi);
  };
  switch (kind) {
    case ValueKind::kBool:
      return {};  // on or off
    case ValueKind::kInt:
      return range();
    case ValueKind::kFloat:
      return "decimal " + range();
    case ValueKind::kEnum:
      return std::string(choices);
    case ValueKind::kLayout:
      return "layout text";
    case ValueKind::kList:
      return "list of " + (choices.empty() ? range() : std::string(choices));
    case ValueKind::kString:
    case ValueKind::kPath:
    case ValueKind::kAny:
      break;
  }
  return {};
}

bool IsOpen(const Recipe& recipe, const std::string& id) {
  const auto has = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  return !has(recipe.deny) && (recipe.allow.empty() || has(recipe.allow));
}

std::optional<LeverOffer::Name> NameOf(const Rules& rules, const LeverRow& row) {
  LeverOffer::Name name;
  name.name = row.name;
  name.follows = row.role == LeverRole::kTied;
  if (!row.name.starts_with("-")) {
    const EnvRow* env = FindEnv(rules, row.name);
    if (env == nullptr || !env->allow) return std::nullopt;
    name.values = ValuesOf(env->kind, env->choices, env->lo, env->hi);
    return name;
  }
  const FlagRow* flag = FindFlag(rules, row.name);
  if (flag == nullptr) return std::nullopt;
  name.values = ValuesOf(flag->kind, flag->choices, flag->lo, flag->hi);
  if (flag->otherwise != "-" && flag->kind != ValueKind::kBool) name.otherwise = flag->otherwise;
  return name;
}

LeverOffer Declared(const DeclaredLever& declared) {
  LeverOffer offer{
      .id = declared.id, .cls = std::string(Word(declared.cls)), .names = {}, .why = declared.why};
  offer.names.push_back({.name = declared.flag.empty() ? declared.env : declared.flag,
                         .values = Join(declared.values, "|"),
                         .otherwise = {},
                         .follows = false});
  return offer;
}

}  // namespace

std::vector<LeverOffer> LeverOffersOf(const Recipe& recipe) {
  std::vector<LeverOffer> offers;
  if (recipe.framework == Framework::kCustom) {
    for (const DeclaredLever& declared : recipe.declared) {
      if (IsOpen(recipe, declared.id)) offers.push_back(Declared(declared));
    }
    return offers;
  }
  const Rules& rules = BuiltInRules();
  for (const std::string& id : LeverIds(recipe, rules)) {
    if (!IsOpen(recipe, id)) continue;
    LeverOffer offer{.id = id,
                     .cls = std::string(Word(ClassOfLever(recipe, rules, id))),
                     .names = {},
                     .why = {}};
    for (const LeverRow& row : rules.levers) {
      if (row.lever != id) continue;
      if (auto name = NameOf(rules, row)) offer.names.push_back(std::move(*name));
    }
    if (!offer.names.empty()) offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace attune
