// One framework's way of printing steps. The rest of a log (lines, failures, argument dump) is read
// alike for all.
#pragma once

#include <memory>
#include <string>

#include "attune/base/result.h"
#include "failure_rules.h"
#include "line_text.h"
#include "step_book.h"

namespace attune {

// What a dialect found in a line.
struct StepLine {
  Step step;
  std::string grad_norm;  // as printed, "nan" too; empty: not printed
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  // True: the line is this dialect's in full and nothing else needs to look at it. Cheap: called
  // for every line before anything else is known about it.
  virtual bool Quick(const LogLine& line, const StepBook& book, StepLine& out) = 0;
  // Called for the lines that Quick left, with what stands in them. True: `out` is a step.
  virtual bool Read(const LogLine& line, const LineHits& hits, StepBook& book, StepLine& out) = 0;
  // Called at the log's end until it is false. True: `out` is a step that waited for more lines.
  virtual bool AtEnd(StepBook& book, StepLine& out) {
    (void)book;
    (void)out;
    return false;
  }
};

std::unique_ptr<Dialect> MakeMegatron();
std::unique_ptr<Dialect> MakeTorchtitan();
std::unique_ptr<Dialect> MakeAutoModel();
std::unique_ptr<Dialect> MakeVerl();
std::unique_ptr<Dialect> MakeTorchtune();
std::unique_ptr<Dialect> MakeDeepSpeed();
std::unique_ptr<Dialect> MakeHfTrainer();
std::unique_ptr<Dialect> MakeSlime();
Result<std::unique_ptr<Dialect>> MakeCustom(const std::string& pattern);

// The dialects that need no pattern, by the word of LogSpec.dialect.
struct DialectWord {
  std::string_view word;
  std::unique_ptr<Dialect> (*make)();
};
inline constexpr DialectWord kDialects[] = {
    {"megatron-lm", &MakeMegatron}, {"megatron-bridge", &MakeMegatron},
    {"automodel", &MakeAutoModel},  {"torchtitan", &MakeTorchtitan},
    {"torchtune", &MakeTorchtune},  {"verl", &MakeVerl},
    {"deepspeed", &MakeDeepSpeed},  {"hf-trainer", &MakeHfTrainer},
    {"slime", &MakeSlime},
};

}  // namespace attune
