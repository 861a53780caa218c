#include "session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "agent_desk.h"
#include "approval.h"
#include "attune/base/random.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "launchers.h"
#include "notify.h"
#include "proposers.h"
#include "session_files.h"
#include "ship.h"
#include "simulate.h"
#include "store_journal.h"
#include "version.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTrackerBytes = 64;

std::string Absolute(const Recipe& recipe, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  return (fs::path(JobFolder(recipe)) / path).lexically_normal().string();
}

// Nothing that the measurements rest on may change under a campaign.
Status CheckInputs(const CampaignState& state) {
  const Opened& opened = *state.opened;
  if (!opened.checkpoint.empty()) {
    ATTUNE_TRY(const StartPoint start, FindStart(state.recipe));
    if (start.iteration != opened.start_iteration) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} now stands at iteration {}, the campaign started from {}",
                              start.checkpoint, start.iteration, opened.start_iteration),
                  "restore the checkpoint, then attune resume");
    }
    ATTUNE_TRY(const FolderPrint print, PrintOf(opened.checkpoint));
    if (print.hash != opened.checkpoint_files) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} is not as it was when the campaign began; written last: {}",
                              opened.checkpoint, EscapeForDisplay(print.newest)),
                  "a tuning run may not write there: find who did, restore it, attune resume");
    }
  }
  ATTUNE_TRY(const std::string fingerprint, StackFingerprint(state.recipe));
  if (fingerprint != opened.stack_fingerprint) {
    return Fail(ErrorCode::kInvalidInput,
                "the recipe's files or stack are not what they were when the campaign began",
                "restore them, or start a new campaign with attune run");
  }
  return {};
}

}  // namespace

Result<StartPoint> FindStart(const Recipe& recipe) {
  StartPoint start;
  std::string folder = recipe.measure.start_from;
  if (folder.empty()) folder = recipe.base.args.Value("--load").value_or("");
  if (folder.empty() || recipe.base.args.Has("--finetune")) return start;
  start.checkpoint = Absolute(recipe, folder);
  if (const auto step = recipe.base.args.Value("--ckpt-step")) {
    const std::optional<std::int64_t> iteration = ParseInt(*step);
    if (!iteration || *iteration < 0) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("--ckpt-step {} is no iteration", *step));
    }
    start.iteration = *iteration;
    return start;
  }
  const std::string tracker = start.checkpoint + "/latest_checkpointed_iteration.txt";
  Result<std::string> text = os::ReadFileBounded(tracker, kMaxTrackerBytes);
  if (!text) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no start point: {} can't be read: {}", tracker, text.error().message),
                "make the checkpoint that the recipe loads, or remove --load");
  }
  const std::string_view word = Trim(*text);
  if (word == "release") return start;
  const std::optional<std::int64_t> iteration = ParseInt(word);
  if (!iteration || *iteration < 0) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{} holds '{}', expected an iteration",
                                                      tracker, EscapeForDisplay(word)));
  }
  start.iteration = *iteration;
  return start;
}

Result<FolderPrint> PrintOf(const std::string& folder) {
  FolderPrint print;
  if (folder.empty()) return print;
  std::vector<std::string> lines;
  fs::file_time_type newest = fs::file_time_type::min();
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    const fs::file_status status = at->symlink_status(failed);
    if (failed) break;
    const std::string name = at->path().lexically_relative(folder).string();
    if (!fs::is_regular_file(status)) {
      lines.push_back(fmt::format("{} {}", static_cast<int>(status.type()), name));
      continue;
    }
    const fs::file_time_type time = at->last_write_time(failed);
    if (failed) break;
    const std::uintmax_t size = at->file_size(failed);
    if (failed) break;
    lines.push_back(fmt::format("file {} {} {}", size, time.time_since_epoch().count(), name));
    if (time > newest) {
      newest = time;
      print.newest = name;
    }
  }
  if (failed) {
    return Fail(ErrorCode::kUnavailable, fmt::format("reading {}: {}", folder, failed.message()),
                "restore the checkpoint, then attune resume");
  }
  std::sort(lines.begin(), lines.end());
  print.hash = Sha256Hex("attune/folder/1\n" + Join(lines, "\n"));
  return print;
}

