// Options that `run` and `resume` share, and what they mean.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attune/os/http.h"
#include "detach.h"
#include "llm_setup.h"
#include "options.h"
#include "session.h"
#include "wire.h"

namespace attune::cli {

class RunFlags {
 public:
  // `opening`: also what a campaign is opened with and keeps.
  void Declare(Options& options, bool opening);
  // kInvalidInput with the flag named. What it returns refers to this object and to `wire`.
  Result<SessionFlags> Session(Wire& wire) const;
  // Which models a campaign asks, or whose record: into its policy. An error before anything is
  // opened: no endpoint, no key, a limit in dollars for a model without a price.
  Status ChooseModels(Wire& wire, Store& store, const Recipe& recipe, Policy& policy);
  bool NamesModel() const { return llm_.Any(); }
  // "auto" or GPU-hours above 0; unset when the flag was not given.
  struct Budget {
    bool automatic = false;
    std::optional<GpuMillis> amount;
  };
  static Result<std::optional<Budget>> ParseBudget(const std::string& text);
  Result<std::optional<Budget>> BudgetFlag(Wire& wire) const;
  // With --detach: the exit code in the process that stays at the terminal; in the one that goes
  // on, nothing, and `session` tells `departure` when the campaign has begun. Before anything is
  // opened: two processes must not share a database.
  Result<std::optional<int>> LeaveIfAsked(Wire& wire, SessionFlags& session,
                                          Departure& departure) const;

 private:
  std::string budget_, deadline_, on_interrupt_, events_, metrics_;
  std::optional<double> session_budget_;
  std::optional<Millis> lock_wait_;
  bool exit_status_ = false, detach_ = false, in_allocation_ = false;
  std::string approve_;
  LlmFlags llm_;
  std::unique_ptr<os::HttpTransport> http_ = os::MakeHttpTransport();
};

// The next instant at which the clock on the wall shows HH:MM here, or an RFC 3339 time.
Result<Instant> ParseDeadline(const std::string& text, Instant now);

// Prints the summary of a session's end and gives its exit code.
int TellEnd(Wire& wire, const SessionEnd& end);

}  // namespace attune::cli
