// The parts of the configuration check, each appending its findings. Inner header of gates.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/gates/config_check.h"
#include "attune/model/training_job.h"
#include "job_keys.h"

namespace attune::gates {

using Findings = std::vector<Finding>;

Finding Note(Severity severity, std::string rule, std::string key, std::string was, std::string now,
             std::string why);
inline Finding Refusal(std::string rule, std::string key, std::string was, std::string now,
                       std::string why) {
  return Note(Severity::kRefuse, std::move(rule), std::move(key), std::move(was), std::move(now),
              std::move(why));
}
bool Refuses(const Findings& findings);

// Value of a flag for a message: "off", "on" or its values.
std::string ShowFlag(const Arguments& args, std::string_view flag);
std::string ShowEnv(const Env& env, std::string_view name);

// ----- schema: bounds, spelling, repeats. Of both frameworks.
void CheckBounds(const Change& change, const Rules& rules, Findings& out);
// Two edits of one thing: by flag, variable, or the attribute that two spellings set.
void CheckRepeats(const Change& change, const Rules& rules, Findings& out);
// The change as a whole alters nothing, also where a default is spelt out.
void CheckNoOp(const Effective& leader, const Effective& candidate, const Change& change,
               const Rules& rules, Findings& out);

// ----- argument classes and lever grouping, Megatron-LM
struct ClassesResult {
  Findings refused;   // at once
  Findings deferred;  // no lever by the table, but a defect may say it better
};
ClassesResult CheckClasses(const Recipe& recipe, const Change& change, const Rules& rules);
void CheckGrouping(const Recipe& recipe, const Change& change, const Rules& rules, Findings& out);
// Typed values of the edits that name levers.
void CheckValues(const Change& change, const Rules& rules, Findings& out);
// Every difference between the baseline and the candidate is a lever.
void CheckFrozen(const Effective& baseline, const Effective& candidate, const Rules& rules,
                 Findings& out);
// allow and deny of the recipe, site refusals.
void CheckAllowed(const Recipe& recipe, std::string_view lever, const Rules& rules, Findings& out);

// ----- stack
struct StackVersion {
  std::optional<std::int64_t> core;
  std::optional<std::int64_t> date;
};
StackVersion StackOf(const Recipe& recipe, const Rules& rules);
Truth InRange(const StackVersion& stack, std::int64_t from, std::int64_t until,
              std::int64_t until_date);

// ----- defects; `was` is the baseline
void CheckDefects(const Recipe& recipe, const JobFacts& now, const JobFacts& was,
                  const Rules& rules, const ConfigFacts& facts, Findings& out);
// Ids of the level-refuse entries that `facts` meets.
std::vector<std::string_view> MetDefects(const Recipe& recipe, const JobFacts& facts,
                                         const Rules& rules, bool refuse_only);
void CheckDrafts(const Effective& candidate, std::span<const DraftDefect> drafts, Findings& out);

// ----- legality and batch composition rows
void CheckRows(std::span<const LegalityRow> rows, std::string_view prefix, const JobFacts& now,
               const JobFacts& was, Findings& out);

// ----- kernel evidence: flags of class kernel that differ from the baseline
void CheckKernels(const Recipe& recipe, const Effective& candidate, std::string_view lever,
                  const Rules& rules, const ConfigFacts& facts, Findings& out);
bool IsAccepted(const Recipe& recipe, std::string_view lever_or_id);
bool IsTested(std::span<const PassedTest> tests, std::string_view lever, std::string_view flag,
              std::string_view value);

void CheckBudget(const ConfigFacts& facts, Findings& out);

// ----- framework: custom
GateVerdict CheckCustom(const Recipe& recipe, const Effective& leader, const Change& change,
                        const Rules& rules, const ConfigFacts& facts);

}  // namespace attune::gates
