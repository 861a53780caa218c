// The diagnosis of one run: named bottleneck classes with their share of the step. From logs until
// traces are read; made by traces/diagnose and logs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune {

struct Bottleneck {
  std::string cls;    // "launch_bound", "exposed_communication", "data_loader", "memory_tight" ...
  double share = 0;   // of the step time, 0..1; negative when not known
  double metric = 0;  // the number behind it
  double threshold = 0;  // past which it is named
  bool named = false;    // metric is past the threshold
  std::string evidence;  // one sentence with the numbers

  bool operator==(const Bottleneck&) const = default;
};

struct Diagnosis {
  std::string source;                   // "log", "trace"
  std::vector<Bottleneck> bottlenecks;  // named ones first, by share
  std::string summary;                  // one paragraph for people

  bool operator==(const Diagnosis&) const = default;
};

}  // namespace attune
