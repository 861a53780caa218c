#include "attune/model/pipeline_layout.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::size_t kMaxSymbols = 100'000;  // far above any model; bounds "(t*9999)*9999"

bool IsSymbol(char c) { return c == 'E' || c == 't' || c == 'm' || c == 'L' || c == '|'; }

// Reads "*N" at `at`, if it stands there. nullopt: a star without a number.
std::optional<std::size_t> Repeat(std::string_view text, std::size_t& at) {
  if (at >= text.size() || text[at] != '*') return 1;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const std::optional<std::int64_t> n = ParseInt(text.substr(at + 1, end - at - 1));
  if (!n || *n < 1 || *n > static_cast<std::int64_t>(kMaxSymbols)) return std::nullopt;
  at = end;
  return static_cast<std::size_t>(*n);
}

long long Count(const std::vector<std::string>& stages, char symbol) {
  long long n = 0;
  for (const std::string& s : stages) n += std::count(s.begin(), s.end(), symbol);
  return n;
}

}  // namespace

PipelineLayout ParsePipelineLayout(std::string_view text) {
  PipelineLayout out;
  const auto wrong = [&](std::string why) {
    out.stages.clear();
    out.error = std::move(why);
    return out;
  };
  std::string flat;
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    std::string piece;
    if (c == ',') {
      ++at;
      continue;
    }
    if (c == '(') {
      const std::size_t close = text.find(')', at);
      if (close == std::string_view::npos) return wrong("a parenthesis is not closed");
      std::size_t inner = at + 1;
      while (inner < close) {
        if (text[inner] == ',') {
          ++inner;
          continue;
        }
        if (!IsSymbol(text[inner])) return wrong("only E, t, m, L and | may be repeated");
        const char symbol = text[inner++];
        const std::optional<std::size_t> n = Repeat(text, inner);
        if (!n || piece.size() + *n > kMaxSymbols) return wrong("a repeat count is not usable");
        piece.append(*n, symbol);
      }
      at = close + 1;
    } else if (IsSymbol(c)) {
      piece = c;
      ++at;
    } else {
      return wrong("only E, t, m, L, |, *N and parentheses may stand in a layout");
    }
    const std::optional<std::size_t> n = Repeat(text, at);
    if (!n || flat.size() + piece.size() * *n > kMaxSymbols) {
      return wrong("a repeat count is not usable");
    }
    for (std::size_t i = 0; i < *n; ++i) flat += piece;
  }
  for (const std::string_view stage : Split(flat, '|')) out.stages.emplace_back(stage);
  return out;
}

std::string PipelineLayoutError(const PipelineLayout& layout, int pp, long long layers,
                                long long mtp_layers) {
  if (!layout.error.empty()) return layout.error;
  const std::vector<std::string>& stages = layout.stages;
  const std::size_t ranks = static_cast<std::size_t>(pp);
  if (stages.empty() || stages.size() % ranks != 0) {
    return std::to_string(stages.size()) + " stages do not divide over " + std::to_string(pp) +
           " pipeline ranks";
  }
  if (!stages.front().starts_with('E')) return "the first symbol must be E";
  if (!stages.back().ends_with('L')) return "the last symbol must be L";
  if (Count(stages, 'E') != 1 || Count(stages, 'L') != 1) return "E and L must stand once each";
  if (Count(stages, 't') != layers) {
    return std::to_string(Count(stages, 't')) + " decoder layers stand in it, the model has " +
           std::to_string(layers);
  }
  if (Count(stages, 'm') != mtp_layers) {
    return std::to_string(Count(stages, 'm')) + " MTP layers stand in it, the model has " +
           std::to_string(mtp_layers);
  }
  if (mtp_layers == 0) return {};
  std::size_t last_t = 0, first_m = stages.size();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].find('t') != std::string::npos) last_t = i;
    if (stages[i].find('m') != std::string::npos) first_m = std::min(first_m, i);
  }
  const std::string& shared = stages[first_m];
  if (first_m < last_t || (first_m == last_t && shared.find('m') < shared.rfind('t'))) {
    return "MTP layers must stand after all decoder layers";
  }
  const std::size_t chunks = stages.size() / ranks;
  for (std::size_t i = first_m; i < stages.size(); ++i) {
    if (stages[i].find('m') == std::string::npos) continue;
    if (i / ranks != chunks - 1) return "MTP layers must stand in the last virtual stage of a rank";
  }
  return {};
}

}  // namespace attune
