// Decide: first that applies. Each rule reads committed events only, so the order is the whole
// policy, and any cut point is met again on resume.
#include <fmt/core.h>

#include <algorithm>

#include "allocation.h"
#include "attune/base/check.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/calibration.h"
#include "config_gate.h"
#include "final_stage.h"
#include "judge.h"
#include "pace.h"
#include "plan.h"
#include "watch.h"

namespace attune {
namespace {

constexpr int kSubmitTries = 3;         // of one intent that was located and not found
constexpr int kNoLaunchLimit = 10;      // [S] iterations in a row that launch nothing
constexpr int kBreaker = 3;             // launches in a row that end before their first step
constexpr int kCalibrationSpare = 2;    // replacements beyond the runs that are wanted
constexpr int kEnvironmentRetries = 1;  // of a candidate
// Part of the budget that the hold of a pair in four runs may be. What an allocation does to one
// run it does to the next, so that the ratio of two decides; four cost as much as four launches.
constexpr std::int64_t kPairPart = 10;
constexpr Millis kLongestWait = std::chrono::minutes(10);

int EndCode(const CampaignState& s) {
  if (s.phase == Phase::kAborted) return 7;
  if (s.phase == Phase::kNoGain && FellForCorrectness(s)) return 6;
  return 0;
}

std::optional<Action> UserWish(const CampaignState& s) {
  if (!s.user_wish) return std::nullopt;
  if (*s.user_wish == "detach") {
    const std::vector<const LaunchRecord*> open = s.OpenLaunches();
    const auto unfinished = std::count_if(open.begin(), open.end(), [&](const LaunchRecord* l) {
      return std::any_of(l->intent.runs.begin(), l->intent.runs.end(), [&](const RunPlan& plan) {
        const RunRecord& run = s.runs.at(plan.id);
        return !run.end && run.stop && run.stop->why == StopWhy::kUser;
      });
    });
    if (unfinished == 0) return Done{143, "detached; jobs go on"};
    return Done{143,
                fmt::format("detached; {} launches are still to be cancelled: resume sees to it",
                            unfinished)};
  }
  if (*s.user_wish == "cancel") {
    std::vector<Fact> facts;
    for (const LaunchRecord* launch : s.OpenLaunches()) {
      for (const RunPlan& plan : launch->intent.runs) {
        const RunRecord& run = s.runs.at(plan.id);
        if (!run.end && !run.stop) {
          facts.emplace_back(StopAsked{plan.id, StopWhy::kUser, {}, "cancelled by the user"});
        }
      }
    }
    if (!facts.empty()) return Record{std::move(facts)};
  }
  return std::nullopt;  // drain: nothing new is launched (NotNow)
}

std::optional<Action> Unsettled(const CampaignState& s) {
  for (const LaunchRecord* launch : s.OpenLaunches()) {
    if (launch->state != LaunchState::kIntended) continue;
    const LaunchId& id = launch->intent.id;
    if (launch->uncertain) return Locate{id};
    const bool cancelled = s.user_wish && *s.user_wish == "cancel";
    if (cancelled || launch->absences >= kSubmitTries) {
      return Record{{LaunchEnded{
          .id = id,
          .reached = false,
          .charged = {},
          .overrun = {},
          .source = ChargeSource::kNeverStarted,
          .nodes = {},
          .detail = cancelled ? "cancelled before it was submitted" : "could not be submitted",
          .failed_nodes = {}}}};
    }
    return Submit{id};
  }
  return std::nullopt;
}

std::optional<Action> Watch(const CampaignState& s, Instant now, FoundSound* sound) {
  for (const LaunchRecord* launch : s.OpenLaunches()) {
    for (const RunPlan& plan : launch->intent.runs) {
      const RunRecord& run = s.runs.at(plan.id);
      if (auto stop = WatchRun(s, run, now, sound)) return Record{{std::move(*stop)}};
    }
  }
  for (const LaunchRecord* launch : s.OpenLaunches()) {
    for (const RunPlan& plan : launch->intent.runs) {
      const RunRecord& run = s.runs.at(plan.id);
      if (!run.stop || run.stop_sent || run.end) continue;
      const bool whole = run.stop->why == StopWhy::kUser;
      return Cancel{launch->intent.id, whole ? std::nullopt : std::optional<RunId>(plan.id)};
    }
  }
  return std::nullopt;
}

// notify: told once each, when it has become true. A notice is an intent, so that a crash between
// the two tells again rather than never.
std::optional<Action> Notices(const CampaignState& s) {
  for (const std::string& what : s.notices) {
    if (!s.told.contains(what)) return attune::Notify{what};
  }
  const auto due = [&](const std::string& what) {
    if (what == "end") return s.phase == Phase::kShipped || s.phase == Phase::kNoGain;
    if (what == "fail") return s.phase == Phase::kAborted;
    return what == "budget" && s.stop == "budget";
  };
  for (const std::string& what : s.recipe.notify_on) {
    const bool known = std::find(s.notices.begin(), s.notices.end(), what) != s.notices.end();
    if (!known && due(what)) return Record{{NoticeIntended{what}}};
  }
  return std::nullopt;
}

// Runs of a void launch never existed on the cluster; they are closed like any other.
std::optional<Action> CloseVoid(const CampaignState& s) {
  for (const auto& [id, run] : s.runs) {
    const LaunchRecord& launch = s.launches.at(run.launch);
    if (run.end || launch.state != LaunchState::kVoid) continue;
    EndDetail detail;
    detail.end = RunEnd::kNeverStarted;
    detail.cause = launch.end ? launch.end->detail : std::string();
    return Record{{RunEnded{id, std::move(detail), Millis{0}, Millis{0}}}};
  }
  return std::nullopt;
}

std::optional<Action> Judge(const CampaignState& s) {
  for (const auto& [id, run] : s.runs) {
    if (!run.end || run.judged) continue;
    if (s.launches.at(run.launch).state != LaunchState::kEnded &&
        s.launches.at(run.launch).state != LaunchState::kVoid) {
      continue;  // its charge is not known yet
    }
    if (auto judged = JudgeRun(s, run)) {
      std::vector<Fact> facts{std::move(*judged)};
      // Somebody decided that it should not run: a person says whether it goes on.
      if (run.end->detail.end == RunEnd::kCancelledOutside) {
        facts.emplace_back(
            Paused{fmt::format("{} was cancelled from outside: {}. When that is settled, attune "
                               "resume goes on",
                               id.value, run.end->detail.cause),
                   75});
      }
      return Record{std::move(facts)};
    }
  }
  for (const auto& [id, run] : s.runs) {
    if (run.judged && !run.diagnosis && run.purpose != Purpose::kComponentTest) return Collect{id};
  }
  return std::nullopt;
}

std::optional<Action> WaitForOpen(const CampaignState& s, Instant now) {
  const std::vector<const LaunchRecord*> open = s.OpenLaunches();
  if (open.empty()) return std::nullopt;
  Wait wait{now + kLongestWait, 1'000'000};
  for (const LaunchRecord* launch : open) {
    for (const RunPlan& plan : launch->intent.runs) {
      const RunRecord& run = s.runs.at(plan.id);
      if (run.end) continue;
      wait.steps = std::min(wait.steps, StepsUntilDecision(s, run));
      if (run.started && !run.stop) wait.until = std::min(wait.until, NextDeadline(s, run));
    }
  }
  return wait;
}

// A launch needs money, time and a user who has not asked to stop.
struct Refusal {
  int code;
  std::string why;
};
std::optional<Refusal> NotNow(const CampaignState& s, const LaunchIntended& launch, Instant now,
                              const SessionLimits& limits) {
  if (s.user_wish) return Refusal{130, "stopped by the user; resume goes on"};
  if (limits.deadline && now + launch.limit > *limits.deadline) {
    return Refusal{5, "the deadline comes before this launch's end"};
  }
  const GpuMillis idle = IdleIn(s, limits.allocation, launch.slots, now);
  const GpuMillis after = s.ledger.Charged() + s.ledger.held + launch.hold + idle;
  if (limits.budget && after - limits.charged_before > *limits.budget) {
    return Refusal{5, "the session's budget does not cover the next launch"};
  }
  // The hold itself was looked at by whoever plans the launch; a pause in a held allocation was
  // not.
  if (s.budget && idle > GpuMillis{} && after > *s.budget) {
    return Refusal{5,
                   "the budget does not cover the next launch beside what the held allocation "
                   "stood idle for; attune resume goes on in another one"};
  }
  return std::nullopt;
}

bool Fits(const CampaignState& s, const LaunchIntended& launch, Instant now) {
  return Affordable(s, launch.hold, true) && FitsWall(s, launch.limit, true, now);
}

std::string WallSpent(const CampaignState& s) {
  return fmt::format("budget.wall of {} has no room for another launch{}",
                     ShowDuration(*s.recipe.budget.wall),
                     s.phase == Phase::kSearching ? " beside the final stage" : "");
}

Action LaunchOr(const CampaignState& s, LaunchIntended launch, Instant now,
                const SessionLimits& limits) {
  if (auto refusal = NotNow(s, launch, now, limits)) return Done{refusal->code, refusal->why};
  return Record{{std::move(launch)}};
}

Action DecideCalibrating(const CampaignState& s, Instant now, const SessionLimits& limits) {
  if (auto trouble = TroubleOf(s)) {
    return Record{{PhaseSet{Phase::kAborted, trouble->reason, trouble->stop}}};
  }
  std::optional<Calibrated> calibrated = ReusedCalibration(s);
  if (!calibrated && !WantsMoreCalibration(s)) calibrated = Calibrated{CalibrationOf(s), {}};
  if (calibrated) {
    std::vector<Fact> facts;
    const Calibration& calibration = calibrated->calibration;
    if (!s.budget) {
      const GpuMillis budget = AutoBudget(calibration.launch_cost, Thresholds{});
      facts.emplace_back(
          BudgetSet{budget, fmt::format("auto: 30 x {} GPU-h a launch, rounded up to 10",
                                        ShowGpuHours(calibration.launch_cost))});
    }
    PhaseSet searching{
        Phase::kSearching,
        fmt::format("baseline {:.1f} tok/s/GPU, sigma {:.2f}%, band {:.2f}% ({})", calibration.mean,
                    100 * calibration.sigma, 100 * calibration.band, calibration.how),
        ""};
    facts.emplace_back(std::move(*calibrated));
    facts.emplace_back(std::move(searching));
    return Record{std::move(facts)};
  }
  const auto launched = std::count_if(s.launches.begin(), s.launches.end(), [](const auto& l) {
    return l.second.intent.purpose == Purpose::kCalibration;
  });
  if (launched >= s.recipe.measure.calibration_runs + kCalibrationSpare) {
    return Record{{PhaseSet{Phase::kAborted, "the baseline could not be measured often enough",
                            "unstable_cluster"}}};
  }
  LaunchIntended launch = PlanMeasured(s, Purpose::kCalibration, {BaselineDraft(s)});
  if (!Affordable(s, launch.hold, false)) {
    return Done{5, fmt::format("the budget of {} GPU-h does not cover the calibration (the next "
                               "launch may hold {} GPU-h)",
                               ShowGpuHours(*s.budget), ShowGpuHours(launch.hold))};
  }
  if (!FitsWall(s, launch.limit, false, now)) return Done{5, WallSpent(s)};
  return LaunchOr(s, std::move(launch), now, limits);
}

// Candidate launches in order, newest last, that ended.
std::vector<const RunRecord*> Candidates(const CampaignState& s) {
  std::vector<const RunRecord*> runs;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose == Purpose::kCandidate && run.judged) runs.push_back(&run);
  }
  return runs;
}

