// What a proposer returns: a hypothesis and one change, or a wish to stop.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "attune/base/ids.h"
#include "attune/model/lever.h"

namespace attune {

struct Proposal {
  Change change;
  std::string label;  // short run label, [a-z0-9._-]{1,24}
  std::string hypothesis;
  std::string bottleneck;
  std::vector<RunId> evidence;
  std::optional<std::pair<double, double>> expected_gain;  // relative, [lo, hi]
  std::optional<double> expected_peak_gb;
  std::string fits_because;
  std::string stop_if;

  bool operator==(const Proposal&) const = default;
};

struct StopWish {
  std::string reason;
  // For each bottleneck class: a tried lever or why none (control_plane.md section 3, stop rules).
  std::vector<std::pair<std::string, std::string>> per_class;

  bool operator==(const StopWish&) const = default;
};

// A reply that was no proposal: kept, returned with its error, never repaired.
struct BadReply {
  std::string error;
  std::string excerpt;  // bounded, escaped

  bool operator==(const BadReply&) const = default;
};

using ProposerReply = std::variant<Proposal, StopWish, BadReply>;

}  // namespace attune
