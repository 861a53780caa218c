// Values as training programs print them behind their keys.
#pragma once

#include <string_view>

#include "dialect.h"

namespace attune {

// What Python, C and NumPy print for a value that is no number or infinite.
bool IsNotFinite(std::string_view value);

// The text from the start of `s` up to the first byte of `stops`, removed from `s`.
std::string_view TakeUntil(std::string_view& s, std::string_view stops);

// The value printed behind `key`, without spaces in front, up to a space, one of ",;|" or the end;
// empty when the key is not there. A key counts only at the start of a word.
std::string_view ValueOf(std::string_view line, std::string_view key);

// Puts a printed loss or gradient norm into the step; NaN marks the step. False: no number.
bool UseLoss(StepLine& line, std::string_view name, std::string_view value);
bool UseGradNorm(StepLine& line, std::string_view value);

}  // namespace attune
