#include "session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "attune/base/random.h"
#include "attune/base/text.h"
#include "attune/launch/local.h"
#include "attune/os/files.h"
#include "attune/propose/proposer.h"
#include "ship.h"
#include "version.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTrackerBytes = 64;
// Between two looks at a job that prints nothing new: steps take far longer, and each look costs.
constexpr Millis kPoll{200};

std::string Absolute(const Recipe& recipe, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const std::string& root =
      recipe.launcher.workdir.empty() ? recipe.folder : recipe.launcher.workdir;
  return (fs::path(root) / path).lexically_normal().string();
}

// The store as the loop sees it: the lease is beaten when a beat is due.
class StoreJournal final : public Journal {
 public:
  StoreJournal(Store& store, Writer& writer, Clock& clock)
      : store_(store), writer_(writer), clock_(clock), last_beat_(clock.Monotonic()) {}

  Result<std::vector<Event>> Append(std::vector<Fact> facts, Instant at) override {
    Result<std::vector<Event>> events = writer_.Append(facts, at);
    if (events) last_beat_ = clock_.Monotonic();
    return events;
  }
  Status CheckLease() override {
    if (clock_.Monotonic() - last_beat_ < Writer::kBeatEvery) return writer_.Check();
    last_beat_ = clock_.Monotonic();
    return writer_.Beat(clock_.Now());
  }
  // The wishes become events in the same transaction that takes them, so none is lost or told
  // twice; the loop folds them like its own.
  Result<std::vector<Event>> TakeWishes(Instant at) override {
    ATTUNE_TRY(const std::vector<Wish> waiting, store_.Wishes(writer_.campaign()));
    if (waiting.empty()) return std::vector<Event>{};
    return writer_.TakeWishes(at);
  }

 private:
  Store& store_;
  Writer& writer_;
  Clock& clock_;
  Millis last_beat_;
};

Result<std::unique_ptr<Launcher>> MakeLauncher(const CampaignState& state, Clock& clock) {
  if (state.recipe.launcher.kind != "local") {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("launcher.kind '{}' is not known to this version", state.recipe.launcher.kind),
        "this version has: local");
  }
  LocalOptions options;
  options.run_root = state.opened->run_root;
  options.clock = &clock;
  options.poll = kPoll;
  return MakeLocalLauncher(options);
}

Result<std::unique_ptr<Proposer>> MakeProposer(const Policy& policy) {
  if (policy.proposer == "rules") return MakeRulesProposer();
  if (policy.proposer == "random") return MakeRandomProposer();
  if (policy.proposer == "scripted") return MakeScriptedProposer(policy.script);
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("tuner '{}' is not known to this version", policy.proposer),
              "this version has: rules, random, scripted:FILE");
}

// Nothing that the measurements rest on may change under a campaign.
Status CheckInputs(const CampaignState& state) {
  const Opened& opened = *state.opened;
  if (!opened.checkpoint.empty()) {
    ATTUNE_TRY(const StartPoint start, FindStart(state.recipe));
    if (start.iteration != opened.start_iteration) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{} now stands at iteration {}, the campaign started from {}",
                              start.checkpoint, start.iteration, opened.start_iteration),
                  "restore the checkpoint, then attune resume");
    }
    ATTUNE_TRY(const FolderPrint print, PrintOf(opened.checkpoint));
    if (print.hash != opened.checkpoint_files) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{} is not as it was when the campaign began; written last: {}",
                              opened.checkpoint, EscapeForDisplay(print.newest)),
                  "a tuning run may not write there: find who did, restore it, attune resume");
    }
  }
  ATTUNE_TRY(const std::string fingerprint, StackFingerprint(state.recipe));
  if (fingerprint != opened.stack_fingerprint) {
    return Fail(ErrorCode::kUnavailable,
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
  return Sha256Hex(all);
}

Result<CampaignId> OpenCampaign(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags,
                                Clock& clock) {
  const Recipe& recipe = loaded.recipe;
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
  opened.run_root = store.folder() + "/runs";
  opened.policy = flags.policy;
  if (flags.budget) {
    opened.budget = flags.budget;
  } else if (recipe.budget.gpu_hours && !flags.automatic) {
    opened.budget = FromGpuHours(*recipe.budget.gpu_hours);
  }
  opened.run_limit = flags.run_limit;
  opened.start_iteration = start.iteration;
  opened.checkpoint = start.checkpoint;
  ATTUNE_TRY(const FolderPrint print, PrintOf(start.checkpoint));
  opened.checkpoint_files = print.hash;
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

Result<SessionEnd> RunSession(Store& store, const CampaignId& id, const SessionFlags& flags,
                              Clock& clock) {
  AcquireOptions lease;
  lease.take_over = flags.take_over;
  lease.wait = flags.lock_wait;
  ATTUNE_TRY(const std::unique_ptr<Writer> writer, store.Acquire(id, clock, lease));
  ATTUNE_TRY(CampaignState state, LoadState(store, id));
  Progress progress(stderr, flags.progress);

  const auto tell = [&](const CampaignState& s, const Event& e) { progress.OnEvent(s, e); };
  // A campaign that is only opened starts; anything later is taken up where it stands.
  if (state.seq > 1 && !state.Ended()) {
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
    ATTUNE_TRY(Event event,
               writer->Append(Resumed{fmt::format("{} pid {}", host, getpid())}, clock.Now()));
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

  ATTUNE_TRY(const std::unique_ptr<Launcher> launcher, MakeLauncher(state, clock));
  ATTUNE_TRY(const std::unique_ptr<Proposer> proposer, MakeProposer(state.opened->policy));
  StoreJournal journal(store, *writer, clock);
  Signals signals(flags.on_interrupt);

  Env passed;
  for (const std::string& name : state.recipe.launcher.pass_env) {
    if (const char* value = std::getenv(name.c_str())) passed[name] = value;
  }
  CampaignParts parts{
      .journal = journal,
      .launcher = *launcher,
      .proposer = *proposer,
      .clock = clock,
      .ship = [&](const CampaignState& s) { return WriteBundle(s, store.folder()); },
      .notify = {},
      .interrupted = [&] { return signals.Next(); },
      .on_event = tell,
      .check_inputs = CheckInputs,
      .passed_env = std::move(passed),
      .limits = {.budget = flags.session_budget,
                 .deadline = flags.deadline,
                 .charged_before = state.ledger.Charged()}};
  Result<CampaignEnd> end = RunCampaign(state, parts);
  progress.Clear();
  if (!end) return Fail(std::move(end.error()));
  ATTUNE_RETURN_IF_ERROR(writer->Release(clock.Now()));
  int code = end->code;
  if (code == 0 && flags.exit_status && state.phase == Phase::kNoGain) code = 10;
  return SessionEnd{code, std::move(end->why), std::move(state)};
}

}  // namespace attune::cli
