#include "run_flags.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>

#include "attune/base/text.h"
#include "exit_code.h"
#include "json_out.h"
#include "summary.h"

namespace attune::cli {

namespace {

ModelSetup SetupOf(Wire& wire, const LlmFlags& flags, os::ProcessRunner& runner) {
  return {wire.config(),
          flags,
          GetEnvironment,
          runner,
          [&wire](const std::string& text) { wire.terminal().Warn(text); },
          [&wire](std::string_view name, std::string_view value) { wire.Hide(name, value); }};
}

// Where the exchanges lie that are replayed: a campaign of this state, or a folder by its path.
std::string RecordFolder(const std::string& state_folder, const std::string& replay) {
  return replay.starts_with('/') ? replay : ExchangeFolder(state_folder, CampaignId{replay});
}

Result<std::unique_ptr<llm::Client>> ClientFor(Wire& wire, const LlmFlags& flags,
                                               os::HttpTransport& http,
                                               const CampaignState& state) {
  const Policy& policy = state.opened->policy;
  ATTUNE_TRY(const std::string folder, wire.StateFolder());
  const std::string own = ExchangeFolder(folder, state.id);
  if (!policy.replay.empty()) return llm::MakeReplay(RecordFolder(folder, policy.replay), own);
  os::PosixProcessRunner runner;
  llm::ClientOptions options;
  ATTUNE_TRY(options.models, ModelProfiles(SetupOf(wire, flags, runner), state.recipe.llm));
  std::vector<std::string> names;
  for (const llm::Profile& profile : options.models) names.push_back(profile.model);
  if (names != policy.models) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} asks {}; the configuration now says {}", state.id.value,
                            Join(policy.models, ", "), EscapeForDisplay(Join(names, ", "))),
                "a campaign keeps its models: give them back, or start a new one");
  }
  options.patience = PatienceOf(wire.config().llm, state.recipe.llm);
  options.folder = own;
  options.on_wait = [&wire](const std::string& line) { wire.terminal().Note(line); };
  return llm::MakeClient(std::move(options), http, wire.clock());
}

}  // namespace

void RunFlags::Declare(Options& options, bool opening) {
  options.Text("--budget", budget_, "H|auto", "GPU-hours for the whole campaign");
  options.Number("--session-budget", session_budget_, "H", "GPU-hours for this session");
  options.Text("--deadline", deadline_, "TIME",
               "start no launch that may end later: 06:00, or RFC 3339");
  options.Duration("--lock-wait", lock_wait_, "wait this long for another writer to leave");
  options.Word("--on-interrupt", on_interrupt_, {"drain", "cancel", "detach"},
               "what the first Ctrl-C does");
  options.Flag("--detach", detach_, "go on without this terminal");
  options.Flag("--in-allocation", in_allocation_,
               "launch inside the Slurm allocation this runs in");
  options.Text("--events", events_, "FILE", "every event as a line of JSON, as db export has it");
  options.Text("--metrics-textfile", metrics_, "FILE", "figures for Prometheus' node exporter");
  options.Word("--approve", approve_, {"each", "none"},
               "each: ask before each candidate's first launch; -y says yes to all");
  options.Flag("--exit-status", exit_status_, "exit 10 when it ended without a gain");
  if (opening) llm_.DeclareOpening(options);
  llm_.Declare(options);
}

Result<std::optional<RunFlags::Budget>> RunFlags::ParseBudget(const std::string& text) {
  if (text.empty()) return std::optional<Budget>();
  if (text == "auto") return std::optional<Budget>(Budget{true, std::nullopt});
  const std::optional<double> hours = ParseDouble(text);
  if (!hours || *hours <= 0) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("--budget must be more than 0 GPU-hours or auto, got {}",
                            EscapeForDisplay(text)));
  }
  return std::optional<Budget>(Budget{false, FromGpuHours(*hours)});
}

Result<std::optional<RunFlags::Budget>> RunFlags::BudgetFlag(Wire& wire) const {
  return ParseBudget(budget_.empty() ? wire.config().budget : budget_);
}

