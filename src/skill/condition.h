#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "attune/skill/skill.h"

namespace attune::skill {

// "key operator value" with one space between; nullopt and why when it is none.
std::optional<JobCondition> ParseCondition(std::string_view text, std::string& why);

}  // namespace attune::skill
