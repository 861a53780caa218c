// RFC 4180: commas, quoted fields with doubled quotes, CRLF or LF. Strict: a quote inside a plain
// field, text after a closing quote, and an unclosed quote are errors with their line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"

namespace attune::corpus {

Result<std::vector<std::vector<std::string>>> ParseCsv(std::string_view text);

}  // namespace attune::corpus
