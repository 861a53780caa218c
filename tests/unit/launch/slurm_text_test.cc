#include "slurm_text.h"

#include <gtest/gtest.h>

#include <array>

namespace attune::launch {
namespace {

// A line as squeue --Format pads it; the widths are those of QueueFormat.
std::string Line(const std::array<std::string, 12>& cells) {
  constexpr std::array<std::size_t, 12> kWidths = {24, 24, 140, 24,  24,   24,
                                                   12, 16, 400, 256, 4096, 256};
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string cell = cells[i];
    cell.resize(kWidths[i], ' ');
    out += cell;
  }
  return out + "\n";
}

const std::array<std::string, 12> kRunning = {
    "4711",       "RUNNING",    "attune-c-l001",
    "1796068209", "1796068211", "1796071811",
    "0",          "0",          "cpu=16,mem=200M,node=2,billing=16,gres/gpu=16,gres/gpu:h100=16",
    "n1",         "n[1-2]",     "None"};

TEST(ParseQueue, ReadsEveryColumn) {
  const ParsedJobs parsed = ParseQueue(Line(kRunning));
  ASSERT_EQ(parsed.jobs.size(), 1U);
  const SlurmJob& job = parsed.jobs[0];
  EXPECT_EQ(job.id, "4711");
  EXPECT_EQ(job.state, "RUNNING");
  EXPECT_EQ(job.name, "attune-c-l001");
  EXPECT_EQ(job.submitted, 1796068209);
  EXPECT_EQ(job.started, 1796068211);
  EXPECT_EQ(job.ended, 1796071811);
  EXPECT_EQ(job.restarts, 0);
  EXPECT_EQ(job.gpus, 16);
  EXPECT_EQ(job.batch_host, "n1");
  EXPECT_EQ(job.nodes, "n[1-2]");
  EXPECT_EQ(job.reason, "");
}

TEST(ParseQueue, TakesTheExitFromTheStatusOfWait) {
  auto cells = kRunning;
  cells[7] = "768";
  EXPECT_EQ(ParseQueue(Line(cells)).jobs.at(0).code, 3);
  cells[7] = "11";
  EXPECT_EQ(ParseQueue(Line(cells)).jobs.at(0).signal, 11);
  EXPECT_FALSE(ParseQueue(Line(cells)).jobs.at(0).code.has_value());
  cells[7] = "0:9";  // as other releases print it
  EXPECT_EQ(ParseQueue(Line(cells)).jobs.at(0).signal, 9);
}

TEST(ParseQueue, AJobThatWaitsHasNoTimesAndNoNodes) {
  const ParsedJobs parsed = ParseQueue(Line({"7", "PENDING", "t", "1796068209", "N/A", "N/A", "0",
                                             "0", "cpu=2,node=2", "n/a", "", "PartitionConfig"}));
  ASSERT_EQ(parsed.jobs.size(), 1U);
  EXPECT_EQ(parsed.jobs[0].started, 0);
  EXPECT_EQ(parsed.jobs[0].nodes, "");
  EXPECT_EQ(parsed.jobs[0].reason, "PartitionConfig");
  EXPECT_FALSE(parsed.jobs[0].gpus.has_value());
}

TEST(ParseQueue, CountsWhatIsNoJob) {
  auto shifted = kRunning;
  shifted[0] = "4711_3";  // an array of somebody
  const std::string text =
      Line(kRunning) + "slurm_load_jobs error: Socket timed out\n" + Line(shifted);
  const ParsedJobs parsed = ParseQueue(text);
  EXPECT_EQ(parsed.jobs.size(), 1U);
  EXPECT_EQ(parsed.bad, 2);
}

TEST(ParseQueue, RefusesACutValue) {
  auto cells = kRunning;
  cells[10] = std::string(4096, 'n');
  EXPECT_EQ(ParseQueue(Line(cells)).bad, 1);
}

TEST(ParseQueue, EveryPrefixIsReadOrCountedNeverBoth) {
  const std::string line = Line(kRunning);
  for (std::size_t n = 0; n < line.size(); ++n) {
    const ParsedJobs parsed = ParseQueue(line.substr(0, n));
    EXPECT_LE(static_cast<int>(parsed.jobs.size()) + parsed.bad, 1) << n;
  }
}

TEST(ParseAccounting, ReadsAttemptsAndTheFirstWordOfAState) {
  const ParsedJobs parsed = ParseAccounting(
      "12|CANCELLED by 0|t|1796068209|None|1796068300|0:0|cpu=2|None assigned\n"
      "12|REQUEUED|t|1796068209|1796068211|1796068222|0:0|cpu=2,gres/gpu=8,node=1|n1\n");
  ASSERT_EQ(parsed.jobs.size(), 2U);
  EXPECT_EQ(parsed.bad, 0);
  EXPECT_EQ(parsed.jobs[0].state, "CANCELLED");
  EXPECT_EQ(parsed.jobs[0].cancelled_by, 0);
  EXPECT_EQ(parsed.jobs[1].cancelled_by, std::nullopt);
  EXPECT_EQ(parsed.jobs[0].started, 0);
  EXPECT_EQ(parsed.jobs[0].nodes, "");
  EXPECT_EQ(parsed.jobs[1].gpus, 8);
  EXPECT_EQ(parsed.jobs[1].ended, 1796068222);
}

TEST(ParseSubmitted, TakesTheIdOnlyWhereALineIsOne) {
  EXPECT_EQ(ParseSubmitted("4711\n"), "4711");
  EXPECT_EQ(ParseSubmitted("4711;big\n"), "4711");
  EXPECT_EQ(ParseSubmitted("Welcome to the cluster\n4711\n"), "4711");
  EXPECT_FALSE(ParseSubmitted("Submitted batch job 4711\n").has_value());
  EXPECT_FALSE(ParseSubmitted("").has_value());
}

TEST(IsRefusal, OnlyReasonsThatLeaveNothingQueued) {
  EXPECT_TRUE(IsRefusal(1,
                        "sbatch: error: Batch job submission failed: Invalid partition name "
                        "specified\n"));
  EXPECT_TRUE(IsRefusal(255, "sbatch: unrecognized option '--foo'\n"));
  EXPECT_TRUE(IsRefusal(1,
                        "sbatch: error: Batch job submission failed: Requested node "
                        "configuration is not available\n"));
  for (const char* unknown :
       {"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
        "failure)",
        "sbatch: error: Slurm controller not responding, sleeping and retrying", "Killed", ""}) {
    EXPECT_FALSE(IsRefusal(1, unknown)) << unknown;
  }
  EXPECT_FALSE(IsRefusal(0, "Invalid partition name specified"));
}

TEST(ConfigSeconds, ReadsSecondsAndMinutes) {
  const std::string config =
      "KillWait                = 30 sec\nOverTimeLimit           = 2 min\n"
      "MinJobAge               = soon\nClusterName             = big\n";
  EXPECT_EQ(ConfigSeconds(config, "KillWait"), 30);
  EXPECT_EQ(ConfigSeconds(config, "OverTimeLimit"), 120);
  EXPECT_FALSE(ConfigSeconds(config, "MinJobAge").has_value());
  EXPECT_FALSE(ConfigSeconds(config, "Absent").has_value());
  EXPECT_EQ(ConfigText(config, "ClusterName"), "big");
}

}  // namespace
}  // namespace attune::launch