// control_plane.md section 2, "Breaker".
std::optional<Action> Breaker(const CampaignState& s, Instant now, const SessionLimits& limits) {
  const std::vector<const RunRecord*> runs = Candidates(s);
  if (runs.size() < kBreaker) return std::nullopt;
  const std::string cause = runs.back()->end->detail.failure_class;
  for (auto it = runs.end() - kBreaker; it != runs.end(); ++it) {
    const RunRecord& run = **it;
    const RunEnd end = run.end->detail.end;
    if (run.judged->standing != Standing::kFailed || !run.steps.empty() || end == RunEnd::kOomGpu ||
        end == RunEnd::kOomHost || run.end->detail.failure_class != cause) {
      return std::nullopt;
    }
  }
  const RunRecord* probe = nullptr;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose == Purpose::kProbe && run.plan.of == "baseline") probe = &run;
  }
  if (probe != nullptr && probe->plan.id > runs.back()->plan.id) {
    if (!probe->judged || probe->judged->standing != Standing::kFailed) return std::nullopt;
    return Record{{PhaseSet{
        Phase::kAborted,
        fmt::format("three candidates in a row failed before their first step ({}), and then the "
                    "baseline failed too: {}",
                    cause, probe->judged->reason),
        "baseline_fails"}}};
  }
  // What failed before a baseline that ran was the candidates' own: three new ones ask again.
  const RunRecord& first = **(runs.end() - kBreaker);
  if (probe != nullptr && first.plan.id < probe->plan.id) return std::nullopt;
  LaunchIntended launch = PlanMeasured(s, Purpose::kProbe, {BaselineDraft(s)});
  if (!Fits(s, launch, now)) return std::nullopt;
  return LaunchOr(s, std::move(launch), now, limits);
}