Result<Instant> ParseDeadline(const std::string& text, Instant now) {
  if (text.size() == 5 && text[2] == ':') {
    const std::optional<std::int64_t> hour =
        ParseInt(text[0] == '0' ? text.substr(1, 1) : text.substr(0, 2));
    const std::optional<std::int64_t> minute =
        ParseInt(text[3] == '0' ? text.substr(4, 1) : text.substr(3, 2));
    if (hour && minute && *hour >= 0 && *hour < 24 && *minute >= 0 && *minute < 60) {
      std::time_t seconds = static_cast<std::time_t>(now.ms / 1000);
      std::tm local{};
      localtime_r(&seconds, &local);
      local.tm_hour = static_cast<int>(*hour);
      local.tm_min = static_cast<int>(*minute);
      local.tm_sec = 0;
      local.tm_isdst = -1;
      std::time_t then = std::mktime(&local);
      if (then <= seconds) {
        ++local.tm_mday;
        local.tm_isdst = -1;
        then = std::mktime(&local);
      }
      return Instant{static_cast<std::int64_t>(then) * 1000};
    }
  }
  Result<Instant> parsed = ParseRfc3339(text);
  if (parsed) return parsed;
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("--deadline {}: neither HH:MM nor RFC 3339", EscapeForDisplay(text)),
              "for example --deadline 06:00");
}

Result<SessionFlags> RunFlags::Session(Wire& wire) const {
  SessionFlags flags;
  if (session_budget_) flags.session_budget = FromGpuHours(*session_budget_);
  if (!deadline_.empty()) {
    ATTUNE_TRY(flags.deadline, ParseDeadline(deadline_, wire.clock().Now()));
  }
  flags.lock_wait = lock_wait_.value_or(Millis{0});
  const std::string& word = on_interrupt_.empty() ? wire.config().on_interrupt : on_interrupt_;
  flags.on_interrupt = word == "cancel"   ? OnInterrupt::kCancel
                       : word == "detach" ? OnInterrupt::kDetach
                                          : OnInterrupt::kDrain;
  const std::string progress = wire.progress();
  const bool terminal = wire.terminal().err_is_terminal();
  flags.progress.quiet = wire.flags().quiet || progress == "none";
  flags.progress.live = progress == "bar" || (progress != "plain" && terminal);
  flags.progress.colour = wire.terminal().err_colour();
  flags.events = events_;
  flags.metrics = metrics_;
  flags.exit_status = exit_status_;
  flags.in_allocation = in_allocation_;
  if (approve_ == "each" && !wire.flags().yes) {
    if (detach_ || wire.terminal().flags().no_input || isatty(STDIN_FILENO) == 0) {
      return Fail(ErrorCode::kInvalidInput,
                  "--approve each asks at a terminal, and there is nobody to ask",
                  "-y says yes to all; without --approve nothing is asked");
    }
    flags.approve_each = true;
  }
  if (llm_.budget_usd) {
    flags.llm_budget_usd_micros = static_cast<std::int64_t>(std::llround(*llm_.budget_usd * 1e6));
  }
  flags.open_model = [this, &wire](const CampaignState& state) {
    return ClientFor(wire, llm_, *http_, state);
  };
  return flags;
}

Result<std::optional<int>> RunFlags::LeaveIfAsked(Wire& wire, SessionFlags& session,
                                                  Departure& departure) const {
  if (!detach_) return std::optional<int>();
  ATTUNE_TRY(const std::string state, wire.StateFolder());
  ATTUNE_TRY(const std::optional<int> code, Departure::Leave(wire, departure));
  if (!code) {
    session.progress.live = false;
    session.progress.colour = false;
    session.on_begun = [&departure, state](const CampaignId& id) {
      return departure.Begun(id, state);
    };
  }
  return code;
}

Status RunFlags::ChooseModels(Wire& wire, Store& store, const Recipe& recipe, Policy& policy) {
  ATTUNE_RETURN_IF_ERROR(llm_.Check());
  if (!llm_.replay.empty()) {
    if (llm_.replay.find('/') != std::string::npos) {
      policy.replay = std::filesystem::absolute(llm_.replay).lexically_normal().string();
    } else {
      ATTUNE_TRY(const CampaignRow row, store.FindCampaign(llm_.replay));
      policy.replay = row.id.value;
    }
    ATTUNE_TRY(const auto replay, llm::MakeReplay(RecordFolder(store.folder(), policy.replay), ""));
    policy.models = replay->Models();
    return {};
  }
  os::PosixProcessRunner runner;
  ATTUNE_TRY(const std::vector<llm::Profile> models,
             ModelProfiles(SetupOf(wire, llm_, runner), recipe.llm));
  ATTUNE_TRY(const std::optional<std::int64_t> budget, LlmBudget(llm_, recipe, models));
  (void)budget;
  policy.models.clear();
  for (const llm::Profile& profile : models) policy.models.push_back(profile.model);
  return {};
}

int TellEnd(Wire& wire, const SessionEnd& end) {
  if (wire.flags().json) {
    wire.terminal().Out(SummaryJson(end.state, end.code, end.why) + "\n");
  } else {
    wire.terminal().Out(
        SummaryText(end.state, end.code, end.why, wire.StateFolder().value_or("")));
  }
  return end.code;
}

}  // namespace attune::cli
