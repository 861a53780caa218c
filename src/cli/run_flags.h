// Options that `run` and `resume` share, and what they mean.
#pragma once

#include <optional>
#include <string>

#include "options.h"
#include "session.h"
#include "wire.h"

namespace attune::cli {

class RunFlags {
 public:
  void Declare(Options& options);
  // kInvalidInput with the flag named.
  Result<SessionFlags> Session(Wire& wire) const;
  // "auto" or GPU-hours above 0; unset when the flag was not given.
  struct Budget {
    bool automatic = false;
    std::optional<GpuMillis> amount;
  };
  static Result<std::optional<Budget>> ParseBudget(const std::string& text);
  Result<std::optional<Budget>> BudgetFlag(Wire& wire) const;

 private:
  std::string budget_, deadline_, on_interrupt_;
  std::optional<double> session_budget_;
  std::optional<Millis> lock_wait_;
  bool exit_status_ = false;
};

// The next instant at which the clock on the wall shows HH:MM here, or an RFC 3339 time.
Result<Instant> ParseDeadline(const std::string& text, Instant now);

// Prints the summary of a session's end and gives its exit code.
int TellEnd(Wire& wire, const SessionEnd& end);

}  // namespace attune::cli