std::optional<Action> ComponentTests(const CampaignState& s, Instant now,
                                     const SessionLimits& limits) {
  for (const ComponentTest& test : s.recipe.gate.component_tests) {
    const bool known = std::any_of(s.runs.begin(), s.runs.end(), [&](const auto& r) {
      return r.second.purpose == Purpose::kComponentTest && r.second.plan.argv == test.command;
    });
    if (known) continue;
    LaunchIntended launch = PlanComponentTest(s, test);
    if (!Fits(s, launch, now)) continue;
    return LaunchOr(s, std::move(launch), now, limits);
  }
  return std::nullopt;
}

// What a candidate is compared with where it is going to run.
std::optional<Action> LeaderFirst(const CampaignState& s, Instant now,
                                  const SessionLimits& limits) {
  std::optional<LaunchIntended> launch = MeasureLeader(s, limits.allocation);
  if (!launch || !Fits(s, *launch, now)) return std::nullopt;
  return LaunchOr(s, std::move(*launch), now, limits);
}

// A candidate that the environment spoiled, launched again once; or a retry that the user asked.
std::optional<Action> Retry(const CampaignState& s, Instant now, const SessionLimits& limits) {
  const auto relaunch = [&](const RunRecord& run, int attempt) -> std::optional<Action> {
    const ProposalRecord* proposal = s.FindProposal(run.plan.proposal);
    if (proposal == nullptr || !proposal->candidate) return std::nullopt;
    LaunchIntended launch =
        PlanMeasured(s, Purpose::kCandidate, {CandidateDraft(*proposal)}, attempt);
    if (!Fits(s, launch, now)) return std::nullopt;
    if (auto leader = LeaderFirst(s, now, limits)) return leader;
    return LaunchOr(s, std::move(launch), now, limits);
  };
  for (const RunId& id : s.retry) {
    if (const RunRecord* run = s.FindRun(id)) {
      if (auto action = relaunch(*run, s.launches.at(run->launch).intent.attempt + 1)) {
        return action;
      }
    }
  }
  const std::vector<const RunRecord*> runs = Candidates(s);
  if (runs.empty()) return std::nullopt;
  const RunRecord& last = *runs.back();
  const LaunchRecord& launch = s.launches.at(last.launch);
  if (last.judged->standing != Standing::kEnvironment ||
      launch.intent.attempt >= kEnvironmentRetries ||
      (last.stop && last.stop->why == StopWhy::kUser)) {
    return std::nullopt;
  }
  return relaunch(last, launch.intent.attempt + 1);
}

