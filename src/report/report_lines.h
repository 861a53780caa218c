// A report as lines of a key and a sentence: what text, Markdown and HTML all say. Not escaped.
#pragma once

#include <string>
#include <vector>

#include "attune/report/report.h"

namespace attune::report {

struct Line {
  std::string key;  // ours
  std::string text;
};

std::string Title(const Report& r);
std::string Verdict(const Report& r);  // "SHIPPED", "NO GAIN", "ABORTED", "NOT FINISHED"
std::vector<Line> Lines(const Report& r);

}  // namespace attune::report
