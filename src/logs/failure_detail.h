// The numbers in a failure's deciding line, worded for people.
#pragma once

#include <string>

#include "failure_rules.h"
#include "line_text.h"

namespace attune {

// "rank 3: tried 2.10 GiB, 400.00 MiB free"; parts that the line does not print are left out, and
// a line that prints none gives an empty text.
std::string FailureDetail(FailureClass cls, const LogLine& line);

}  // namespace attune
