// What a gate says. Fails closed: a default-made verdict refuses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune {

enum class Severity { kRefuse, kAlarm, kCaution, kNote };
std::string_view Word(Severity s);

// One rule's word on one thing. `rule` is stable and documented: "objective.--lr",
// "legality.gbs_divisible", "defect.D4", "step0.loss".
struct Finding {
  Severity severity = Severity::kRefuse;
  std::string rule;
  std::string key;       // flag, variable, loss name, group ...
  std::string was, now;  // values compared, as printed
  std::string why;       // one sentence, with the numbers

  bool operator==(const Finding&) const = default;
};

struct GateVerdict {
  bool admitted = false;
  std::vector<Finding> findings;  // refusals first; alarms, cautions and notes may accompany both

  const Finding* FirstRefusal() const {
    for (const Finding& f : findings) {
      if (f.severity == Severity::kRefuse) return &f;
    }
    return nullptr;
  }
};
// Admitted iff no finding refuses.
GateVerdict VerdictOf(std::vector<Finding> findings);

}  // namespace attune
