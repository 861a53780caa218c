// Nsight Systems' SQLite export (nsys export --type sqlite).
#pragma once

#include <string>

#include "attune/base/result.h"
#include "event_store.h"

namespace attune::traces {

struct NsysOptions {
  std::string step_pattern;
};

// Adds to `store`. Error kInvalidInput: an SQLite database that is no such export; kCorrupt,
// kUnavailable: of the database.
Status ReadNsys(const std::string& path, const NsysOptions& options, EventStore& store);

}  // namespace attune::traces
