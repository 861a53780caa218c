// The price table of the program: prices.tsv, embedded at build time.
#pragma once

#include <string>
#include <string_view>

namespace attune::llm {

std::string_view PriceTable();
// "us.anthropic.claude-opus-4-1-20250805-v1:0" -> "claude-opus-4-1".
std::string PlainModelId(std::string_view model);

}  // namespace attune::llm