Result<std::string> StackFingerprint(const Recipe& recipe) {
  constexpr std::int64_t kMaxFileBytes = std::int64_t{64} << 20;
  std::string all = "attune/stack/1";
  for (const auto& [key, value] : recipe.stack) all += "\n" + key + "=" + value;
  for (const std::string& file : recipe.files) {
    ATTUNE_TRY(const std::string bytes, os::ReadFileBounded(Absolute(recipe, file), kMaxFileBytes));
    all += "\n" + file + " " + Sha256Hex(bytes);
  }
  if (const std::string script = ScriptPath(recipe); !script.empty()) {
    ATTUNE_TRY(const std::string bytes, os::ReadFileBounded(script, kMaxScriptBytes));
    all += "\nlaunch script " + Sha256Hex(bytes);
  }
  return Sha256Hex(all);
}

Result<CampaignId> OpenCampaign(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags,
                                Clock& clock) {
  const Recipe& recipe = loaded.recipe;
  if (!flags.world.empty()) return OpenSimulated(store, loaded, flags);
  ATTUNE_TRY(const StartPoint start, FindStart(recipe));
  ATTUNE_TRY(std::string fingerprint, StackFingerprint(recipe));
  const Instant now = clock.Now();
  const std::string day = Rfc3339(now).substr(0, 10);
  Opened opened;
  opened.id = CampaignId{fmt::format("c-{}{}{}-{}", day.substr(0, 4), day.substr(5, 2),
                                     day.substr(8, 2), RandomHex(4))};
  opened.recipe_json = loaded.canonical_json;
  opened.recipe_path = fs::absolute(loaded.path).lexically_normal().string();
  opened.recipe_hash = loaded.hash;
  opened.stack_fingerprint = std::move(fingerprint);
  opened.attune_version = kVersion;
  opened.run_root = RunRootOf(recipe, store.folder());
  opened.policy = flags.policy;
  ATTUNE_TRY(const SkillInUse skill, SkillOf(opened));
  opened.skill_version = skill.Get().version;
  if (flags.budget) {
    opened.budget = flags.budget;
  } else if (recipe.budget.gpu_hours && !flags.automatic) {
    opened.budget = FromGpuHours(*recipe.budget.gpu_hours);
  }
  opened.run_limit = flags.run_limit;
  const LaunchTerms terms = TermsOf(recipe, store.folder(), clock);
  opened.release_margin = terms.release_margin;
  opened.limit_step = terms.limit_step;
  opened.start_iteration = start.iteration;
  opened.checkpoint = start.checkpoint;
  ATTUNE_TRY(const FolderPrint print, PrintOf(start.checkpoint));
  opened.checkpoint_files = print.hash;
  if (!flags.recalibrate) {
    ATTUNE_TRY(opened.earlier, store.FindCalibration(opened, now - kCalibrationAge, now));
  }
  if (flags.source) {
    ATTUNE_RETURN_IF_ERROR(KeepSource(store.folder(), opened.id, *flags.source));
  }
  ATTUNE_TRY(const Event event, store.Create(opened, now));
  (void)event;
  return opened.id;
}

Result<CampaignState> LoadState(Store& store, const CampaignId& id) {
  ATTUNE_TRY(const std::vector<Event> events, store.Load(id));
  const Opened* opened = events.empty() ? nullptr : std::get_if<Opened>(&events.front().fact);
  if (opened == nullptr) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{} does not begin with its opening", id.value),
                "attune db check");
  }
  CampaignState state;
  ATTUNE_TRY(state.recipe, RecipeFromJson(opened->recipe_json));
  for (const Event& event : events) state = Apply(std::move(state), event);
  return state;
}

std::string ExchangeFolder(const std::string& state_folder, const CampaignId& campaign) {
  return state_folder + "/llm/" + campaign.value;
}

