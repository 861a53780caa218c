#include "attune/model/verdict.h"

#include <algorithm>

#include "attune/base/check.h"

namespace attune {

std::string_view Word(Severity s) {
  switch (s) {
    case Severity::kRefuse:
      return "refuse";
    case Severity::kAlarm:
      return "alarm";
    case Severity::kCaution:
      return "caution";
    case Severity::kNote:
      return "note";
  }
  ATTUNE_CHECK(false, "a severity without a word");
}

GateVerdict VerdictOf(std::vector<Finding> findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  GateVerdict verdict{.admitted = true, .findings = std::move(findings)};
  verdict.admitted = verdict.FirstRefusal() == nullptr;
  return verdict;
}

}  // namespace attune
