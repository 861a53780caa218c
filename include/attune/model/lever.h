// Levers, their classes, and edits of a recipe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/model/arguments.h"

namespace attune {

// control_plane.md section 5. Stored as words (LeverClassWord). io_logging, unsafe, objective and
// unknown are refused as a change.
enum class LeverClass {
  kPlacement,
  kMemory,
  kOverlap,
  kBatching,
  kKernel,
  kEnv,
  kIoLogging,
  kUnsafe,
  kObjective,
  kUnknown,
};
std::string_view Word(LeverClass c);
std::optional<LeverClass> ParseLeverClass(std::string_view word);  // also "comm" for overlap

struct Edit {
  enum class Op { kSet, kUnset, kEnv, kUnsetEnv };
  Op op = Op::kSet;
  std::string name;                 // flag with dashes, or variable name
  std::vector<std::string> values;  // empty for a bare flag, kUnset and kUnsetEnv

  bool operator==(const Edit&) const = default;
};
std::string_view Word(Edit::Op op);

// One primary lever and its enablers (control_plane.md section 3): at most 3, each a lever id.
struct Change {
  std::string lever;
  std::vector<Edit> edits;
  std::vector<std::string> enablers;

  bool operator==(const Change&) const = default;
};

Effective ApplyEdits(Effective base, const std::vector<Edit>& edits);
// Edits that turn `from` into `to`, flags in order of name.
std::vector<Edit> Difference(const Effective& from, const Effective& to);
// "--micro-batch-size 1->2; --recompute off->on; NCCL_ALGO unset->Ring": for people.
std::string DescribeDifference(const Effective& from, const Effective& to);

// A lever that a `framework: custom` recipe declares itself.
struct LeverCondition {
  std::string flag;  // or env, exactly one is set
  std::string env;
  std::string is;  // value; empty means "present"
};
struct DeclaredLever {
  std::string id;
  std::string flag;  // exactly one of flag and env is set
  std::string env;
  std::vector<std::string> values;  // allowed values in the order in which they are tried.
                                    // "true" = bare flag present, "false" = absent
  LeverClass cls = LeverClass::kUnknown;
  std::vector<LeverCondition> excludes;
  std::vector<LeverCondition> needs;
  // Keys of the trainer's printed argument block that follow from this lever, with the value they
  // must show: "{v}" is the lever's value. Readback expects exactly that.
  std::map<std::string, std::string> derives;
  std::string why;
};

}  // namespace attune
