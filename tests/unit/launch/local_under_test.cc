#include "unit/launch/local_under_test.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace attune {

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path().string() + "/attune-test-XXXXXX";
  path_ = mkdtemp(name.data()) == nullptr ? std::string() : name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) {
    std::filesystem::remove_all(path_, ignored);
  }
}

std::string BuiltProgram(const std::string& name) {
  return std::string(ATTUNE_PROGRAMS) + "/" + name;
}

LocalOptions QuickOptions(const std::string& run_root, Clock* clock, os::ProcessRunner* runner) {
  LocalOptions o;
  o.run_root = run_root;
  o.wrapper = BuiltProgram("attune-wrapper");
  o.clock = clock;
  o.runner = runner;
  o.poll = Millis{5};
  o.grace = Millis{150};
  o.beat = Millis{50};
  o.stop_poll = Millis{10};
  return o;
}

}  // namespace attune
