#include "run_flags.h"

#include <fmt/core.h>

#include <ctime>

#include "attune/base/text.h"
#include "exit_code.h"
#include "json_out.h"
#include "summary.h"

namespace attune::cli {

void RunFlags::Declare(Options& options) {
  options.Text("--budget", budget_, "H|auto", "GPU-hours for the whole campaign");
  options.Number("--session-budget", session_budget_, "H", "GPU-hours for this session");
  options.Text("--deadline", deadline_, "TIME",
               "start no launch that may end later: 06:00, or RFC 3339");
  options.Duration("--lock-wait", lock_wait_, "wait this long for another writer to leave");
  options.Word("--on-interrupt", on_interrupt_, {"drain", "cancel", "detach"},
               "what the first Ctrl-C does");
  options.Flag("--exit-status", exit_status_, "exit 10 when it ended without a gain");
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
  flags.exit_status = exit_status_;
  return flags;
}

int TellEnd(Wire& wire, const SessionEnd& end) {
  if (wire.flags().json) {
    wire.terminal().Out(SummaryJson(end.state, end.code, end.why) + "\n");
  } else {
    wire.terminal().Out(SummaryText(end.state, end.code, end.why));
  }
  return end.code;
}

}  // namespace attune::cli
