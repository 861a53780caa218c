// attune_fake_train: the fake training (fake_training.h) as a real process in real time.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/text.h"
#include "fakes/fake_training.h"

namespace attune::fakes {
namespace {

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n <= 0) {
      _exit(74);
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Under its name only once it is whole: a test that waits for the file reads it at once.
void WriteFile(const std::string& path, const std::string& bytes) {
  const std::string part = path + "." + std::to_string(getpid());
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) {
    _exit(73);
  }
  WriteAll(fd, bytes);
  close(fd);
  if (rename(part.c_str(), path.c_str()) != 0) {
    _exit(73);
  }
}

// In its own session, and orphaned by a second fork: beyond the reach of a signal to the group.
void StartEscapedChild(Millis lifetime) {
  if (fork() != 0) {
    return;
  }
  setsid();
  if (fork() != 0) {
    _exit(0);
  }
  signal(SIGTERM, SIG_IGN);
  const timespec t{lifetime.count() / 1000, (lifetime.count() % 1000) * 1'000'000};
  nanosleep(&t, nullptr);
  _exit(0);
}

int Main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  std::map<std::string, std::string> env;
  std::string env_bytes, args_bytes;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry(*e);
    env_bytes += entry + '\0';
    env[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
  }
  for (const std::string& a : args) {
    args_bytes += a + '\0';
  }
  std::string run = env["ATTUNE_RUN_DIR"];
  run = run.substr(run.rfind('/') + 1);
  const std::string load = FlagValue(args, "load");
  const FakeTraining t =
      PlanFakeTraining(args, env, run, load.empty() ? 0 : LatestCheckpoint(load));

  SystemClock clock;
  const Millis begun = clock.Monotonic();
  if (!t.echo_args.empty()) {
    WriteFile(t.echo_args, args_bytes);
  }
  if (!t.echo_env.empty()) {
    WriteFile(t.echo_env, env_bytes);
  }
  if (t.ignore_term) {
    signal(SIGTERM, SIG_IGN);
  }
  if (const auto mb = ParseInt(FlagValue(args, "fake-eat-mb"))) {
    // Touched, so that a limit on memory has something to count.
    static std::vector<char> eaten;
    eaten.assign(static_cast<std::size_t>(*mb) << 20, 'm');
    asm volatile("" : : "r"(eaten.data()) : "memory");  // else nobody would miss it
  }
  if (t.child > Millis{0}) {
    StartEscapedChild(t.child);
  }
  if (!t.write_path.empty()) {
    WriteFile(t.write_path, "written by a hook\n");
  }
  if (t.print_mb > 0) {
    const std::string block = std::string(1023, 'x') + "\n";
    std::string megabyte;
    for (int i = 0; i < 1024; ++i) {
      megabyte += block;
    }
    for (int i = 0; i < t.print_mb; ++i) {
      WriteAll(1, megabyte);
    }
  }
  std::size_t saved = 0;
  const auto save_up_to = [&](Millis at) {
    for (; saved < t.saves.size() && t.saves[saved].first <= at; ++saved) {
      WriteCheckpoint(t.save_dir, t.saves[saved].second);
    }
  };
  const auto sleep_until = [&](Millis at) {
    for (Millis left; (left = begun + at - clock.Monotonic()) > Millis{0};) {
      const timespec nap{left.count() / 1000, (left.count() % 1000) * 1'000'000};
      nanosleep(&nap, nullptr);
    }
  };
  for (const FakeEvent& e : t.events) {
    sleep_until(e.at);
    save_up_to(e.at);
    WriteAll(1, e.line + "\n");
  }
  if (t.ends_at == Millis::max()) {
    for (;;) {
      pause();
    }
  }
  sleep_until(t.ends_at);
  save_up_to(t.ends_at);
  if (t.signal) {
    const rlimit none{0, 0};  // no core file in the middle of a test
    setrlimit(RLIMIT_CORE, &none);
    signal(*t.signal, SIG_DFL);
    raise(*t.signal);
  }
  return t.exit_code.value_or(0);
}

}  // namespace
}  // namespace attune::fakes

int main(int argc, char** argv) { return attune::fakes::Main(argc, argv); }
