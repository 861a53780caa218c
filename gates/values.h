// The grammar of one argument's values. Judged before anything is quoted or rendered.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "attune/gates/rules.h"

namespace attune::gates {

// Why `values` are not legal for an argument of this kind; empty when they are.
std::string WhyIllegal(ValueKind kind, std::string_view choices, double lo, double hi,
                       std::span<const std::string> values, const ConfigLimits& limits);

// A flag as it may stand in a change: "--" and then letters, digits, "-", "_".
bool IsFlagSpelling(std::string_view flag);
// A variable name: letters, digits, "_", not starting with a digit.
bool IsEnvSpelling(std::string_view name);

bool SameValue(ValueKind kind, std::string_view a, std::string_view b);

bool InChoices(std::string_view choices, std::string_view word);

}  // namespace attune::gates