Action Finalize(std::string reason, std::string stop) {
  return Record{{PhaseSet{Phase::kFinalizing, std::move(reason), std::move(stop)}}};
}

Action DecideSearching(const CampaignState& s, Instant now, const SessionLimits& limits) {
  for (const auto& [id, run] : s.runs) {
    if (!NeedsPair(s, run)) continue;
    const ProposalRecord* proposal = s.FindProposal(run.plan.proposal);
    ATTUNE_CHECK(proposal != nullptr, "a candidate run without its proposal");
    const RunDraft candidate = CandidateDraft(*proposal);
    const RunDraft leader = [&] {
      RunDraft d = LeaderDraft(s);
      d.of = "leader";
      return d;
    }();
    LaunchIntended pair = PlanMeasured(s, Purpose::kPair, {candidate, leader, leader, candidate});
    const bool cheap = !s.budget || kPairPart * pair.hold.value <= s.budget->value;
    if (!cheap || !Fits(s, pair, now)) {
      pair = PlanMeasured(s, Purpose::kPair, {candidate, leader});
    }
    if (!Fits(s, pair, now)) {
      return Finalize("a candidate close to the band can't be measured again in the budget",
                      "budget");
    }
    return LaunchOr(s, std::move(pair), now, limits);
  }
  if (auto action = Breaker(s, now, limits)) return *action;
  if (auto action = ComponentTests(s, now, limits)) return *action;
  if (auto action = Retry(s, now, limits)) return *action;
  if (s.open_proposal) {
    const ProposalRecord* proposal = s.FindProposal(*s.open_proposal);
    ATTUNE_CHECK(proposal != nullptr && proposal->candidate, "an open proposal without candidate");
    LaunchIntended launch = PlanMeasured(s, Purpose::kCandidate, {CandidateDraft(*proposal)});
    if (!Fits(s, launch, now)) {
      const std::string money = fmt::format(
          "its hold of {} GPU-h does not fit beside {} charged, {} held and the final "
          "stage's {}",
          ShowGpuHours(launch.hold), ShowGpuHours(s.ledger.Charged()), ShowGpuHours(s.ledger.held),
          ShowGpuHours(KeptForFinal(s)));
      const std::string why = Affordable(s, launch.hold, true) ? WallSpent(s) : money;
      return Record{{TurnedBack{proposal->id,
                                proposal->proposal,
                                proposal->source,
                                proposal->llm_call,
                                "budget",
                                {},
                                why},
                     PhaseSet{Phase::kFinalizing, "the budget is spent: " + why, "budget"}}};
    }
    if (auto leader = LeaderFirst(s, now, limits)) return *leader;
    return LaunchOr(s, std::move(launch), now, limits);
  }
  if (s.stop_wish) return Finalize(s.stop_wish->reason, "agent");
  if (s.no_launch_in_a_row >= kNoLaunchLimit) {
    return Finalize(fmt::format("{} proposals in a row launched nothing", kNoLaunchLimit),
                    "no_launch");
  }
  if (s.user_wish) return Done{130, "stopped by the user; resume goes on"};
  if (auto action = LeaderFalls(s)) return *action;
  return Ask{};
}

}  // namespace

