// The job in which attune itself runs: what Slurm is given, and that it is asked for once.
#include "attune/launch/slurm_hold.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "unit/launch/local_under_test.h"

namespace attune {
namespace {

// sbatch and squeue of a cluster with at most one job of the name.
class OneJobSlurm final : public os::ProcessRunner {
 public:
  using os::ProcessRunner::Run;
  std::string state;            // of that job; empty: there is none
  bool takes = true;            // what it is given
  os::CommandResult sbatch_says;
  std::vector<std::string> submitted;  // argv of the last sbatch
  bool down = false;

  Result<os::CommandResult> Run(const os::Command& command) override {
    os::CommandResult r;
    if (command.argv[0] == "sbatch") {
      submitted = command.argv;
      if (takes) state = "PENDING";
      return sbatch_says;
    }
    if (down) return Fail(ErrorCode::kTimeout, "squeue did not end in time");
    if (!state.empty()) r.out = Line();
    return r;
  }

 private:
  std::string Line() const {
    std::string out;
    const auto cell = [&](std::string text, std::size_t width) {
      text.resize(width, ' ');
      out += text;
    };
    cell("77", 24);
    cell(state, 24);
    cell("attune-hold-1", 140);
    for (int i = 0; i < 3; ++i) cell("N/A", 24);
    cell("0", 12);
    cell("0", 16);
    cell("cpu=1", 400);
    cell("n/a", 256);
    cell("", 4096);
    cell("Resources", 256);
    return out + "\n";
  }
};

class AskForAllocationTest : public testing::Test {
 protected:
  AskForAllocationTest() {
    options_.clock = &clock_;
    options_.runner = &slurm_;
    options_.environment = os::Environment{{"PATH", "/usr/bin:/bin"}};
    options_.run_root = folder_.path() + "/runs";
    options_.nodes = 2;
    options_.sbatch = {{"partition", "main"}, {"time", "00:05:00"}};
    spec_.name = "attune-hold-1";
    spec_.time = std::chrono::hours(4);
    spec_.argv = {"/opt/attune", "run", "it's.yaml", "--in-allocation"};
    spec_.workdir = "/home/me/my job";
    spec_.folder = folder_.path() + "/held";
    slurm_.sbatch_says.out = "77\n";
  }
  bool Said(const std::string& word) const {
    return std::count(slurm_.submitted.begin(), slurm_.submitted.end(), word) == 1;
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  OneJobSlurm slurm_;
  SlurmOptions options_;
  HoldSpec spec_;
};

TEST_F(AskForAllocationTest, TheScriptIsAttuneWithItsWordsInQuotes) {
  spec_.exclude = {"n7", "n9"};
  const auto job = AskForAllocation(options_, spec_);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(*job, "77");
  EXPECT_EQ(os::ReadFileBounded(slurm_.submitted.back(), 10'000).value_or(""),
            R"(#!/bin/sh
# Made by attune: this job holds the nodes, and every launch is a step of it.
cd '/home/me/my job' || exit 2
set -- \
  '/opt/attune' \
  'run' \
  'it'\''s.yaml' \
  '--in-allocation'
exec "$@"
)");
  // Its own time, the recipe's nodes and options, and no second start by the site.
  for (const char* word :
       {"--time=240", "--nodes=2", "--exclusive", "--partition=main", "--no-requeue",
        "--export=NONE", "--job-name=attune-hold-1", "--no-kill", "--exclude=n7,n9"}) {
    EXPECT_TRUE(Said(word)) << word;
  }
}

TEST_F(AskForAllocationTest, OneThatWaitsOrRunsIsNotAskedForAgain) {
  slurm_.state = "RUNNING";
  const auto job = AskForAllocation(options_, spec_);
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(job.error().message.find("job 77 is asked for already"), std::string::npos)
      << job.error().message;
  EXPECT_TRUE(slurm_.submitted.empty());
  slurm_.state = "COMPLETED";  // the one before
  EXPECT_TRUE(AskForAllocation(options_, spec_).has_value());
}

TEST_F(AskForAllocationTest, TheQueueDecidesWhatBecameOfASubmit) {
  slurm_.sbatch_says.exit_code = 1;
  slurm_.sbatch_says.err = "sbatch: error: Batch job submission failed: Socket timed out\n";
  slurm_.sbatch_says.out = "";
  EXPECT_EQ(AskForAllocation(options_, spec_).value_or("none"), "77");
  slurm_.state = "";
  slurm_.takes = false;
  const auto job = AskForAllocation(options_, spec_);
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().code, ErrorCode::kUnavailable);
}

TEST_F(AskForAllocationTest, ARefusalIsSaidAndWithoutAnAnswerNothingIsSubmitted) {
  slurm_.takes = false;
  slurm_.sbatch_says = {};
  slurm_.sbatch_says.exit_code = 1;
  slurm_.sbatch_says.err =
      "sbatch: error: Batch job submission failed: Invalid partition name specified\n";
  const auto refused = AskForAllocation(options_, spec_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(refused.error().message.find("Invalid partition"), std::string::npos);
  slurm_.down = true;
  slurm_.submitted.clear();
  const auto silent = AskForAllocation(options_, spec_);
  ASSERT_FALSE(silent.has_value());
  EXPECT_TRUE(slurm_.submitted.empty());
}

}  // namespace
}  // namespace attune
