#include <fmt/core.h>
#include <gtest/gtest.h>

#include "news_text.h"

namespace attune {
namespace {

using testing_logs::Megatron;
using testing_logs::NewsOf;

// An iteration line with `middle` between the batch size and the counters.
std::string Line(int n, const std::string& middle, int skipped = 0, int nan = 0) {
  return fmt::format(
      " iteration {:8}/      50 | consumed samples: {:12} | elapsed time per iteration (ms): 250.5 "
      "| learning rate: 1.0E-04 | global batch size:    16 |{} number of skipped iterations: {:3} "
      "| number of nan iterations: {:3} |\n",
      n, n * 16, middle, skipped, nan);
}
constexpr const char* kLoss = " lm loss: 2.5E+00 | loss scale: 1.0 | grad norm: 0.7 |";
constexpr const char* kNoLoss = " loss scale: 1.0 | grad norm: 0.7 |";

LogNews Read(const std::string& log) { return NewsOf(Megatron(), log); }

TEST(MegatronLine, GivesEveryFieldAStepHas) {
  const LogNews news = Read(Line(7, kLoss));
  ASSERT_EQ(news.steps.size(), 1U);
  const Step& s = news.steps[0];
  EXPECT_EQ(s.iteration, 7);
  EXPECT_EQ(s.printed_ms, 250.5);
  EXPECT_EQ(s.losses, (std::map<std::string, double>{{"lm loss", 2.5}}));
  EXPECT_EQ(s.grad_norm, 0.7);
  EXPECT_EQ(s.learning_rate, 1e-4);
  EXPECT_EQ(s.global_batch, 16);
  EXPECT_EQ(s.consumed_samples, 112);
  EXPECT_FALSE(s.nan || s.cut);
  EXPECT_EQ(news.last_grad_norm, "0.7");
}

TEST(MegatronLine, AMissingLossIsNanEvenWhenTheCounterSaysZero) {
  EXPECT_TRUE(Read(Line(1, kNoLoss)).steps.at(0).nan);
  // A side loss is no loss.
  EXPECT_TRUE(
      Read(Line(1, " load_balancing_loss: 1.0 | z_loss: 0.1 | mtp_1 loss: 2.0 |")).steps.at(0).nan);
}

TEST(MegatronLine, AMissingLossOfAllSkippedIterationsIsNotNan) {
  EXPECT_FALSE(Read(Line(10, kNoLoss, 10)).steps.at(0).nan);
  const LogNews two = Read(Line(10, kLoss) + Line(20, kNoLoss, 10));
  EXPECT_FALSE(two.steps.at(1).nan);
}

TEST(MegatronLine, AMissingLossOfPartlySkippedIterationsIsNan) {
  EXPECT_TRUE(Read(Line(10, kLoss) + Line(20, kNoLoss, 9)).steps.at(1).nan);
}

TEST(MegatronLine, NanIsBelievedWhereverItIsPrinted) {
  EXPECT_TRUE(Read(Line(1, " lm loss: nan |")).steps.at(0).nan);
  EXPECT_TRUE(Read(Line(1, " lm loss: 2.0 | grad norm: nan |")).steps.at(0).nan);
  EXPECT_TRUE(Read(Line(1, " lm loss: 2.0 | grad norm: inf |")).steps.at(0).nan);
  EXPECT_TRUE(Read(Line(1, kLoss, 0, 1)).steps.at(0).nan);
  EXPECT_EQ(Read(Line(1, " lm loss: 2.0 | grad norm: nan |")).last_grad_norm, "nan");
  EXPECT_FALSE(Read(Line(1, " lm loss: 2.0 | grad norm: nan |")).steps.at(0).grad_norm.has_value());
}

TEST(MegatronLine, ALossOfZeroIsALoss) {
  const LogNews news = Read(Line(1, " lm loss: 0.0E+00 |"));
  EXPECT_FALSE(news.steps.at(0).nan);
  EXPECT_EQ(news.steps.at(0).losses.at("lm loss"), 0.0);
}

TEST(MegatronLine, OneNanStepIsAFailureAndTwoInARowAreFatal) {
  const LogNews one = Read(Line(1, kLoss) + Line(2, kNoLoss));
  ASSERT_TRUE(one.failure);
  EXPECT_EQ(one.failure->cls, "nan");
  EXPECT_EQ(one.failure->line_number, 2);
  EXPECT_FALSE(one.failure->fatal);
  const LogNews two = Read(Line(1, kNoLoss) + Line(2, kNoLoss));
  EXPECT_EQ(two.failure->line_number, 1);
  EXPECT_TRUE(two.failure->fatal);
  const LogNews apart = Read(Line(1, kNoLoss) + Line(2, kLoss) + Line(3, kNoLoss));
  EXPECT_FALSE(apart.failure->fatal);
}

TEST(MegatronLine, ALineThatIsNotWholeIsNoStep) {
  const std::string whole = Line(3, kLoss);
  for (std::size_t n = 0; n + 2 < whole.size(); ++n) {
    // Cut with a newline: another rank's output tore it, or the node died.
    const LogNews news = Read(whole.substr(0, n) + "\n");
    for (const Step& s : news.steps) {
      // Only a cut behind a bar can look whole; then what stands is right.
      EXPECT_EQ(s.iteration, 3) << n;
      EXPECT_EQ(s.printed_ms, 250.5) << n;
    }
    if (!news.steps.empty()) {
      EXPECT_TRUE(whole.substr(0, n).ends_with('|') || whole.substr(0, n).ends_with("| ")) << n;
    }
  }
}

TEST(MegatronLine, TheLastLineCountsWithoutItsNewlineOnlyWhenItIsWhole) {
  const std::string whole = Line(3, kLoss);
  EXPECT_EQ(Read(whole.substr(0, whole.size() - 1)).steps.size(), 1U);
  EXPECT_EQ(Read(whole.substr(0, whole.size() - 2)).steps.size(), 0U);
}

TEST(MegatronLine, ValuesThatCannotBeAreRefused) {
  for (const char* bad :
       {" lm loss: 2.0E+00E |", " lm loss: 0x10 |", " lm loss: 1,5 |", " grad norm: much |",
        " lm loss: 2 | elapsed time per iteration (ms): 3 |", " lm loss: 1e999 |"}) {
    EXPECT_TRUE(Read(Line(1, bad)).steps.empty()) << bad;
  }
  EXPECT_TRUE(Read(" iteration 1/ 5 | elapsed time per iteration (ms): 0.0 | lm loss: 1.0 |\n")
                  .steps.empty());
  EXPECT_TRUE(Read(" iteration 1/ 5 | elapsed time per iteration (ms): -3 | lm loss: 1.0 |\n")
                  .steps.empty());
  EXPECT_TRUE(Read(" iteration 99999999999999999999/ 5 | elapsed time per iteration (ms): 3.0 |\n")
                  .steps.empty());
}

TEST(MegatronSteps, AStepPrintedTwiceCountsOnceAndIsNoted) {
  auto parser = MakeLogParser(Megatron());
  (*parser)->Feed(Line(1, kLoss) + Line(2, kLoss) + Line(2, kLoss) + Line(3, kLoss), -1);
  EXPECT_EQ((*parser)->Take().steps.size(), 3U);
  EXPECT_EQ((*parser)->Notes().at("duplicate_step"), 1);
}

TEST(MegatronSteps, ANumberThatGoesBackIsGivenAsItIsAndNoted) {
  auto parser = MakeLogParser(Megatron());
  (*parser)->Feed(Line(8, kLoss) + Line(9, kLoss) + Line(1, " lm loss: 9.0 |"), -1);
  const LogNews news = (*parser)->Take();
  ASSERT_EQ(news.steps.size(), 3U);
  EXPECT_EQ(news.steps[2].iteration, 1);
  EXPECT_EQ((*parser)->Notes().at("step_went_back"), 1);
}

TEST(MegatronSteps, EachHasTheStampOfTheBytesThatEndItsLine) {
  auto parser = MakeLogParser(Megatron());
  const std::string line = Line(1, kLoss);
  (*parser)->Feed(line.substr(0, 40), 100);
  (*parser)->Feed(line.substr(40), 350);
  (*parser)->Feed(Line(2, kLoss), -1);
  const LogNews news = (*parser)->Take();
  EXPECT_EQ(news.steps.at(0).arrival_ms, 350);
  EXPECT_EQ(news.steps.at(1).arrival_ms, -1);
}

TEST(MegatronSteps, TheStepAfterACheckpointOrAnEvaluationIsCut) {
  const LogNews news = Read(
      Line(1, kLoss) + "saving checkpoint at iteration       1 to /c\n" + Line(2, kLoss) +
      Line(3, kLoss) + " validation loss at iteration 3 | lm loss value: 2.0 |\n" + Line(4, kLoss));
  ASSERT_EQ(news.steps.size(), 4U);
  EXPECT_FALSE(news.steps[0].cut);
  EXPECT_TRUE(news.steps[1].cut);
  EXPECT_FALSE(news.steps[2].cut);
  EXPECT_TRUE(news.steps[3].cut);
}

TEST(MegatronSteps, ProfiledStepsAreCutUntilOneAfterTheEnd) {
  const LogNews news =
      Read(Line(1, kLoss) + "Capture range started in the application.\n" + Line(2, kLoss) +
           Line(3, kLoss) + "Capture range ended in the application.\n" + Line(4, kLoss) +
           Line(5, kLoss));
  std::vector<bool> cut;
  for (const Step& s : news.steps) cut.push_back(s.cut);
  EXPECT_EQ(cut, (std::vector<bool>{false, true, true, true, false}));
}

TEST(MegatronMemory, IsTheMaximumOverRanksAndOnlyNewsWhenItGrew) {
  auto parser = MakeLogParser(Megatron());
  const auto memory = [](int rank, int allocated, int reserved) {
    return fmt::format(
        "[Rank {}] (after 1 iterations) memory (MB) | allocated: 10.5 | max allocated: {}.0 | "
        "reserved: 20.0 | max reserved: {}.0\n",
        rank, allocated, reserved);
  };
  (*parser)->Feed(memory(0, 100, 300) + memory(4, 200, 250), -1);
  const LogNews first = (*parser)->Take();
  ASSERT_TRUE(first.memory);
  EXPECT_EQ(first.memory->max_allocated, 200 << 20);
  EXPECT_EQ(first.memory->max_reserved, 300 << 20);
  (*parser)->Feed(memory(1, 150, 300), -1);
  EXPECT_FALSE((*parser)->Take().memory);
  (*parser)->Feed("[Rank 1] (after 1 iterations) memory (MB) | max allocated: lots\n", -1);
  EXPECT_FALSE((*parser)->Take().memory);
  EXPECT_EQ((*parser)->Notes().at("odd_memory_line"), 1);
}

TEST(MegatronArguments, TheBlockIsNewsOnceItIsComplete) {
  auto parser = MakeLogParser(Megatron());
  (*parser)->Feed(
      "------------------------ arguments ------------------------\n"
      "  lr .............................................. 0.0003\n",
      -1);
  EXPECT_FALSE((*parser)->Take().argument_block);
  (*parser)->Feed("-------------------- end of arguments ---------------------\n", -1);
  const LogNews news = (*parser)->Take();
  ASSERT_TRUE(news.argument_block);
  EXPECT_EQ(news.argument_block->at("lr"), "0.0003");
  EXPECT_FALSE((*parser)->Take().argument_block);
}

TEST(MegatronArguments, ABlockThatNeverEndsIsNoBlock) {
  auto parser = MakeLogParser(Megatron());
  (*parser)->Feed("------------------------ arguments ------------------------\n  a ...... 1\n",
                  -1);
  (*parser)->Finish();
  EXPECT_FALSE((*parser)->Take().argument_block);
  EXPECT_EQ((*parser)->Notes().at("unfinished_arguments"), 1);
}

TEST(DetectDialect, TellsBridgeFromMegatronAndNeitherFromText) {
  EXPECT_EQ(DetectDialect(Line(1, kLoss)), "megatron-lm");
  EXPECT_EQ(DetectDialect("Starting training loop at iteration 0\n" + Line(1, kLoss)),
            "megatron-bridge");
  EXPECT_EQ(DetectDialect(Line(1, kLoss) + "Step Time : 1.5s GPU utilization: 400.0\n"),
            "megatron-bridge");
  EXPECT_EQ(DetectDialect("hello\nworld iteration 5\n"), "");
  EXPECT_EQ(DetectDialect(""), "");
}

TEST(DetectDialect, KnowsEveryDialectByItsSteps) {
  const std::pair<const char*, const char*> samples[] = {
      {"step: 1  loss: 8.0  grad_norm: 4.0  memory: 2.00GiB(2%)  tps: 4,794\n", "torchtitan"},
      {"step 9 | epoch 0 | loss 0.5 | grad_norm 1.5 | mem 24.9 GiB | tps 11.5\n", "automodel"},
      {"(TaskRunner pid=1) step:1 - actor/pg_loss:0.1 - timing_s/step:9.5\n", "verl"},
      {"Step 1 | loss:2.0 lr:2e-05 tokens_per_second_per_gpu:57.5\n", "torchtune"},
      {"[INFO] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]\n", "deepspeed"},
  };
  for (const auto& [line, dialect] : samples) {
    EXPECT_EQ(DetectDialect(line), dialect) << line;
    // Megatron's forks print other engines' lines too.
    EXPECT_EQ(DetectDialect(line + Line(1, kLoss)), "megatron-lm") << line;
  }
}

}  // namespace
}  // namespace attune
