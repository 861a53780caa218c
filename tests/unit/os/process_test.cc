#include "attune/os/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace attune::os {
namespace {

Result<CommandResult> Sh(const std::string& script, Command command = {}) {
  command.argv = {"/bin/sh", "-c", script};
  PosixProcessRunner runner;
  return runner.Run(command);
}

TEST(PosixProcessRunner, GivesBackCodeAndBothStreamsAsBytes) {
  const auto r = Sh("printf 'a\\000b'; printf err >&2; exit 7");
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->exit_code, 7);
  EXPECT_EQ(r->out, std::string("a\0b", 3));
  EXPECT_EQ(r->err, "err");
  EXPECT_FALSE(r->signal.has_value());
}

TEST(PosixProcessRunner, ArgumentsPassNoShell) {
  PosixProcessRunner runner;
  const std::vector<std::string> argv = {"printf", "%s|", "$(id)",     "a b",
                                         "'\"`",   "-n",  "\xc3\xa9\n"};
  const auto r = runner.Run(argv, Millis{10'000});
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->out, "$(id)|a b|'\"`|-n|\xc3\xa9\n|");
}

TEST(PosixProcessRunner, SaysWhichSignalEndedIt) {
  const auto r = Sh("kill -9 $$");
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->signal, 9);
  EXPECT_EQ(r->exit_code, 137);
}

TEST(PosixProcessRunner, FeedsInputLargerThanAPipe) {
  Command command;
  command.input = std::string(3'000'000, 'x');
  command.max_output = 10'000'000;
  const auto r = Sh("cat", command);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->out, command.input);
}

TEST(PosixProcessRunner, InputThatNobodyReadsDoesNotKillUs) {
  Command command;
  command.input = std::string(3'000'000, 'x');
  const auto r = Sh("exit 4", command);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->exit_code, 4);
}

TEST(PosixProcessRunner, OutputBeyondTheCapIsReadAndDropped) {
  Command command;
  command.max_output = 1000;
  const auto r = Sh("head -c 1000000 /dev/zero", command);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->exit_code, 0);
  EXPECT_EQ(r->out.size(), 1000U);
  EXPECT_TRUE(r->out_cut);
  EXPECT_FALSE(r->err_cut);
}

TEST(PosixProcessRunner, ATimeLimitReachesTheWholeGroupAndThoseWhoIgnoreTerm) {
  Command command;
  command.env = OwnEnvironment();
  (*command.env)["ATTUNE_TEST_MARK"] = "timeout-" + std::to_string(getpid());
  command.timeout = Millis{150};
  command.grace = Millis{100};
  const auto r = Sh("trap '' TERM; sleep 100 & sleep 100; sleep 100", command);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, ErrorCode::kTimeout);
  // The kernel may take a moment to bury them.
  std::vector<pid_t> left;
  for (int i = 0; i < 200; ++i) {
    left = ProcessesCarrying("ATTUNE_TEST_MARK", command.env->at("ATTUNE_TEST_MARK"));
    if (left.empty()) {
      break;
    }
    usleep(5'000);
  }
  EXPECT_TRUE(left.empty());
}

TEST(PosixProcessRunner, ASignalThatIsHandledEndsAnInterruptibleWaitOnly) {
  struct sigaction handle {
  }, before{};
  handle.sa_handler = [](int) {};
  sigaction(SIGUSR1, &handle, &before);
  PosixProcessRunner runner;
  Command command;
  // The child signals us when it runs; then it would go on for long.
  command.argv = {"/bin/sh", "-c", "kill -USR1 $PPID; exec sleep \"$0\"", "600"};
  command.timeout = Millis{600'000};
  command.interruptible = true;
  const auto ended = runner.Run(command);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, ErrorCode::kUnavailable);
  command.interruptible = false;
  command.argv.back() = "0.05";
  const auto waited = runner.Run(command);
  ASSERT_TRUE(waited.has_value());
  EXPECT_EQ(waited->exit_code, 0);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(PosixProcessRunner, ADaemonThatKeepsThePipesOpenDoesNotHoldTheAnswer) {
  Command command;
  command.env = OwnEnvironment();
  (*command.env)["ATTUNE_TEST_MARK"] = "daemon-" + std::to_string(getpid());
  const auto r = Sh("echo hello; setsid sleep 100 &", command);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->out, "hello\n");
  EXPECT_LT(r->wall, Millis{20'000});
  for (const pid_t pid :
       ProcessesCarrying("ATTUNE_TEST_MARK", command.env->at("ATTUNE_TEST_MARK"))) {
    kill(pid, SIGKILL);
  }
}

TEST(PosixProcessRunner, WhatCannotStartIsAnError) {
  PosixProcessRunner runner;
  Command command;
  command.argv = {"attune-no-such-program"};
  EXPECT_EQ(runner.Run(command).error().code, ErrorCode::kNotFound);
  command.argv = {"/etc/passwd"};
  EXPECT_EQ(runner.Run(command).error().code, ErrorCode::kDenied);
  command.argv = {"/bin/true"};
  command.workdir = "/attune-no-such-folder";
  EXPECT_EQ(runner.Run(command).error().code, ErrorCode::kNotFound);
  command.workdir.clear();
  command.argv = {"/bin/echo", std::string("a\0b", 3)};
  EXPECT_EQ(runner.Run(command).error().code, ErrorCode::kInvalidInput);
  command.argv = {};
  EXPECT_EQ(runner.Run(command).error().code, ErrorCode::kInvalidInput);
}

TEST(PosixProcessRunner, TheChildInheritsNoDescriptorAndOnlyTheGivenEnvironment) {
  const int leak = dup(1);  // without CLOEXEC
  Command command;
  command.env = Environment{{"ONLY", "this"}};
  command.argv = {"/bin/sh", "-c", "ls /proc/self/fd | wc -l; env | grep -v '^PWD=\\|^_='"};
  (*command.env)["PATH"] = "/usr/bin:/bin";
  PosixProcessRunner runner;
  const auto r = runner.Run(command);
  close(leak);
  ASSERT_TRUE(r.has_value());
  // 0, 1, 2, and the one with which ls reads the folder.
  EXPECT_EQ(r->out.substr(0, r->out.find('\n')), "4");
  EXPECT_NE(r->out.find("ONLY=this"), std::string::npos);
  EXPECT_EQ(r->out.find("HOME="), std::string::npos);
}

// A stopped child that lives until the guard is gone.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) {
        pause();
      }
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ProcessIdentity, ParsesAStatLineWithAHostileName) {
  const auto s = ParseProcessStat(
      "4242 (a) R 1 (b) S 17 4242 4243 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2");
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->state, 'S');
  EXPECT_EQ(s->parent, 17);
  EXPECT_EQ(s->group, 4242);
  EXPECT_EQ(s->session, 4243);
  EXPECT_EQ(s->start_ticks, 987654);
  EXPECT_FALSE(ParseProcessStat("").has_value());
  EXPECT_FALSE(ParseProcessStat("4242 (x").has_value());
  EXPECT_FALSE(ParseProcessStat("4242 (x) S 1 2 3").has_value());
}

