#include "signals.h"

#include <csignal>

namespace attune::cli {
namespace {

volatile std::sig_atomic_t g_interrupts = 0;
volatile std::sig_atomic_t g_detaches = 0;
volatile std::sig_atomic_t g_continued = 0;

void OnSignal(int signal) {
  if (signal == SIGINT) {
    g_interrupts = g_interrupts + 1;
  } else if (signal == SIGCONT) {
    g_continued = 1;
  } else {
    g_detaches = g_detaches + 1;
  }
}

void Install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a wait ends at once
  sigaction(signal, &action, nullptr);
}

}  // namespace

Signals::Signals(OnInterrupt first) : first_(first) {
  g_interrupts = 0;
  g_detaches = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) Install(signal, OnSignal);
  Install(SIGPIPE, SIG_IGN);
}

Signals::~Signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) Install(signal, SIG_DFL);
}

bool WentOn() {
  const bool went_on = g_continued != 0;
  g_continued = 0;
  return went_on;
}

std::optional<std::string> Signals::Next() {
  if (g_detaches > 0 && !told_detach_) {
    told_detach_ = true;
    return "detach";
  }
  if (told_interrupts_ >= g_interrupts) return std::nullopt;
  if (++told_interrupts_ >= 2) return "cancel";
  switch (first_) {
    case OnInterrupt::kDrain:
      return "drain";
    case OnInterrupt::kCancel:
      return "cancel";
    case OnInterrupt::kDetach:
      return "detach";
  }
  return "drain";
}

}  // namespace attune::cli
