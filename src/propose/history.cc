#include "history.h"

#include <algorithm>
#include <string_view>

#include "attune/base/text.h"

namespace attune::rules {
namespace {

constexpr std::size_t kFewestSteps = 3;  // of a run that was stopped early

// What each configuration of the campaign resolves to, once: many runs share one.
class Jobs {
 public:
  explicit Jobs(const CampaignState& s) : s_(s) {}
  // Runs of one configuration get the same object.
  const std::optional<TrainingJob>& Of(const RunRecord& run) {
    const Effective& user = run.plan.user;
    const auto [at, fresh] = of_.try_emplace(CanonicalHash(user));
    if (!fresh) return at->second;
    auto job = ResolveMegatron(user.args, user.env, s_.recipe.workload);
    if (auto* resolved = std::get_if<TrainingJob>(&job)) at->second = std::move(*resolved);
    return at->second;
  }

 private:
  const CampaignState& s_;
  std::map<std::string, std::optional<TrainingJob>> of_;
};

// Seconds of a step: of the measurement; of a run that was stopped early, of the steps it made
// after warming up.
std::optional<double> SecondsOf(const CampaignState& s, const RunRecord& run,
                                const TrainingJob& job) {
  if (!run.judged) return std::nullopt;
  const double tokens = static_cast<double>(job.batch.gbs * job.batch.seq_len) / job.world;
  if (run.judged->measurement && run.judged->measurement->tokens_per_s_per_slot > 0) {
    return tokens / run.judged->measurement->tokens_per_s_per_slot;
  }
  if (run.judged->standing != Standing::kStoppedEarly) return std::nullopt;
  const auto warm = static_cast<std::size_t>(s.recipe.measure.warmup_steps);
  double sum = 0;
  std::size_t n = 0;
  for (std::size_t i = warm; i < run.steps.size(); ++i) {
    if (run.steps[i].printed_ms <= 0 || run.steps[i].cut) continue;
    sum += run.steps[i].printed_ms / 1000;
    ++n;
  }
  if (n < kFewestSteps) return std::nullopt;
  return sum / static_cast<double>(n);
}

std::optional<double> PeakOf(const RunRecord& run) {
  const std::int64_t peak = std::max(run.memory.max_allocated, run.memory.max_reserved);
  if (peak <= 0) return std::nullopt;
  return static_cast<double>(peak);
}

// PyTorch says it when an allocation fails: "GPU 1 has a total capacity of 79.11 GiB of which ...".
std::optional<double> CapacityOf(const RunRecord& run) {
  if (!run.end || run.end->detail.end != RunEnd::kOomGpu) return std::nullopt;
  constexpr std::string_view kBefore = "total capacity of ", kUnit = " GiB";
  const std::string_view line = run.end->detail.evidence;
  const std::size_t at = line.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + kBefore.size());
  const std::size_t end = rest.find(kUnit);
  if (end == std::string_view::npos) return std::nullopt;
  const std::optional<double> gib = ParseDouble(rest.substr(0, end));
  if (!gib || !(*gib > 0)) return std::nullopt;
  return *gib * 1024 * 1024 * 1024;
}

void AddShares(const RunRecord& run, Measured& m) {
  if (!run.diagnosis || run.diagnosis->source != "trace") return;
  for (const Bottleneck& b : run.diagnosis->bottlenecks) {
    if (b.share < 0 || b.share > 1) continue;
    if (b.cls == "exposed_communication") m.exposed_communication = b.share;
    if (b.cls == "launch_bound") m.host_bound = b.share;
  }
}

// Runs of one configuration are one observation: their mean.
struct Group {
  Measured measured;
  double seconds = 0;
  int timed = 0;
};

}  // namespace

History HistoryOf(const CampaignState& s) {
  History h;
  Jobs jobs(s);
  std::map<const TrainingJob*, std::size_t> place;
  std::vector<Group> groups;
  for (const auto& [id, run] : s.runs) {
    if (!run.judged || run.purpose == Purpose::kComponentTest) continue;
    if (run.judged->standing == Standing::kEnvironment) continue;
    const std::optional<TrainingJob>& job = jobs.Of(run);
    if (!job) continue;
    const bool oom = run.end && run.end->detail.end == RunEnd::kOomGpu;
    const std::optional<double> seconds = SecondsOf(s, run, *job);
    const auto [at, fresh] = place.emplace(&*job, groups.size());
    if (fresh) groups.emplace_back().measured.job = *job;
    Group& g = groups[at->second];
    if (seconds) {
      g.seconds += *seconds;
      ++g.timed;
    }
    if (oom) g.measured.out_of_memory = true;
    if (const auto capacity = CapacityOf(run)) g.measured.device_bytes = capacity;
    if (const auto peak = PeakOf(run); peak && !oom) {
      g.measured.peak_bytes = std::max(*peak, g.measured.peak_bytes.value_or(0));
    }
    AddShares(run, g.measured);
  }
  for (Group& g : groups) {
    if (g.timed > 0) g.measured.step_seconds = g.seconds / g.timed;
    h.measured.push_back(std::move(g.measured));
  }
  for (const ProposalRecord& p : s.proposals) {
    const RunRecord* run = p.run.empty() ? nullptr : s.FindRun(p.run);
    if (run == nullptr || !run->judged || run->judged->standing == Standing::kEnvironment) continue;
    Trial t;
    t.run = run;
    t.proposal = &p;
    t.job = jobs.Of(*run);
    if (t.job) t.seconds = SecondsOf(s, *run, *t.job);
    t.won = run->judged->standing == Standing::kWin || run->judged->leads;
    t.out_of_memory = run->end && (run->end->detail.end == RunEnd::kOomGpu ||
                                   run->end->detail.end == RunEnd::kOomHost);
    t.slow = run->end && run->end->detail.end == RunEnd::kTooSlow;
    t.failed = run->judged->standing == Standing::kFailed;
    t.wrong =
        run->judged->standing == Standing::kRejected || run->judged->standing == Standing::kInvalid;
    h.since_win = t.won ? 0 : h.since_win + 1;
    h.any_win = h.any_win || t.won;
    h.trials.push_back(std::move(t));
  }
  const RunRecord* leader = s.FindRun(s.leader.run);
  if (leader == nullptr && s.calibration && !s.calibration->runs.empty()) {
    leader = s.FindRun(s.calibration->runs.front());
  }
  if (leader != nullptr && leader->diagnosis) {
    for (const Bottleneck& b : leader->diagnosis->bottlenecks) {
      if (!b.named) continue;
      if (h.named.empty()) h.top_class = b.cls;
      h.named.insert(b.cls);
    }
  }
  return h;
}

}  // namespace attune::rules
