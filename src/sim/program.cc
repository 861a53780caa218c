#include "attune/sim/program.h"

#include <fmt/core.h>

#include <cmath>
#include <fstream>

#include "attune/base/text.h"
#include "job_script.h"
#include "log_text.h"
#include "setup.h"
#include "trace_text.h"
#include "write_file.h"

namespace attune::sim {
namespace {

constexpr Millis kLongWait = std::chrono::hours(1);
constexpr int kTerminated = 15, kKilled = 9;

// Megatron-LM's tracker file, in real folders.
class FolderCheckpoints final : public Checkpoints {
 public:
  std::optional<std::int64_t> Latest(const std::string& folder) override {
    std::ifstream in(folder + "/latest_checkpointed_iteration.txt");
    std::string word;
    in >> word;
    return in ? ParseInt(word) : std::nullopt;
  }
  void Saved(const std::string& folder, std::int64_t iteration) override {
    // The job goes on when a disk is full; what could not be saved is not found later.
    (void)WriteFile(folder + "/latest_checkpointed_iteration.txt",
                    std::to_string(iteration) + "\n");
  }
};

class Program {
 public:
  Program(const ProgramSetup& setup, Site site, Clock& clock,
          const std::function<void(std::string_view)>& print)
      : setup_(setup), site_(std::move(site)), clock_(clock), print_(print) {}

  Result<ProgramEnd> Run() {
    begin_ = clock_.Now();
    JobScript script(Setup());
    const World& world = *setup_.cluster.world;
    const Allocation a = DrawAllocation(world, setup_.cluster.seed, setup_.job);
    const double gone_ms = 1000 * std::min(a.preempted_s, a.node_failed_s) / setup_.speed;
    double last_step_ms = -1;
    while (const Print* next = script.Peek()) {
      if (next->at_ms >= gone_ms) return Gone(a, gone_ms);
      const Print print = script.Take();
      WaitUntil(print.at_ms);
      print_(print.text);
      if (!print.step) continue;
      ++steps_;
      ATTUNE_RETURN_IF_ERROR(AfterStep(script, last_step_ms < 0 ? 0 : print.at_ms - last_step_ms));
      last_step_ms = print.at_ms;
    }
    const JobEnd& end = script.end();
    if (std::min(end.at_ms, gone_ms) > 1e15) {
      for (;;) clock_.SleepUntil(clock_.Now() + kLongWait);  // hung: only a limit ends it
    }
    if (gone_ms < end.at_ms) return Gone(a, gone_ms);
    WaitUntil(end.at_ms);
    return ProgramEnd{end.exit_code, end.signal};
  }

 private:
  JobSetup Setup() {
    JobSetup js;
    js.site = &site_;
    js.block_flags = &setup_.cluster.block_flags;
    js.allocation = DrawAllocation(*setup_.cluster.world, setup_.cluster.seed, setup_.job);
    js.run_seed = MixText(js.allocation.seed, "run");
    js.args = args_ = ParseArguments(setup_.args);
    js.workload = setup_.cluster.recipe.workload;
    js.env = setup_.env;
    js.wall_start = begin_;
    js.hung_after_ms = 1000 * js.allocation.hung_s / setup_.speed;
    js.speed = setup_.speed;
    js.checkpoints = &checkpoints_;
    return js;
  }

  void WaitUntil(double at_ms) {
    const Instant at = begin_ + Millis{static_cast<std::int64_t>(std::ceil(at_ms))};
    while (clock_.Now() < at) clock_.SleepUntil(at);
  }

  ProgramEnd Gone(const Allocation& a, double at_ms) {
    WaitUntil(at_ms);
    if (a.preempted_s <= a.node_failed_s) {
      print_(PreemptedLine("100001", "node001", clock_.Now()));
      return {std::nullopt, kTerminated};
    }
    print_(NodeFailedLine("node001"));
    return {std::nullopt, kKilled};
  }

  Status AfterStep(const JobScript& script, double step_ms) {
    if (steps_ == 1 && !setup_.truth_file.empty()) {
      ATTUNE_RETURN_IF_ERROR(
          WriteFile(setup_.truth_file, TruthJson(script.truth(), 1000 * script.truth().step)));
    }
    const std::optional<TraceWish> wish = TraceWishOf(args_);
    if (!wish || steps_ != wish->step || !script.job()) return {};
    TraceStep step;
    step.number = steps_;
    step.seconds = step_ms > 0 ? step_ms / 1000 : script.truth().step / setup_.speed;
    step.begin = clock_.Now();
    step.rank = wish->rank;
    return WriteTrace(*wish, *script.job(), script.truth(), step);
  }

  const ProgramSetup& setup_;
  Site site_;
  Clock& clock_;
  const std::function<void(std::string_view)>& print_;
  FolderCheckpoints checkpoints_;
  Arguments args_;
  Instant begin_;
  std::int64_t steps_ = 0;
};

}  // namespace

Result<ProgramEnd> RunProgram(const ProgramSetup& setup, Clock& clock,
                              const std::function<void(std::string_view)>& print) {
  ATTUNE_TRY(Site site, PrepareSite(setup.cluster));
  return Program(setup, std::move(site), clock, print).Run();
}

}  // namespace attune::sim