Result<SessionEnd> RunSession(Store& store, const CampaignId& id, const SessionFlags& flags,
                              Clock& machine_clock) {
  AcquireOptions lease;
  lease.take_over = flags.take_over;
  lease.wait = flags.lock_wait;
  ATTUNE_TRY(const std::unique_ptr<Writer> writer, store.Acquire(id, machine_clock, lease));
  ATTUNE_TRY(CampaignState state, LoadState(store, id));
  if (flags.recipe_now && state.opened->world.empty()) TakeOver(state.recipe, *flags.recipe_now);
  Progress progress(stderr, flags.progress);
  ATTUNE_TRY(const std::unique_ptr<Simulation> simulated, TakeUpSimulation(store, state));
  Clock& clock = simulated ? simulated->clock() : machine_clock;

  ATTUNE_TRY(const std::unique_ptr<SessionFiles> files,
             SessionFiles::Open(store, id, flags.events, flags.metrics));

  const auto tell = [&](const CampaignState& s, const Event& e) {
    progress.OnEvent(s, e);
    files->OnEvent(s, e);
  };
  // A campaign that is only opened starts; anything later is taken up where it stands.
  // Nothing of a simulated campaign is uncertain after a kill: it goes on as if it had not been,
  // and its record is the unbroken one's. Only what somebody asked for stands in it.
  const bool goes_on = simulated && !state.user_wish && !state.paused;
  if (state.seq > 1 && !state.Ended() && !goes_on) {
    // What was asked while nobody was here to hear it: to leave is no longer meant, to end the jobs
    // and to try runs again still is.
    ATTUNE_TRY(const std::vector<Event> missed, writer->TakeWishes(clock.Now()));
    bool cancel = false;
    for (const Event& asked : missed) {
      state = Apply(std::move(state), asked);
      cancel = cancel || state.user_wish == "cancel";
    }
    char host[256] = "localhost";
    (void)gethostname(host, sizeof host - 1);
    const std::string by = simulated ? "simulated" : fmt::format("{} pid {}", host, getpid());
    ATTUNE_TRY(Event event, writer->Append(Resumed{by}, clock.Now()));
    state = Apply(std::move(state), event);
    tell(state, event);
    if (cancel) {
      ATTUNE_TRY(event, writer->Append(UserAsked{"cancel"}, clock.Now()));
      state = Apply(std::move(state), event);
      tell(state, event);
    }
  } else if (state.seq == 1) {
    tell(state, Event{1, state.opened_at, *state.opened});
  }
  if (flags.llm_budget_usd_micros && flags.llm_budget_usd_micros != state.llm_budget_usd_micros) {
    ATTUNE_TRY(
        Event event,
        writer->Append(LlmBudgetSet{*flags.llm_budget_usd_micros, "--llm-budget"}, clock.Now()));
    state = Apply(std::move(state), event);
    tell(state, event);
  }

  ATTUNE_TRY(const std::unique_ptr<Launcher> launcher,
             simulated ? simulated->MakeLauncher()
                       : MakeLauncher(state, store.folder(), clock, flags.in_allocation));
  ATTUNE_TRY(const Mind mind, MakeMind(store, state, flags.open_model));
  StoreJournal journal(store, *writer, machine_clock);
  Signals signals(flags.on_interrupt);
  if (flags.on_begun) ATTUNE_RETURN_IF_ERROR(flags.on_begun(id));

  Env passed;
  for (const std::string& name : state.recipe.launcher.pass_env) {
    if (simulated) break;  // what this machine's environment holds is no part of the simulation
    if (const char* value = std::getenv(name.c_str())) passed[name] = value;
  }
  std::string script;
  if (const std::string path = ScriptPath(state.recipe); !path.empty() && !simulated) {
    ATTUNE_TRY(script, os::ReadFileBounded(path, kMaxScriptBytes));
  }
  CampaignParts parts{
      .journal = journal,
      .launcher = *launcher,
      .proposer = *mind.proposer,
      .clock = clock,
      .ship = [&](const CampaignState& s) { return WriteBundle(s, store.folder()); },
      .notify = [](const CampaignState& s, const std::string& what) { Notify(s, what); },
      .interrupted = [&] { return signals.Next(); },
      .on_event = tell,
      .check_inputs = simulated ? nullptr : std::function(CheckInputs),
      .passed_env = std::move(passed),
      .script = std::move(script),
      .slice = simulated ? kSimulatedSlice : CampaignParts::kSlice,
      .limits = {.budget = flags.session_budget,
                 .deadline = flags.deadline,
                 .charged_before = state.ledger.Charged(),
                 .allocation = launcher->HeldAllocation()}};
  if (!simulated) {  // whose ten minutes are no time
    parts.on_tick = [&](const CampaignState& s, Instant now) { progress.OnTick(s, now); };
  }
  if (flags.approve_each) parts.approve = AskAtTerminal([&] { progress.Clear(); });
  Result<CampaignEnd> end = RunCampaign(state, parts);
  progress.Clear();
  if (!end) return Fail(std::move(end.error()));
  ATTUNE_RETURN_IF_ERROR(writer->Release(machine_clock.Now()));
  int code = end->code;
  if (code == 0 && flags.exit_status && state.phase == Phase::kNoGain) code = 10;
  return SessionEnd{code, std::move(end->why), std::move(state)};
}

}  // namespace attune::cli
