// The configuration gate (level 0, control_plane.md 3 and 5): may this change of this recipe be
// launched? Values in, verdict out. It reads the effective configuration, what will be executed,
// and never a proposer's description. Free, and the same for every proposer.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "attune/base/units.h"
#include "attune/gates/rules.h"
#include "attune/model/lever.h"
#include "attune/model/recipe.h"
#include "attune/model/verdict.h"

namespace attune {

// A component test of the recipe that has passed for this stack fingerprint. `value`: what it
// covers, a value of the lever or a flag of it; empty: any value.
struct PassedTest {
  std::string lever;
  std::string value;
};

// A level 1 to 3 rejection that no listed entry explains: refused again for the rest of the
// campaign wherever all of `edits` hold.
struct DraftDefect {
  std::string id;
  std::vector<Edit> edits;
  std::string why;
};

// What the campaign knows and the recipe does not say. The referenced values outlive the call.
struct ConfigFacts {
  const std::set<std::string>* known = nullptr;  // CanonicalHash of each earlier candidate
  std::span<const PassedTest> passed_tests;
  std::span<const std::string> escalated;  // cautions that failed twice: they refuse from here on
  std::span<const DraftDefect> drafts;
  std::int64_t start_samples = -1;     // consumed at the pinned start point; negative: not known
  std::optional<GpuMillis> hold;       // of the launch that this change asks for
  std::optional<GpuMillis> available;  // budget - reserve - charged - other holds
};

// `leader` is the user form of the best recipe so far; the baseline is recipe.base. The gates stand
// in a fixed order and the first one that refuses ends the check: schema (bounds, spelling, typed
// values, repeats, no-ops), duplicate, argument classes and lever grouping, stack defects, legality
// on effective values with batch composition and frozen checkpoints, kernel evidence, budget.
// Unknown means refused. Cautions and notes accompany an admission.
GateVerdict CheckConfig(const Recipe& recipe, const Effective& leader, const Change& change,
                        const Rules& rules, const ConfigFacts& facts);

// What is wrong with the recipe itself, before any launch: an argument list that can be read in two
// ways (abbreviation, repeated flag, "--", "@file"), a job that can't be resolved, rules that it
// breaks. Defects that the baseline meets are cautions: it is the user's own working recipe.
std::vector<Finding> CheckBaseline(const Recipe& recipe, const Rules& rules,
                                   const ConfigFacts& facts);

// Every difference between the two executed forms is one of `edits` with the intended value, and
// every edit arrived. Used for measured against candidate.
GateVerdict CheckDifference(const Effective& from, const Effective& to,
                            std::span<const Edit> edits);

// The shipped recipe is the user's plus `edits`, nothing else: no instrumented token, no
// difference that is no lever. A candidate that leaves a defect of level refuse which the baseline
// meets needs gate.accept with the entry's id.
GateVerdict CheckShipped(const Recipe& recipe, const Effective& shipped,
                         std::span<const Edit> edits, const Rules& rules, const ConfigFacts& facts);

// Rendered once, parsed again, compared: what is executed is what was meant.
bool RoundTrips(const Effective& e);

// The class of a lever, of a declared one too; kUnknown for an id that nobody knows.
LeverClass ClassOfLever(const Recipe& recipe, const Rules& rules, std::string_view lever);
// Every lever id a change may name, in table order, or as declared.
std::vector<std::string> LeverIds(const Recipe& recipe, const Rules& rules);

}  // namespace attune
