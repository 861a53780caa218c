// Ctrl-C and friends as wishes: the first SIGINT drains, the second cancels our jobs; SIGTERM and
// SIGHUP detach (cli.md section 3.6). Handlers only count.
#pragma once

#include <optional>
#include <string>

namespace attune::cli {

enum class OnInterrupt { kDrain, kCancel, kDetach };

// Whether the process was stopped (Ctrl-Z) and goes on since this was asked last: what it drew on
// the terminal has moved.
bool WentOn();

class Signals {
 public:
  explicit Signals(OnInterrupt first);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The next wish that has not been told yet: "drain", "cancel", "detach".
  std::optional<std::string> Next();

 private:
  OnInterrupt first_;
  int told_interrupts_ = 0;
  bool told_detach_ = false;
};

}  // namespace attune::cli
