#include "prices.h"

#include <algorithm>
#include <array>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/llm/profile.h"

namespace attune::llm {
namespace {

bool IsDigits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "-v1:0" or "-v1" at the end.
std::string_view WithoutRevision(std::string_view id) {
  const std::size_t at = id.rfind("-v");
  if (at == std::string_view::npos) return id;
  const std::string_view rest = id.substr(at + 2);
  const std::size_t colon = rest.find(':');
  const bool revision = IsDigits(rest.substr(0, colon)) &&
                        (colon == std::string_view::npos || IsDigits(rest.substr(colon + 1)));
  return revision ? id.substr(0, at) : id;
}

// "-20250805" or "-2025-08-05" at the end.
std::string_view WithoutDate(std::string_view id) {
  if (id.size() > 9 && id[id.size() - 9] == '-' && IsDigits(id.substr(id.size() - 8))) {
    return id.substr(0, id.size() - 9);
  }
  if (id.size() > 11) {
    const std::string_view tail = id.substr(id.size() - 11);
    if (tail[0] == '-' && tail[5] == '-' && tail[8] == '-' && IsDigits(tail.substr(1, 4)) &&
        IsDigits(tail.substr(6, 2)) && IsDigits(tail.substr(9, 2))) {
      return id.substr(0, id.size() - 11);
    }
  }
  return id;
}

double Dollars(std::string_view text) {
  const std::optional<double> number = ParseDouble(text);
  ATTUNE_CHECK(number.has_value(), "a price of our own table is a number");
  return *number;
}

}  // namespace

std::string PlainModelId(std::string_view model) {
  std::string_view id = model.substr(model.rfind('/') + 1);
  for (const std::string_view region : {"us.", "eu.", "apac.", "global."}) {
    if (id.starts_with(region)) id.remove_prefix(region.size());
  }
  if (id.starts_with("anthropic.")) id.remove_prefix(std::string_view("anthropic.").size());
  return std::string(WithoutDate(WithoutRevision(id)));
}

std::optional<Price> PublishedPrice(std::string_view model) {
  const std::string id = PlainModelId(model);
  for (const std::string_view line : SplitLines(PriceTable())) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string_view> cells = Split(line, '\t');
    ATTUNE_CHECK(cells.size() == 7, "a row of the price table has seven cells");
    if (cells[0] != id || cells[0] == "model") continue;
    return Price{.in = Dollars(cells[1]),
                 .cached = Dollars(cells[2]),
                 .cache_write = Dollars(cells[3]),
                 .out = Dollars(cells[4]),
                 .source = std::string(cells[5]),
                 .date = std::string(cells[6])};
  }
  return std::nullopt;
}

}  // namespace attune::llm
