// Level 1 of the correctness gate: the loss of the first printed iteration, before any update of
// this run, against the baseline's (control_plane.md section 5, "Step 0").
#pragma once

#include <map>
#include <span>
#include <string>

#include "attune/gates/thresholds.h"
#include "attune/model/lever.h"
#include "attune/model/measurement.h"
#include "attune/model/verdict.h"

namespace attune {

struct Step0Input {
  const Calibration* calibration = nullptr;  // required, with losses of the first iteration
  const Step* step = nullptr;                // the candidate's first printed iteration
  std::span<const LeverClass> classes;       // of every lever the candidate differs in
  bool experts = false;                      // a mixture-of-experts model
  // From random initialisation, or with dropout: layouts can't be compared by loss.
  bool incomparable = false;
  double recipe_limit = 0.02;  // GateSpec.step0_loss: may only lower the limit
};
struct Step0Verdict {
  // Refuses (step0.loss) when |loss / baseline - 1| > 2% (exactly 2% passes), not finite or absent.
  GateVerdict verdict;
  double shift = 0;
  // Above the class value (step0.class, an alarm): C4, C6 and C7 become conditions for leading.
  bool alarm = false;
  bool weak = false;  // `incomparable`: strength basic
};
Step0Verdict CheckStep0(const Step0Input& input, const Thresholds& limits);

// "lm loss" where printed, else "loss", else the only term; empty when there is none.
std::string MainLoss(const std::map<std::string, double>& losses);

}  // namespace attune
