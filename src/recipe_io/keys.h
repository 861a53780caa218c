// Every key that a recipe file may hold: one table for the reader's unknown-key errors, the JSON
// Schema and the check of docs/formats/recipe.md.
#pragma once

#include <span>
#include <string_view>

#include "attune/recipe_io/section.h"

namespace attune {

std::span<const Key> RecipeKeys();
// The keys of a section by its dotted path ("launcher.script"); a bug when there is none.
std::span<const Key> SectionKeys(std::string_view path);

}  // namespace attune
