// Fixture of the tests over real processes on this machine.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "fakes/one_run.h"
#include "run_folder.h"
#include "unit/launch/local_under_test.h"

namespace attune {

// Runs the real command behind a prefix, or answers for it.
class BentRunner final : public os::ProcessRunner {
 public:
  std::vector<std::string> prefix;
  bool lose_the_answer = false;
  Result<os::CommandResult> Run(const os::Command& command) override {
    os::Command bent = command;
    bent.argv.insert(bent.argv.begin(), prefix.begin(), prefix.end());
    auto result = real_.Run(bent);
    if (lose_the_answer) {
      return Fail(ErrorCode::kTimeout, "no answer in time");
    }
    return result;
  }

 private:
  os::PosixProcessRunner real_;
};

class LocalLauncher : public testing::Test {
 protected:
  LocalLauncher() : options_(QuickOptions(folder_.path() + "/runs", &clock_, &runner_)) {
    Restart();
  }
  ~LocalLauncher() override {
    for (const std::string& token : tokens_) {  // a failed test must leave no process either
      for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", token)) {
        kill(pid, SIGKILL);
      }
    }
  }
  void Restart() { launcher_ = MakeLocalLauncher(options_); }

  LaunchSpec SpecOf(std::vector<std::string> argv) {
    // Unique on the machine: processes are looked for by token.
    tokens_.push_back("attune-t" + std::to_string(getpid()) + "-l" +
                      std::to_string(tokens_.size()));
    return fakes::OneRun(Token(tokens_.back()), std::move(argv), folder_.path());
  }
  LaunchSpec Train(const std::vector<std::string>& args) {
    std::vector<std::string> argv = {BuiltProgram("attune_fake_train"), "--fake-step-ms", "2",
                                     "--fake-startup-ms", "2"};
    argv.insert(argv.end(), args.begin(), args.end());
    return SpecOf(std::move(argv));
  }
  LaunchHandle Submit(const LaunchSpec& spec) {
    auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<Bound>(*submitted)) {
      ADD_FAILURE() << (submitted ? std::string("not bound") : submitted.error().message);
      return {};
    }
    return std::get<Bound>(*submitted).handle;
  }
  std::string RefusedWhy(const LaunchSpec& spec) {
    auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<SubmitRefused>(*submitted)) {
      ADD_FAILURE() << "not refused";
      return {};
    }
    return std::get<SubmitRefused>(*submitted).why;
  }

  struct Watch {
    std::map<int, std::string> logs;  // a rank, of the first stage
    Observation last;
  };
  Watch WatchUntil(const LaunchHandle& h, const std::string& text = {}) {
    Watch w;
    for (int i = 0; i < 10'000; ++i) {
      auto seen = launcher_->Observe({&h, 1}, clock_.Now() + Millis{10'000}, 1);
      if (!seen) {
        ADD_FAILURE() << seen.error().message;
        break;
      }
      w.last = std::move(seen->front());
      for (const StageObservation& s : w.last.stages) {
        for (const LogChunk& chunk : s.log) {
          w.logs[chunk.rank] += chunk.bytes;
        }
      }
      if (w.last.state == Observation::State::kEnded ||
          (!text.empty() && w.logs[0].find(text) != std::string::npos)) {
        break;
      }
    }
    return w;
  }
  Watch RunToEnd(const LaunchSpec& spec) {
    Watch w = WatchUntil(Submit(spec));
    EXPECT_EQ(w.last.state, Observation::State::kEnded);
    return w;
  }
  std::string Folder(const LaunchSpec& spec) const {
    return folder_.path() + "/runs/" + spec.token.value;
  }
  launch::ExitRecord ExitOf(const LaunchSpec& spec, const std::string& stage = "r001") const {
    const auto bytes = launch::ReadRecordFile(Folder(spec) + "/a0/" + stage + "/exit");
    const auto exit = bytes ? launch::DecodeExit(*bytes) : std::nullopt;
    EXPECT_TRUE(exit.has_value());
    return exit.value_or(launch::ExitRecord{});
  }
  static pid_t PidOf(const LaunchHandle& h) {
    return static_cast<pid_t>(ParseInt(h.id).value_or(0));
  }
  static std::vector<pid_t> Carriers(const LaunchSpec& spec) {
    return os::ProcessesCarrying("ATTUNE_TOKEN", spec.token.value);
  }
  static void ExpectNoProcessLeft(const LaunchSpec& spec) {
    // The wrapper itself still has to exit after its exit record.
    for (int i = 0; i < 400 && !Carriers(spec).empty(); ++i) {
      usleep(5'000);
    }
    EXPECT_TRUE(Carriers(spec).empty());
  }
  static std::vector<std::string> SplitNul(const std::string& bytes) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto end = bytes.find('\0', at);
      out.push_back(bytes.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  BentRunner runner_;
  LocalOptions options_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<std::string> tokens_;
};

}  // namespace attune
