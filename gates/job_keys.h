// The values that conditions of rule rows may ask for: what a Megatron-LM job resolves to, as
// integers, words and sets. The list is shared with the generator of the rows, so a misspelt key
// fails the build.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/gates/rules.h"
#include "attune/model/flag_index.h"
#include "attune/model/recipe.h"
#include "attune/model/training_job.h"
#include "job_key_names.h"

namespace attune::gates {

// A value may be unknown: then a condition on it is neither true nor false. `number` then holds
// what it would be computed from.
struct KeyValue {
  enum class Kind { kUnknown, kInt, kText } kind = Kind::kUnknown;
  std::int64_t number = 0;
  std::string_view text;           // of a set: members separated by ","
  const Argument* list = nullptr;  // of a flag with several values; `text` is then empty
};

enum class Truth { kFalse, kTrue, kUnknown };

// One configuration with its resolved job, ready to be asked. Text views point into `config`,
// `recipe` and this object's own storage: it must not be moved after Fill.
class JobFacts {
 public:
  JobFacts() = default;
  JobFacts(const JobFacts&) = delete;
  JobFacts& operator=(const JobFacts&) = delete;

  // start_samples: samples consumed at the pinned start; negative: not known.
  void Fill(const TrainingJob& job, const Effective& config, const Recipe& recipe,
            std::int64_t start_samples);

  KeyValue Get(const Condition::Term& term) const;
  KeyValue Key(JobKey key) const { return values_[static_cast<std::size_t>(key)]; }
  const Argument* Flag(const FlagName& flag) const { return flags_->Find(flag); }

 private:
  class Filler;
  std::string_view Keep(std::string text);

  KeyValue values_[kJobKeyCount];
  std::optional<FlagIndex> flags_;
  const Env* env_ = nullptr;
  std::deque<std::string> kept_;  // a deque: growing must not move the strings under the views
};

// `was` may be null: then a condition on the baseline is unknown.
Truth Evaluate(const Condition& c, const JobFacts& now, const JobFacts* was);
// All of them; false wins over unknown.
Truth EvaluateAll(std::span<const Condition> when, const JobFacts& now, const JobFacts* was);
// A value that is known and that a condition of `when` reads differs between the two.
bool Touches(std::span<const Condition> when, const JobFacts& now, const JobFacts& was);
// Name of the first value that is not known; empty when all are.
std::string FirstUnknown(std::span<const Condition> when, const JobFacts& now, const JobFacts* was);

// "0.16", "2.8.1" -> 1'000'000 major + 1000 minor + patch; nullopt when it is no version.
std::optional<std::int64_t> ParseVersion(std::string_view text);
// "2026-07-25" -> 20260725.
std::optional<std::int64_t> ParseDate(std::string_view text);

}  // namespace attune::gates
