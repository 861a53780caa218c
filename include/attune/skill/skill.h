// The skill: search rules (skill/SKILL.md), lever catalog (skill/levers) and lessons
// (skill/lessons). The catalog says what each lever of a framework can be moved to, when that
// helps, what it costs and where that is known from. Which arguments move together, and what may
// move at all, is the gates' table: the catalog cites its lever ids and can't widen it. Formats:
// docs/formats/lever.md, docs/formats/lessons.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/lever.h"
#include "attune/model/training_job.h"
#include "attune/skill/lesson.h"

namespace attune {

// "ep > 1", "dispatcher = flex", "recompute_modules has moe": over a resolved job.
struct JobCondition {
  enum class Op { kEq, kNe, kLt, kLe, kGt, kGe, kHas, kLacks };
  std::string key;
  Op op = Op::kEq;
  std::string value;

  bool Holds(const TrainingJob& job) const;
  std::string Text() const;
};

struct LeverMove {
  std::string name;                 // "deepep", "off"; unique within its lever
  std::vector<Edit> edits;          // from any state; the ones already so change nothing
  std::vector<JobCondition> needs;  // of the job before the move: all of them
};

struct LeverEvidence {
  std::string claim, source;
};

// What a move of a lever is expected to bring where no formula covers it: relative gain, mean and
// standard deviation.
struct ExpectedGain {
  double mean = 0, sd = 0;
};

struct CatalogLever {
  std::string lever;  // id of the gates' table
  std::string title;
  std::vector<std::string> helps;  // diagnosis classes that it answers
  std::string when, costs;         // for people and models: one or two sentences
  // What a lever of sizes moves ("tp", "pp" ...): the values are the divisors that fit the job, so
  // the proposer lays them out. Empty for a lever of listed moves.
  std::vector<std::string> sizes;
  std::vector<LeverMove> moves;
  bool modelled = false;  // the estimate knows what a move does; else `gain` says what to expect
  ExpectedGain gain;
  bool minor = false;  // its gain is expected inside the band: a candidate for a stack
  std::vector<LeverEvidence> evidence;
};

struct Catalog {
  std::string framework;
  std::vector<CatalogLever> levers;
  std::string hash;  // of all files' texts: part of a campaign's skill version

  const CatalogLever* Find(std::string_view lever) const;
  // Levers that answer a diagnosis class, in catalog order.
  std::vector<const CatalogLever*> Answering(std::string_view diagnosis_class) const;
};

struct Skill {
  std::string rules;  // SKILL.md
  Catalog catalog;
  std::vector<Lesson> lessons;
  std::string version;  // hash over everything above; a campaign keeps the one that it began with

  const Lesson* FindLesson(std::string_view id) const;
};

// What the program was built with.
const Skill& BuiltInSkill();
const Catalog& BuiltInCatalog();
// A folder in place of the built-in skill: SKILL.md, levers/*.yaml, and lessons/*.yaml where there
// are any. Strict: an unknown key, a repeated one or a wrong type is an error with file, line and
// column.
Result<Skill> LoadSkill(const std::string& folder);

// One file's text; `name` is used in errors ("skill/levers/recompute.yaml").
Result<CatalogLever> ParseLever(std::string_view text, const std::string& name);

// Keys that conditions may name.
std::vector<std::string_view> JobConditionKeys();

}  // namespace attune
