#include "slurm_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "attune/base/random.h"
#include "attune/base/text.h"

namespace attune::cli {
namespace {

using State = SlurmCheck::State;

// A clock that is off by more is worth knowing; nothing that attune charges depends on it.
constexpr std::int64_t kSkewWorthSaying = 5;

LaunchSpec SpecFor(const Recipe& recipe, const std::string& token, Millis limit) {
  LaunchSpec spec;
  spec.token = Token(token);
  spec.slots = recipe.workload.gpus;
  spec.limit = limit;
  return spec;
}

// By a start that this machine's clock saw between `before` and `after`.
std::vector<SlurmCheck> CheckNodeClock(const Observation& job, Instant before, Instant after) {
  for (const StageObservation& stage : job.stages) {
    if (!stage.started) continue;
    const Instant at{stage.started_wall_ms};
    const Millis apart = at < before ? before - at : at > after ? at - after : Millis{0};
    if (apart <= Millis{kSkewWorthSaying * 1000}) return {};
    return {{State::kWarn, "clock",
             fmt::format("the clock of {} is {} {} this machine's", job.nodes, ShowDuration(apart),
                         at < before ? "behind" : "ahead of"),
             "nothing that is charged or judged depends on it"}};
  }
  return {};
}

std::string Wanted(const Recipe& recipe) {
  const auto it = recipe.launcher.sbatch.find("partition");
  return it == recipe.launcher.sbatch.end() ? std::string() : it->second;
}

void CheckPartitions(const Recipe& recipe, const SlurmReport& report, int nodes,
                     std::vector<SlurmCheck>& out) {
  std::string all;
  const std::string wanted = Wanted(recipe);
  bool seen = wanted.empty();
  for (const SlurmReport::Partition& p : report.partitions) {
    all += fmt::format("{}{}: {} of {} nodes idle, limit {}{}", all.empty() ? "" : "; ", p.name,
                       p.idle, p.nodes, p.limit, p.up ? "" : ", down");
    if (p.name != wanted) continue;
    seen = true;
    if (!p.up) {
      out.push_back({State::kFail, "partition", fmt::format("{} is down", p.name), ""});
    } else if (p.nodes < nodes) {
      out.push_back({State::kFail, "partition",
                     fmt::format("{} has {} nodes, the job takes {}", p.name, p.nodes, nodes), ""});
    }
  }
  if (!seen && wanted.find(',') == std::string::npos) {
    out.push_back({State::kFail, "partition",
                   fmt::format("no partition {} is shown to you", EscapeForDisplay(wanted)),
                   "launcher.sbatch.partition"});
  }
  out.push_back({State::kOk, "partitions", all.empty() ? "none are shown" : all, ""});
}

}  // namespace

std::vector<SlurmCheck> CheckSlurm(const Recipe& recipe, const SlurmOptions& options,
                                   Millis limit) {
  std::vector<SlurmCheck> out;
  const SlurmReport report = AskSlurm(options, SpecFor(recipe, "attune-test-only", limit));
  if (!report.trouble.empty()) {
    out.push_back({State::kFail, "slurm", report.trouble,
                   options.login.empty()
                       ? "run attune where Slurm's programs reach slurmctld, or name launcher.login"
                       : fmt::format("ssh {} squeue must work", options.login)});
    return out;
  }
  out.push_back({State::kOk, "slurm",
                 fmt::format("{} {}, KillWait {}", report.terms.cluster, report.terms.version,
                             ShowDuration(report.terms.kill_wait)),
                 ""});
  CheckPartitions(recipe, report, options.nodes, out);
  if (report.skew_s && std::abs(*report.skew_s) > kSkewWorthSaying) {
    out.push_back(
        {State::kWarn, "clock",
         fmt::format("slurmctld's clock is {} s {} this machine's", std::abs(*report.skew_s),
                     *report.skew_s > 0 ? "ahead of" : "behind"),
         ""});
  }
  out.push_back(
      {report.would_start ? State::kOk : State::kFail, "sbatch --test-only", report.test_only, ""});
  return out;
}

std::vector<SlurmCheck> CheckSlurmNode(const Recipe& recipe, SlurmOptions options,
                                       Millis patience) {
  Clock& clock = *options.clock;
  const std::string run_root = options.run_root;
  options.container = {};  // the image is looked at, not run
  options.poll = Millis{1'000};
  options.file_lag = Millis{10'000};
  const auto launcher = MakeSlurmLauncher(options);
  LaunchSpec spec = SpecFor(recipe, "attune-doctor-" + RandomHex(8), Millis{30'000});
  const auto look = [&](const char* run, const std::string& path) {
    Stage stage;
    stage.run = RunId(run);
    stage.argv = {"test", "-r", path};
    stage.workdir = "/";
    spec.stages.push_back(std::move(stage));
  };
  look("workdir", JobFolder(recipe));
  const bool image = recipe.launcher.container.image.starts_with('/');
  if (image) look("image", recipe.launcher.container.image);

  const auto fail = [](std::string text, std::string help = "") {
    return std::vector<SlurmCheck>{
        {State::kFail, "compute node", std::move(text), std::move(help)}};
  };
  const Instant before = clock.Now();
  const auto submitted = launcher->Submit(spec);
  if (!submitted) return fail(submitted.error().message);
  if (const auto* refused = std::get_if<SubmitRefused>(&*submitted)) return fail(refused->why);
  if (const auto* unknown = std::get_if<SubmitUnknown>(&*submitted)) return fail(unknown->why);
  const LaunchHandle handle = std::get<Bound>(*submitted).handle;
  const Instant give_up = clock.Now() + patience;
  Observation last;
  std::string word;
  bool cancelled = false;
  while (true) {
    auto seen = launcher->Observe({&handle, 1}, clock.Now() + Millis{1'000}, 1);
    if (!seen) return fail(seen.error().message);
    last = std::move(seen->front());
    if (last.state == Observation::State::kEnded) break;
    if (clock.Now() > give_up + Millis{60'000}) {
      return fail(fmt::format("job {} does not end: {}", handle.id, last.scheduler_word));
    }
    if (clock.Now() > give_up && !cancelled) {
      word = last.scheduler_word;
      cancelled = true;
      if (const Status asked = launcher->Cancel(handle, std::nullopt); !asked) {
        return fail(asked.error().message);
      }
    }
  }
  if (cancelled) {
    return {
        {State::kWarn, "compute node",
         fmt::format("not looked at: the job was still {} after {}", word, ShowDuration(patience)),
         "try again when nodes are idle"}};
  }
  if (last.end_hint) {
    return fail(
        last.detail,
        fmt::format("{} must be on a file system that the nodes share and may write", run_root));
  }
  std::vector<SlurmCheck> out{
      {State::kOk, "compute node", fmt::format("{} writes in {}", last.nodes, run_root), ""}};
  for (SlurmCheck& check : CheckNodeClock(last, before, clock.Now())) {
    out.push_back(std::move(check));
  }
  for (std::size_t i = 0; i < last.stages.size(); ++i) {
    const StageObservation& stage = last.stages[i];
    const std::string& path = spec.stages[i].argv.back();
    if (stage.exit_code != 0) {
      out.push_back({State::kFail, stage.run.value,
                     fmt::format("{} is not there for {}", path, last.nodes),
                     "it must be on a file system that the nodes share"});
    } else {
      out.push_back({State::kOk, stage.run.value, fmt::format("{} sees {}", last.nodes, path), ""});
    }
  }
  return out;
}

}  // namespace attune::cli
