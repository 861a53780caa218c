#include "attune/model/event.h"

#include <type_traits>

#include "attune/base/check.h"

namespace attune {
namespace {

// In the order of the variant; stored, so a word is never changed and never used again.
constexpr std::string_view kFactWords[] = {
    "opened",          "resumed",       "budget_set",   "phase_set",     "calibrated",
    "proposed",        "turned_back",   "ask_intended", "answered",      "stop_wished",
    "launch_intended", "launch_bound",  "launch_ended", "run_started",   "steps_seen",
    "dump_seen",       "memory_noted",  "stop_asked",   "stop_sent",     "run_ended",
    "judged",          "diagnosed",     "final_result", "ship_intended", "shipped",
    "notice_intended", "noticed",       "user_asked",   "paused",        "launch_uncertain",
    "launch_absent",   "failure_noted", "llm_budget_set",
};
static_assert(std::size(kFactWords) == std::variant_size_v<Fact>);

constexpr std::pair<Phase, std::string_view> kPhases[] = {
    {Phase::kCalibrating, "calibrating"}, {Phase::kSearching, "searching"},
    {Phase::kFinalizing, "finalizing"},   {Phase::kShipped, "shipped"},
    {Phase::kNoGain, "no_gain"},          {Phase::kAborted, "aborted"},
};

}  // namespace

std::string_view FactWord(const Fact& fact) { return kFactWords[fact.index()]; }

std::string_view Word(Phase p) {
  for (const auto& [phase, word] : kPhases) {
    if (phase == p) return word;
  }
  ATTUNE_CHECK(false, "a phase without a word");
}

std::optional<Phase> ParsePhase(std::string_view word) {
  for (const auto& [phase, known] : kPhases) {
    if (known == word) return phase;
  }
  return std::nullopt;
}

std::string_view Word(ChargeSource s) {
  switch (s) {
    case ChargeSource::kWrapper:
      return "wrapper";
    case ChargeSource::kScheduler:
      return "scheduler";
    case ChargeSource::kLastBeat:
      return "last_beat";
    case ChargeSource::kFullHold:
      return "full_hold";
    case ChargeSource::kNeverStarted:
      return "never_started";
  }
  ATTUNE_CHECK(false, "a charge source without a word");
}

std::string_view Word(StopWhy w) {
  switch (w) {
    case StopWhy::kEnough:
      return "enough";
    case StopWhy::kEarlyLoss:
      return "early_loss";
    case StopWhy::kEarlyWin:
      return "early_win";
    case StopWhy::kStep0:
      return "step0";
    case StopWhy::kReadback:
      return "readback";
    case StopWhy::kTrajectory:
      return "trajectory";
    case StopWhy::kWrongStart:
      return "wrong_start";
    case StopWhy::kHang:
      return "hang";
    case StopWhy::kFatalLine:
      return "fatal_line";
    case StopWhy::kUser:
      return "user";
    case StopWhy::kLimit:
      return "limit";
  }
  ATTUNE_CHECK(false, "a stop reason without a word");
}

}  // namespace attune