Action Decide(const CampaignState& s, Instant now, const SessionLimits& limits, FoundSound* sound) {
  if (auto action = Notices(s)) return *action;
  if (s.Ended()) return Done{EndCode(s), s.phase_reason};
  if (auto action = UserWish(s)) return *action;
  if (s.paused) return Done{s.paused->exit_code, s.paused->why};
  if (auto action = Unsettled(s)) return *action;
  if (auto action = Watch(s, now, sound)) return *action;
  if (auto action = CloseVoid(s)) return *action;
  if (auto action = Judge(s)) return *action;
  if (auto action = WaitForOpen(s, now)) return *action;
  switch (s.phase) {
    case Phase::kCalibrating:
      return DecideCalibrating(s, now, limits);
    case Phase::kSearching:
      return DecideSearching(s, now, limits);
    case Phase::kFinalizing: {
      Action action = DecideFinal(s, limits.allocation);
      if (const auto* record = std::get_if<Record>(&action)) {
        if (const auto* launch = std::get_if<LaunchIntended>(&record->facts.front())) {
          if (auto refusal = NotNow(s, *launch, now, limits)) {
            return Done{refusal->code, refusal->why};
          }
        }
      }
      return action;
    }
    case Phase::kShipped:
    case Phase::kNoGain:
    case Phase::kAborted:
      break;
  }
  ATTUNE_CHECK(false, "a phase without a rule");
}

}  // namespace attune
