// The rule tables of the configuration checks: rows that gates/rules/*.tsv turn into at build time.
// They are arguments of every check, so that a test can drop a row or flip a threshold; a site may
// add refusals (SiteRefusals) and can't take one away. Formats: docs/formats/rules.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/model/flag_index.h"
#include "attune/model/lever.h"

namespace attune {

// What the tokens of an argument or variable may be.
enum class ValueKind {
  kBool,    // a bare flag
  kInt,     // one whole number in [lo, hi]
  kFloat,   // one decimal in [lo, hi]
  kEnum,    // one of `choices`
  kString,  // free text of a recipe; never legal as a change
  kPath,    // a path; never legal as a change
  kLayout,  // text of a pipeline layout
  kList,    // one or more of `choices`, or whole numbers in [lo, hi] where there are none
  kAny,     // not known
};

struct FlagRow {
  std::string_view flag;
  ValueKind kind = ValueKind::kAny;
  std::string_view choices;  // separated by "|"; "word" is any [a-z0-9_]+
  double lo = 0, hi = 0;
  std::string_view otherwise;  // what holds when it is absent; "-" is none
  std::string_view dest;       // attribute it sets: equal for two spellings of one argument
  LeverClass cls = LeverClass::kUnknown;
  bool lever = false;    // may be changed at all
  bool derived = false;  // frozen, but the padded vocabulary's enabler (control_plane.md 5)
  std::string_view topic;
  std::string_view version;  // "-", "after-1dcf0da", "until-d98e8a64"
};

enum class LeverRole {
  kPrimary,  // the lever itself
  kChoice,   // one of several independent ones under a shared id: one at a time
  kTied,     // may follow a primary of the same lever, never alone
};
struct LeverRow {
  std::string_view lever;
  std::string_view name;  // flag, or variable
  LeverRole role = LeverRole::kPrimary;
  LeverClass cls = LeverClass::kUnknown;
};

struct EnvRow {
  bool allow = false;
  std::string_view name;  // of a refusal: may start or end with "*"
  ValueKind kind = ValueKind::kAny;
  std::string_view choices;
  double lo = 0, hi = 0;
  LeverClass cls = LeverClass::kEnv;
  std::string_view reason;
};

// One condition over the resolved job (gates/job_keys.h): key, operator, value.
struct Condition {
  enum class Op { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn, kHas, kLacks };
  // A key of the resolved job, a flag as it stands ("--x"), or a variable ("env:X").
  enum class Source { kJob, kFlag, kEnv };
  struct Term {
    Source source = Source::kJob;
    int key = -1;           // of kJob
    std::string_view name;  // flag or variable
    bool was = false;       // read from the baseline
    FlagName flag{""};      // of kFlag: its name, hashed
  };
  Term left;
  Op op = Op::kEq;
  bool right_is_key = false;
  Term right;
  std::string_view text;  // literal; of kIn: separated by "|"
  std::int64_t number =
      0;  // literal as a number, or a version as 1'000'000 major + 1000 minor + patch
  bool is_number = false;
};

// Refuses when all conditions hold for the candidate and not already for the baseline.
struct LegalityRow {
  std::string_view id;
  std::string_view source;  // number of the start-up constraint, "batch", "checkpoint"
  bool unknown_refuses = true;
  std::span<const Condition> when;
  std::string_view why;
};

enum class DefectEffect { kSilent, kCertain, kOther };
struct DefectRow {
  std::string_view id;
  bool refuse = false;  // else caution
  DefectEffect effect = DefectEffect::kOther;
  std::string_view effect_word;
  std::string_view models;           // "*" or exact names separated by "|"
  std::int64_t from = 0, until = 0;  // core version; 0: open
  std::int64_t until_date = 0;       // yyyymmdd; 0: open
  std::span<const Condition> when;
  std::string_view why, evidence, lifted_by;
};

struct StackRow {
  std::string_view commit;
  std::int64_t core = 0;
  std::int64_t date = 0;
};

struct EvidenceRow {
  std::string_view flag;
  std::string_view value;  // "*": any
  std::int64_t from = 0, until = 0;
  std::string_view evidence;
};

struct InstrumentRow {
  enum class Op { kSet, kRemove, kRedirect, kEnv, kUnsetEnv };
  enum class When { kAlways, kPresent, kEval, kLoad, kProfile };
  Op op = Op::kSet;
  std::string_view name;
  std::string_view value;
  When when = When::kAlways;
  std::string_view why;
};

enum class PathUse { kRead, kCache, kWrite, kUnknown };
struct PathRow {
  std::string_view name;
  PathUse use = PathUse::kRead;
};

// Bounds of a change. Sources: llm.md section 5 row 12 (bytes), control_plane.md section 3
// (enablers); the number of edits bounds the work of a check.
struct ConfigLimits {
  std::size_t value_bytes = 64;
  std::size_t name_bytes = 128;
  std::size_t edits = 32;
  std::size_t list_values = 64;
  std::size_t enablers = 3;
};

// What a site adds on top. A refusal can be added, nothing can be taken away.
struct SiteRefusals {
  std::vector<std::string> flags;
  std::vector<std::string> env;
  std::vector<std::string> levers;
};

// `flags` is sorted by flag. All text lives as long as the rows do.
struct Rules {
  std::span<const FlagRow> flags;
  std::span<const LeverRow> levers;
  std::span<const EnvRow> env;
  std::span<const LegalityRow> legality;
  std::span<const LegalityRow> batch;
  std::span<const DefectRow> defects;
  std::span<const StackRow> stacks;
  std::span<const EvidenceRow> kernel_evidence;
  std::span<const InstrumentRow> instrument;
  std::span<const PathRow> paths;
  ConfigLimits limits;
  SiteRefusals site;
};

// The tables of Megatron-LM. `framework: custom` uses its own declarations, and of these only the
// limits, the paths and the refused variables.
const Rules& BuiltInRules();

const FlagRow* FindFlag(const Rules& rules, std::string_view flag);
const EnvRow* FindEnv(const Rules& rules, std::string_view name);  // an allow row before a refusal

}  // namespace attune
