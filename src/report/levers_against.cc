#include "attune/report/levers_against.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::size_t kShown = 8;

bool Has(const std::vector<std::string>& list, std::string_view id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

bool IsOffered(const Recipe& recipe, const std::string& id) {
  return !Has(recipe.deny, id) && (recipe.allow.empty() || Has(recipe.allow, id));
}

// How early a lever names the bottleneck among those that it helps: what it is for stands first.
std::ptrdiff_t PlaceOf(const CatalogLever& lever, std::string_view bottleneck) {
  return std::find(lever.helps.begin(), lever.helps.end(), bottleneck) - lever.helps.begin();
}

std::vector<std::string> FromCatalog(const Catalog& catalog, const Recipe& recipe,
                                     std::string_view bottleneck) {
  std::vector<const CatalogLever*> answering = catalog.Answering(bottleneck);
  std::stable_sort(answering.begin(), answering.end(),
                   [&](const CatalogLever* a, const CatalogLever* b) {
                     return PlaceOf(*a, bottleneck) < PlaceOf(*b, bottleneck);
                   });
  std::vector<std::string> ids;
  for (const CatalogLever* lever : answering) {
    if (IsOffered(recipe, lever->lever)) ids.push_back(lever->lever);
  }
  return ids;
}

std::vector<std::string> Declared(const Recipe& recipe, std::string_view bottleneck) {
  std::vector<std::string> ids;
  for (const LeverClass cls : LeverClassesFor(bottleneck)) {
    for (const DeclaredLever& lever : recipe.declared) {
      if (lever.cls == cls && IsOffered(recipe, lever.id)) ids.push_back(lever.id);
    }
  }
  return ids;
}

}  // namespace

std::vector<BottleneckLevers> LeversAgainst(const Diagnosis& diagnosis, const Recipe& recipe,
                                            const Catalog& catalog) {
  std::vector<BottleneckLevers> all;
  for (const Bottleneck& b : diagnosis.bottlenecks) {
    if (!b.named) continue;
    BottleneckLevers row;
    row.bottleneck = b.cls;
    for (const LeverClass cls : LeverClassesFor(b.cls)) row.classes.emplace_back(Word(cls));
    row.levers = recipe.framework == Framework::kMegatronLm ? FromCatalog(catalog, recipe, b.cls)
                                                            : Declared(recipe, b.cls);
    if (!row.classes.empty() || !row.levers.empty()) all.push_back(std::move(row));
  }
  return all;
}

std::string ShowLevers(const std::vector<std::string>& levers) {
  if (levers.size() <= kShown) return Join(levers, ", ");
  const std::vector<std::string> first(levers.begin(), levers.begin() + kShown);
  return fmt::format("{} and {} more", Join(first, ", "), levers.size() - kShown);
}

}  // namespace attune
