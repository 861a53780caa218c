#include "attune/model/run.h"

#include <utility>

#include "attune/base/check.h"
#include "attune/model/measurement.h"

namespace attune {
namespace {

template <class E, std::size_t N>
std::string_view WordOf(const std::pair<E, std::string_view> (&table)[N], E value) {
  for (const auto& [v, word] : table) {
    if (v == value) return word;
  }
  ATTUNE_CHECK(false, "an enumerator without a word");
}

template <class E, std::size_t N>
std::optional<E> ValueOf(const std::pair<E, std::string_view> (&table)[N], std::string_view word) {
  for (const auto& [v, known] : table) {
    if (known == word) return v;
  }
  return std::nullopt;
}

constexpr std::pair<RunEnd, std::string_view> kEnds[] = {
    {RunEnd::kCompleted, "completed"},
    {RunEnd::kStopped, "stopped"},
    {RunEnd::kOomGpu, "oom_gpu"},
    {RunEnd::kOomHost, "oom_host"},
    {RunEnd::kHung, "hung"},
    {RunEnd::kTooSlow, "too_slow"},
    {RunEnd::kCrashed, "crashed"},
    {RunEnd::kConfigRejected, "config_rejected"},
    {RunEnd::kInitFailure, "init_failure"},
    {RunEnd::kNan, "nan"},
    {RunEnd::kPreempted, "preempted"},
    {RunEnd::kNodeFailed, "node_failed"},
    {RunEnd::kCancelledOutside, "cancelled_outside"},
    {RunEnd::kNeverStarted, "never_started"},
    {RunEnd::kLost, "lost"},
};

constexpr std::pair<Standing, std::string_view> kStandings[] = {
    {Standing::kWin, "win"},
    {Standing::kTie, "tie"},
    {Standing::kLoss, "loss"},
    {Standing::kReference, "reference"},
    {Standing::kStoppedEarly, "stopped_early"},
    {Standing::kRejected, "rejected"},
    {Standing::kInvalid, "invalid"},
    {Standing::kFailed, "failed"},
    {Standing::kEnvironment, "environment"},
};

constexpr std::pair<LaunchState, std::string_view> kStates[] = {
    {LaunchState::kIntended, "intended"}, {LaunchState::kBound, "bound"},
    {LaunchState::kRunning, "running"},   {LaunchState::kEnded, "ended"},
    {LaunchState::kVoid, "void"},
};

constexpr std::pair<Purpose, std::string_view> kPurposes[] = {
    {Purpose::kCalibration, "calibration"},
    {Purpose::kCandidate, "candidate"},
    {Purpose::kPair, "pair"},
    {Purpose::kProbe, "probe"},
    {Purpose::kFinal, "final"},
    {Purpose::kRehearsal, "rehearsal"},
    {Purpose::kComponentTest, "component_test"},
};

struct Transition {
  LaunchState from;
  LaunchNews news;
  LaunchState to;
};
using enum LaunchState;
using enum LaunchNews;
constexpr Transition kTransitions[] = {
    {kIntended, kTaken, kBound},
    {kIntended, kNeverReached, kVoid},  // crashed before the scheduler took it, or refused
    {kBound, kStarted, kRunning},
    {kBound, kReleased, kEnded},  // short jobs end before we see them run
    {kRunning, kReleased, kEnded},
};

}  // namespace

std::string_view Word(RunEnd e) { return WordOf(kEnds, e); }
std::optional<RunEnd> ParseRunEnd(std::string_view word) { return ValueOf(kEnds, word); }
std::string_view Word(Standing s) { return WordOf(kStandings, s); }
std::optional<Standing> ParseStanding(std::string_view word) { return ValueOf(kStandings, word); }
std::string_view Word(LaunchState s) { return WordOf(kStates, s); }
std::string_view Word(Purpose p) { return WordOf(kPurposes, p); }
std::optional<Purpose> ParsePurpose(std::string_view word) { return ValueOf(kPurposes, word); }

bool IsFailed(RunEnd e) {
  switch (e) {
    case RunEnd::kOomGpu:
    case RunEnd::kOomHost:
    case RunEnd::kHung:
    case RunEnd::kTooSlow:
    case RunEnd::kCrashed:
    case RunEnd::kConfigRejected:
    case RunEnd::kInitFailure:
    case RunEnd::kNan:
      return true;
    case RunEnd::kCompleted:
    case RunEnd::kStopped:
    case RunEnd::kPreempted:
    case RunEnd::kNodeFailed:
    case RunEnd::kCancelledOutside:
    case RunEnd::kNeverStarted:
    case RunEnd::kLost:
      return false;
  }
  return false;
}

bool IsEnvironment(RunEnd e) {
  return e == RunEnd::kPreempted || e == RunEnd::kNodeFailed || e == RunEnd::kNeverStarted ||
         e == RunEnd::kLost;
}

std::optional<LaunchState> Next(LaunchState from, LaunchNews news) {
  for (const Transition& t : kTransitions) {
    if (t.from == from && t.news == news) return t.to;
  }
  return std::nullopt;
}

std::string_view Word(Validity v) {
  switch (v) {
    case Validity::kValid:
      return "valid";
    case Validity::kRetry:
      return "retry";
    case Validity::kInvalid:
      return "invalid";
  }
  ATTUNE_CHECK(false, "a validity without a word");
}

}  // namespace attune
