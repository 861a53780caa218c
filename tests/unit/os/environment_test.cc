#include <gtest/gtest.h>

#include "attune/os/process.h"

namespace attune::os {
namespace {

TEST(WithoutScheduler, TakesWhatASurroundingAllocationLeaks) {
  const Environment env = {
      {"SLURM_CPU_BIND", "1"}, {"SBATCH_PARTITION", "x"}, {"SQUEUE_FORMAT", "%i"},
      {"SACCT_FORMAT", "x"},   {"PMIX_RANK", "0"},        {"PMI_RANK", "0"},
      {"PATH", "/bin"},        {"MY_SLURM_NOTE", "kept"}, {"SLURMISH", "kept too"}};
  EXPECT_EQ(WithoutScheduler(env),
            (Environment{{"PATH", "/bin"}, {"MY_SLURM_NOTE", "kept"}, {"SLURMISH", "kept too"}}));
}

TEST(NodeEnvironment, KeepsTheMachinesNamesAndNothingOfOurs) {
  const Environment env = {{"PATH", "/bin"},        {"HOME", "/h"},
                           {"LANG", "C.UTF-8"},     {"LC_ALL", "C"},
                           {"TMPDIR", "/t"},        {"ATTUNE_LLM_API_KEY", "secret"},
                           {"LD_PRELOAD", "/x.so"}, {"PYTHONPATH", "/p"},
                           {"SLURM_JOB_ID", "1"},   {"AWS_SECRET_ACCESS_KEY", "s"}};
  EXPECT_EQ(NodeEnvironment(env), (Environment{{"PATH", "/bin"},
                                               {"HOME", "/h"},
                                               {"LANG", "C.UTF-8"},
                                               {"LC_ALL", "C"},
                                               {"TMPDIR", "/t"}}));
}

}  // namespace
}  // namespace attune::os
