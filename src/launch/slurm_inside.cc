// Launches as steps of the allocation that this process runs in: the wrapper is started here, on a
// node of it, and srun takes ranks to the other nodes. What an earlier session handed to Slurm as
// jobs of their own is left to the launcher that knows those.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/launch/local.h"
#include "attune/launch/slurm.h"
#include "attune/os/files.h"
#include "slurm_client.h"
#include "slurm_launch.h"
#include "slurm_place.h"
#include "slurm_script.h"

namespace attune {
namespace {

using launch::StartRecord;

// What the batch script has from Slurm that a run needs too: to make steps, and its GPUs. Nothing
// that shapes a step: those options are given to srun one by one.
constexpr std::string_view kOfTheAllocation[] = {
    "SLURM_CONF",     "SLURM_JOB_ID",         "SLURM_JOBID",          "SLURMD_NODENAME",
    "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"};

os::Environment RunEnvironment() {
  const os::Environment own = os::OwnEnvironment();
  os::Environment env = os::NodeEnvironment(own);
  for (const std::string_view name : kOfTheAllocation) {
    if (const auto it = own.find(std::string(name)); it != own.end()) {
      env[it->first] = it->second;
    }
  }
  env["SLURM_EXPORT_ENV"] = "ALL";  // else steps of srun get none of the run's variables
  return env;
}

LocalOptions LocalOptionsOf(const SlurmOptions& o, const std::string& wrapper) {
  LocalOptions l;
  l.run_root = o.run_root;
  l.wrapper = wrapper;
  l.clock = o.clock;
  l.runner = o.runner;
  l.poll = std::min(o.poll, Millis{200});
  l.node_environment = RunEnvironment();
  l.grace = o.grace;
  l.beat = o.beat;
  l.log_cap = o.log_cap;
  return l;
}

SlurmOptions Inside(SlurmOptions o) {
  o.inside = true;
  return o;
}

class InsideLauncher final : public Launcher {
 public:
  InsideLauncher(SlurmOptions options, Allocation allocation)
      : o_(Inside(std::move(options))),
        a_(std::move(allocation)),
        place_(launch::MakeSlurmPlace(o_)),
        jobs_(MakeSlurmLauncher(o_)) {
    ATTUNE_CHECK(o_.clock != nullptr, "a launcher needs a clock");
  }

  Result<Submitted> Submit(const LaunchSpec& spec) override;
  Result<std::optional<LaunchHandle>> Find(const Token& token) override;
  Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles, Instant until,
                                           int steps) override;
  Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) override {
    ATTUNE_TRY(Launcher* const launcher, Of(handle.token));
    return launcher->Cancel(handle, run);
  }
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override {
    ATTUNE_TRY(Launcher* const launcher, Of(handle.token));
    return launcher->Fetch(handle, path, offset, size);
  }
  Millis ReleaseMargin() const override { return LocalOptions().release_margin; }
  std::string HeldAllocation() const override { return a_.name; }

 private:
  std::optional<StartRecord> StartOf(const std::string& token) const;
  Result<Launcher*> Local();
  Result<Launcher*> Of(const Token& token);
  Status WhyNotHere(const LaunchSpec& spec, const std::vector<std::string>& without) const;
  Status Settle(Observation& o);
  Status ControllerAnswers();
  Result<bool> Answers(const std::vector<std::string>& nodes);
  Result<std::vector<std::string>> Silent();
  void AskNodes(Observation& o);
  Millis IdleBefore(const StartRecord& start) const;

  SlurmOptions o_;
  const Allocation a_;
  std::unique_ptr<launch::SlurmPlace> place_;
  std::unique_ptr<Launcher> local_, jobs_;
  struct Asked {            // of a launch's nodes
    std::set<RunId> after;  // runs that did not end well
    std::set<std::string> silent;
  };
  std::map<Token, Asked> asked_;
  std::set<std::string> gone_;  // nodes that launches leave out: they are not asked again
};

std::optional<StartRecord> InsideLauncher::StartOf(const std::string& token) const {
  const auto bytes =
      launch::ReadRecordFile(launch::AttemptFolder(o_.run_root + "/" + token, 0) + "/start");
  return bytes ? launch::DecodeStart(*bytes) : std::nullopt;
}

