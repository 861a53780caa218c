// The local launcher over a temporary run folder, with times that suit jobs of 50 ms.
#pragma once

#include <memory>
#include <string>

#include "attune/launch/local.h"

namespace attune {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// attune_fake_train and attune-wrapper of this build.
std::string BuiltProgram(const std::string& name);
LocalOptions QuickOptions(const std::string& run_root, Clock* clock, os::ProcessRunner* runner);

}  // namespace attune
