// The steps of one log as they are found: none twice, with the steps to leave out of a timing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/logs/log_parser.h"
#include "attune/model/run.h"

namespace attune {

class StepBook {
 public:
  // False: this step was there already (several ranks print it, or the job prints it twice). A
  // number below the last is taken as it is, and noted: a second run in the same file, or a job
  // that lies, which the measurement gate judges.
  bool Add(Step step);
  // A checkpoint, an evaluation or a profiler started or ended: the step printed next is cut.
  void CutNext() { cut_next_ = true; }
  void CutWhile(bool on) {
    cutting_ = on;
    cut_next_ = true;
  }
  void Saw(const MemorySeen& memory);
  void SawProgress(const ProgressSeen& progress) { progress_.push_back(progress); }

  std::optional<std::int64_t> last_iteration() const { return last_; }
  std::int64_t count() const { return count_; }
  std::vector<Step> TakeSteps() { return std::exchange(steps_, {}); }
  std::optional<MemorySeen> TakeMemory();
  std::vector<ProgressSeen> TakeProgress() { return std::exchange(progress_, {}); }
  std::map<std::string, std::int64_t>& notes() { return notes_; }
  const std::map<std::string, std::int64_t>& notes() const { return notes_; }

 private:
  struct Recent {
    std::int64_t iteration = 0;
    std::optional<double> loss;
  };
  // Ranks run at most a few steps apart.
  static constexpr std::size_t kRecent = 8;

  std::vector<Step> steps_;
  std::vector<ProgressSeen> progress_;
  std::array<Recent, kRecent> recent_;
  std::optional<std::int64_t> last_;
  std::int64_t count_ = 0;
  bool cut_next_ = false, cutting_ = false;
  MemorySeen memory_;
  bool memory_grew_ = false;
  std::map<std::string, std::int64_t> notes_;
};

}  // namespace attune