Result<Launcher*> InsideLauncher::Local() {
  if (!local_) {
    ATTUNE_RETURN_IF_ERROR(place_->Ready());
    ATTUNE_TRY(const std::string wrapper, place_->Wrapper());
    local_ = MakeLocalLauncher(LocalOptionsOf(o_, wrapper));
  }
  return local_.get();
}

// A launch of another allocation, or a job of its own, is watched as Slurm's launcher does it.
Result<Launcher*> InsideLauncher::Of(const Token& token) {
  const auto start = StartOf(token.value);
  const bool other = start
                         ? start->job_id != a_.job_id
                         : os::Exists(o_.run_root + "/" + token.value + "/" + launch::kSubmitMark);
  return other ? Result<Launcher*>(jobs_.get()) : Local();
}

// Errors end the session: another allocation can start what this one can't. `without`: nodes of
// this one that are to be left out.
Status InsideLauncher::WhyNotHere(const LaunchSpec& spec,
                                  const std::vector<std::string>& without) const {
  const std::size_t left = a_.nodes.size() - without.size();
  int wanted = 1;
  for (const Stage& stage : spec.stages) {
    wanted = std::max(wanted, stage.nodes);
  }
  const bool own = std::find(without.begin(), without.end(), a_.here) != without.end();
  if (own || (static_cast<std::size_t>(wanted) > left && !without.empty())) {
    return Fail(
        ErrorCode::kUnavailable,
        "too few nodes of allocation " + a_.job_id + " are left without " + Join(without, ","),
        "attune resume --in-allocation in another allocation");
  }
  if (static_cast<std::size_t>(wanted) > left) {
    return Fail(ErrorCode::kInvalidInput, "the job takes " + std::to_string(wanted) +
                                              " nodes, and allocation " + a_.job_id + " has " +
                                              std::to_string(left));
  }
  if (a_.ends && o_.clock->Now() + spec.limit + ReleaseMargin() > *a_.ends) {
    return Fail(ErrorCode::kUnavailable,
                "allocation " + a_.job_id + " ends in " + ShowDuration(*a_.ends - o_.clock->Now()) +
                    ", and the next launch may take " + ShowDuration(spec.limit + ReleaseMargin()),
                "attune resume --in-allocation in another allocation goes on");
  }
  return {};
}

Result<Submitted> InsideLauncher::Submit(const LaunchSpec& spec) {
  ATTUNE_TRY(Launcher* const local, Local());
  SlurmOptions options = o_;
  for (const std::string& node : a_.nodes) {
    if (std::find(spec.exclude.begin(), spec.exclude.end(), node) != spec.exclude.end()) {
      options.without.push_back(node);
    }
  }
  gone_.insert(options.without.begin(), options.without.end());
  if (!StartOf(spec.token.value)) {
    ATTUNE_RETURN_IF_ERROR(WhyNotHere(spec, options.without));
  }
  ATTUNE_TRY(const std::string wrapper, place_->Wrapper());
  LaunchSpec inside = spec;
  inside.exclude.clear();
  for (Stage& stage : inside.stages) {
    stage = launch::OnNodes(options, stage, wrapper, place_->OnNodes(spec.token));
  }
  ATTUNE_TRY(Submitted submitted, local->Submit(inside));
  if (auto* bound = std::get_if<Bound>(&submitted)) {
    bound->handle.allocation = a_.name;
  }
  return submitted;
}

Result<std::optional<LaunchHandle>> InsideLauncher::Find(const Token& token) {
  ATTUNE_TRY(Launcher* const launcher, Of(token));
  ATTUNE_TRY(std::optional<LaunchHandle> found, launcher->Find(token));
  if (found && launcher == local_.get()) {
    found->allocation = a_.name;
  }
  return found;
}

