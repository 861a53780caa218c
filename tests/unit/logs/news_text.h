// The news of a log as text, so that two ways of feeding it can be compared and cases can be
// written down.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/logs/log_parser.h"

namespace attune::testing_logs {

// One line a step, then arguments, memory, markers, failure and notes; what is absent has no line.
std::string ShowNews(const LogNews& all, const std::map<std::string, std::int64_t>& notes);

std::string ShowSteps(const std::vector<Step>& steps);

// Feeds the pieces in order, taking the news after each, and shows all of it together.
std::string ReadPieces(const LogSpec& spec, const std::vector<std::string_view>& pieces);
std::string ReadWhole(const LogSpec& spec, std::string_view log);
LogNews NewsOf(const LogSpec& spec, std::string_view log);

inline LogSpec Megatron() { return {"megatron-lm", ""}; }

}  // namespace attune::testing_logs
