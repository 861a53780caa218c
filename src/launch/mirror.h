// A copy, here, of a launch's folder on another machine: the same names and bytes, so that whoever
// can read a run folder can read it. Grows by what each look brings.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "exchange.h"
#include "run_folder.h"

namespace attune::launch {

class Mirror {
 public:
  // `folder`: of the launch, here; what lies there already is not asked for again.
  Mirror(std::string folder, const Plan& plan, int attempt);

  // What to ask for: records that are not here, logs from where they end here.
  std::vector<WantedFile> Wanted() const;
  // kCorrupt: the machine sent what was not asked for, or more than the plan allows. kFull and the
  // like: this machine's disk.
  Status Apply(const LookAnswer::Launch& answer);
  // Everything that the machine had at the last look is here.
  bool whole() const { return whole_; }
  // The attempt is over, and all of it is here: nothing more need be asked.
  bool final() const;

 private:
  Status ApplyLog(const LookAnswer::Piece& piece);
  Status ApplyRecord(const LookAnswer::Piece& piece);
  bool IsWhole(const LookAnswer::Piece& piece) const;

  const std::string folder_;
  const std::int64_t log_cap_;
  std::vector<std::string> stage_folders_;    // below folder_
  std::map<std::string, std::int64_t> logs_;  // path -> bytes that are here
  std::set<std::string> records_;             // wanted and not here
  std::string beat_;
  bool whole_ = false;
};

}  // namespace attune::launch