Result<std::vector<Observation>> InsideLauncher::Observe(std::span<const LaunchHandle> handles,
                                                         Instant until, int steps) {
  std::vector<LaunchHandle> here, there;
  for (const LaunchHandle& handle : handles) {
    ATTUNE_TRY(const Launcher* const launcher, Of(handle.token));
    (launcher == jobs_.get() ? there : here).push_back(handle);
  }
  std::vector<Observation> seen;
  if (!there.empty()) {
    ATTUNE_TRY(seen, jobs_->Observe(there, here.empty() ? until : o_.clock->Now(), steps));
  }
  if (!here.empty() || there.empty()) {
    ATTUNE_TRY(Launcher* const local, Local());
    ATTUNE_TRY(std::vector<Observation> own, local->Observe(here, until, steps));
    for (Observation& o : own) {
      AskNodes(o);
      if (o.state == Observation::State::kEnded) {
        ATTUNE_RETURN_IF_ERROR(Settle(o));
      }
      seen.push_back(std::move(o));
    }
  }
  std::vector<Observation> out;
  for (const LaunchHandle& handle : handles) {
    const auto it = std::find_if(seen.begin(), seen.end(), [&](const Observation& o) {
      return o.handle.token == handle.token;
    });
    ATTUNE_CHECK(it != seen.end(), "an observation a handle");
    out.push_back(std::move(*it));
  }
  return out;
}

// Without slurmctld no step is made on any node, and nothing is known of them.
Status InsideLauncher::ControllerAnswers() {
  launch::SlurmClient client(place_->programs(), o_.environment, o_.command_limit);
  ATTUNE_TRY(const os::CommandResult r,
             client.Call({"squeue", "--noheader", "--jobs=" + a_.job_id, "--format=%i"}));
  return r.exit_code == 0 ? Status()
                          : Status(Fail(ErrorCode::kUnavailable, std::string(Trim(r.err))));
}

// Whether all of them run a step, and within the time that any call of Slurm's has. An Error: it
// was not found out, because somebody wants this process to leave.
Result<bool> InsideLauncher::Answers(const std::vector<std::string>& nodes) {
  launch::SlurmClient client(place_->programs(), o_.environment, o_.command_limit);
  const std::string count = std::to_string(nodes.size());
  const auto r = client.Call({"srun", "--jobid=" + a_.job_id, "--overlap", "--nodes=" + count,
                              "--ntasks=" + count, "--ntasks-per-node=1",
                              "--nodelist=" + Join(nodes, ","), "true"});
  if (!r && r.error().code == ErrorCode::kUnavailable) {
    return Fail(r.error());
  }
  // Where srun can't be had nothing is said about the nodes.
  return r ? r->exit_code == 0 : r.error().code != ErrorCode::kTimeout;
}

// Nodes of the allocation that run nothing any more, beside those that are known not to. One step
// asks them all; only when that fails are they asked one by one, because a step fails as a whole.
Result<std::vector<std::string>> InsideLauncher::Silent() {
  std::vector<std::string> others = a_.nodes, silent;
  std::erase_if(others, [&](const std::string& node) {
    return node == a_.here || gone_.contains(node);  // this process runs here
  });
  if (others.empty()) {
    return silent;
  }
  ATTUNE_TRY(const bool all, Answers(others));
  if (all) {
    return silent;
  }
  ATTUNE_RETURN_IF_ERROR(ControllerAnswers());
  for (const std::string& node : others) {
    ATTUNE_TRY(const bool answers, Answers({node}));
    if (!answers) {
      silent.push_back(node);
    }
  }
  ATTUNE_RETURN_IF_ERROR(ControllerAnswers());
  return silent;
}

// After a run that did not end well, and before anybody hears of it: what it is blamed on depends
// on the answer.
void InsideLauncher::AskNodes(Observation& o) {
  Asked& asked = asked_[o.handle.token];
  for (StageObservation& stage : o.stages) {
    if (!stage.started || !stage.ended || stage.exit_code == 0 || asked.after.contains(stage.run)) {
      continue;
    }
    const auto silent = Silent();
    if (!silent) {  // somebody wants us to leave, or slurmctld is away: the next look asks again
      stage.ended = false;
      o.state = Observation::State::kEnding;
      continue;
    }
    asked.after.insert(stage.run);
    asked.silent.insert(silent->begin(), silent->end());
    gone_.insert(silent->begin(), silent->end());
  }
  if (!asked.silent.empty()) {
    o.end_hint = RunEnd::kNodeFailed;
    o.failed_nodes.assign(asked.silent.begin(), asked.silent.end());
    o.detail = "of the allocation's nodes " + Join(o.failed_nodes, ",") + " did not answer";
  }
}