TEST(ProcessIdentity, ASignalNeverHitsAStranger) {
  const Child child;
  const auto id = Identify(child.pid());
  ASSERT_TRUE(id.has_value());
  EXPECT_TRUE(IsAlive(*id));
  ProcessId earlier = *id;
  earlier.start_ticks -= 1;  // the pid was handed out again
  EXPECT_FALSE(IsAlive(earlier));
  EXPECT_FALSE(*SendSignal(earlier, SIGKILL));
  ProcessId other_boot = *id;
  other_boot.boot_id = "00000000-0000-0000-0000-000000000000";
  EXPECT_FALSE(IsAlive(other_boot));
  EXPECT_FALSE(*SendSignal(other_boot, SIGKILL));
  EXPECT_TRUE(IsAlive(*id));
  EXPECT_TRUE(*SendSignal(*id, SIGKILL));
}

TEST(ProcessIdentity, AZombieIsNotAlive) {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  const auto id = Identify(pid);
  ASSERT_TRUE(id.has_value());
  kill(pid, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);  // dead, not reaped
  EXPECT_EQ(kill(pid, 0), 0);  // what a plain existence check would say
  EXPECT_FALSE(IsAlive(*id));
  waitpid(pid, nullptr, 0);
}

TEST(ProcessesCarrying, FindsTheWholeEntryOnly) {
  const std::string value = "mark-" + std::to_string(getpid());
  const auto start = [&](const std::string& entry) {
    const pid_t pid = fork();
    if (pid == 0) {
      std::string text = entry;
      char* argv[] = {const_cast<char*>("sleep"), const_cast<char*>("100"), nullptr};
      char* envp[] = {text.data(), nullptr};
      execve("/bin/sleep", argv, envp);
      _exit(1);
    }
    return pid;
  };
  const std::vector<pid_t> pids = {start("T=" + value), start("T=" + value + "0"),
                                   start("XT=" + value), start("U=T=" + value)};
  std::vector<pid_t> found;
  for (int i = 0; i < 400 && found.empty(); ++i) {
    usleep(5'000);  // until the exec has happened
    found = ProcessesCarrying("T", value);
  }
  EXPECT_EQ(found, std::vector<pid_t>{pids[0]});
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

TEST(ValuesCarried, NamesEachValueOnce) {
  std::vector<pid_t> children;
  for (const char* value : {"one", "two", "two"}) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ready[1], 1);
      const std::string mark = std::string("ATTUNE_TEST_VALUE=") + value;
      const char* const env[] = {mark.c_str(), "PATH=/usr/bin:/bin", nullptr};
      execle("/bin/sh", "sh", "-c", "echo; exec sleep 600", nullptr, env);
      _exit(1);
    }
    children.push_back(pid);
    close(ready[1]);
    char line = 0;
    EXPECT_EQ(read(ready[0], &line, 1), 1);
    close(ready[0]);
  }
  EXPECT_EQ(ValuesCarried("ATTUNE_TEST_VALUE"), (std::set<std::string>{"one", "two"}));
  EXPECT_TRUE(ValuesCarried("ATTUNE_TEST_VALU").empty());
  for (const pid_t pid : children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

TEST(Descendants, FindsGrandchildren) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild != 0) {
      const ssize_t n = write(ends[1], &grandchild, sizeof grandchild);
      _exit(n == sizeof grandchild ? (pause(), 0) : 1);
    }
    pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  const auto below = Descendants(getpid());
  EXPECT_NE(std::find(below.begin(), below.end(), child), below.end());
  EXPECT_NE(std::find(below.begin(), below.end(), grandchild), below.end());
  kill(grandchild, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace attune::os
