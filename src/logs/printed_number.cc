#include "printed_number.h"

#include <optional>
#include <string>

#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::string_view kEnds = " ,;|\t)";

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '/' || c == '.';
}

}  // namespace

bool IsNotFinite(std::string_view value) {
  return value == "nan" || value == "-nan" || value == "inf" || value == "-inf" || value == "NaN" ||
         value == "Inf" || value == "-Inf" || value == "Infinity" || value == "-Infinity";
}

std::string_view TakeUntil(std::string_view& s, std::string_view stops) {
  const std::string_view head = s.substr(0, s.find_first_of(stops));
  s.remove_prefix(head.size());
  return head;
}

std::string_view ValueOf(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && IsWordByte(line[at - 1])) {
      continue;
    }
    std::string_view rest = line.substr(at + key.size());
    SkipSpaces(rest);
    return TakeUntil(rest, kEnds);
  }
  return {};
}

bool UseLoss(StepLine& line, std::string_view name, std::string_view value) {
  if (IsNotFinite(value)) {
    line.step.nan = true;
    return true;
  }
  const std::optional<double> loss = ParseDouble(value);
  if (loss) {
    line.step.losses.emplace(name, *loss);
  }
  return loss.has_value();
}

bool UseGradNorm(StepLine& line, std::string_view value) {
  line.grad_norm = std::string(value.substr(0, 64));
  if (IsNotFinite(value)) {
    line.step.nan = true;
    return true;
  }
  line.step.grad_norm = ParseDouble(value);
  return line.step.grad_norm.has_value();
}

}  // namespace attune