// Said once: folders of earlier launches may be gone when it is read again.
Status InsideLauncher::Settle(Observation& o) {
  const std::string folder = place_->OnNodes(o.handle.token);
  launch::JobBook book;
  if (const auto bytes = launch::ReadRecordFile(folder + "/" + launch::kJobsFile)) {
    if (auto before = launch::JobBook::Decode(*bytes)) {
      book = std::move(*before);
    }
  }
  if (const auto start = StartOf(o.handle.token.value); start && !book.settled) {
    ATTUNE_TRY(const launch::Plan plan, launch::ReadPlan(o_.run_root, o.handle.token));
    const GpuMillis idle = ChargeFor(plan.spec.slots, IdleBefore(*start));
    book.settled = launch::Settled{o.charged + idle,    o.source,       o.end_hint, o.detail,
                                   Join(a_.nodes, ","), o.failed_nodes, idle};
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(folder + "/" + launch::kJobsFile, book.Encode()));
  }
  if (book.settled) {
    o.charged = book.settled->charged;
    o.idle = book.settled->idle;
    o.nodes = book.settled->nodes;
    o.end_hint = book.settled->hint;
    o.detail = book.settled->detail;
    o.failed_nodes = book.settled->failed_nodes;
  }
  return {};
}

// Since the launch before it in this allocation: the nodes were held, and nobody else could use
// them. By the records of both, on one node's monotonic clock.
Millis InsideLauncher::IdleBefore(const StartRecord& start) const {
  std::optional<Millis> before;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(o_.run_root, error)) {
    const auto other = StartOf(entry.path().filename().string());
    if (!other || other->job_id != start.job_id ||
        other->process.boot_id != start.process.boot_id || other->mono >= start.mono) {
      continue;
    }
    const std::string folder = launch::AttemptFolder(entry.path().string(), 0);
    Millis end = other->mono;
    if (const auto bytes = launch::ReadRecordFile(folder + "/exit")) {
      const auto exit = launch::DecodeExit(*bytes);
      end = exit ? exit->mono : end;
    } else if (const auto lost = launch::ReadRecordFile(folder + "/lost")) {
      const auto record = launch::DecodeLost(*lost);
      end = record ? other->mono + record->held : end;
    }
    before = std::max(before.value_or(end), end);
  }
  return before ? std::max(Millis{0}, start.mono - *before) : Millis{0};
}

}  // namespace

Result<Allocation> FindAllocation(const SlurmOptions& options) {
  const os::Environment env = options.environment ? *options.environment : os::OwnEnvironment();
  const auto value = [&](const char* name) {
    const auto it = env.find(name);
    return it == env.end() ? std::string() : it->second;
  };
  Allocation a;
  a.job_id = value("SLURM_JOB_ID");
  if (a.job_id.empty()) {
    return Fail(ErrorCode::kInvalidInput, "--in-allocation: SLURM_JOB_ID is not set",
                "start attune in a batch script");
  }
  a.here = value("SLURMD_NODENAME");
  if (a.here.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                "--in-allocation: this process is on no node of allocation " + a.job_id,
                "start attune in its batch script, or by srun --jobid " + a.job_id + " --pty");
  }
  const auto place = launch::MakeSlurmPlace(options);
  launch::SlurmClient client(place->programs(), options.environment, options.command_limit);
  ATTUNE_TRY(const os::CommandResult r,
             client.Call({"squeue", "--noheader", "--jobs=" + a.job_id, "--format=%e|%N|%S"}));
  const auto cells = Split(Trim(r.out), '|');
  if (r.exit_code != 0 || cells.size() != 3) {
    return Fail(ErrorCode::kUnavailable, "squeue does not say when allocation " + a.job_id +
                                             " ends: " + EscapeForDisplay(Trim(r.err), 200));
  }
  a.name = a.job_id + "-" + std::string(cells[2]);
  if (const auto ends = ParseInt(cells[0])) {
    a.ends = Instant{*ends * 1000};
  }
  ATTUNE_TRY(const os::CommandResult names,
             client.Call({"scontrol", "show", "hostnames", std::string(cells[1])}));
  for (const std::string_view line : SplitLines(names.out)) {
    if (!Trim(line).empty()) {
      a.nodes.emplace_back(Trim(line));
    }
  }
  if (a.nodes.empty()) {
    return Fail(ErrorCode::kUnavailable, "allocation " + a.job_id + " has no nodes yet");
  }
  return a;
}

std::unique_ptr<Launcher> MakeAllocationLauncher(SlurmOptions options, Allocation allocation) {
  return std::make_unique<InsideLauncher>(std::move(options), std::move(allocation));
}

}  // namespace attune
