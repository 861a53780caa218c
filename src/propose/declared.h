// Moves over the levers that a recipe declares: what a value of a lever means as edits, and where a
// configuration stands on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"

namespace attune {

// The lever's value in `e` as the recipe spells it: "true"/"false" for bare flags, the argument's
// value, or the value of the variable. nullopt: absent, and the lever has no "false".
std::optional<std::string> ValueIn(const DeclaredLever& lever, const Effective& e);
// Index of that value in lever.values; nullopt when it is none of them.
std::optional<std::size_t> IndexIn(const DeclaredLever& lever, const Effective& e);
Edit EditTo(const DeclaredLever& lever, const std::string& value);
// Does `condition` hold in `e`?
bool Holds(const LeverCondition& condition, const Effective& e);

// lever := value as a change of `from`. Where the value excludes what another declared lever is set
// to (or the other way round), that lever goes back to its first compatible value as an enabler.
// nullopt when more than three enablers would be needed or none helps.
std::optional<Change> MoveTo(const Recipe& recipe, const Effective& from,
                             const DeclaredLever& lever, const std::string& value);

// "micro_batch=4": the label of a move, fit for a run label.
std::string MoveLabel(const DeclaredLever& lever, const std::string& value);

// May the recipe's `levers:` restriction use it?
bool IsOffered(const Recipe& recipe, const DeclaredLever& lever);

}  // namespace attune
