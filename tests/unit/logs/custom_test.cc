#include <gtest/gtest.h>

#include "news_text.h"

namespace attune {
namespace {

LogSpec Pattern(const std::string& pattern) { return {"custom", pattern}; }
LogNews Read(const std::string& pattern, const std::string& log) {
  return testing_logs::NewsOf(Pattern(pattern), log);
}
std::string ErrorOf(const LogSpec& spec) {
  const auto parser = MakeLogParser(spec);
  return parser ? "" : parser.error().message;
}

constexpr const char* kPlain = R"(step (?P<step>\d+) loss (?P<loss>\S+) ms (?P<ms>[\d.]+))";

TEST(CustomPattern, ReadsItsNamedGroups) {
  const LogNews news =
      Read(R"(^(?P<step>\d+),(?P<loss>\S+),(?P<loss_z>\S+),(?P<s>\S+),(?P<tokens>\d+),)"
           R"((?P<grad_norm>\S+),(?P<peak_mb>\d+)$)",
           "0012,2.5,0.25,1.5,4096,0.75,512\n");
  ASSERT_EQ(news.steps.size(), 1U);
  const Step& s = news.steps[0];
  EXPECT_EQ(s.iteration, 12);
  EXPECT_EQ(s.losses, (std::map<std::string, double>{{"loss", 2.5}, {"z", 0.25}}));
  EXPECT_EQ(s.printed_ms, 1500);
  EXPECT_EQ(s.tokens, 4096);
  EXPECT_EQ(s.grad_norm, 0.75);
  EXPECT_EQ(news.memory->max_allocated, std::int64_t{512} << 20);
}

TEST(CustomPattern, AnchorsSeeTheLineWithAndWithoutALaunchersPrefix) {
  const std::string pattern = R"(^epoch (?P<step>\d+) took (?P<ms>\d+)$)";
  EXPECT_EQ(Read(pattern, "epoch 1 took 30\n").steps.size(), 1U);
  EXPECT_EQ(Read(pattern, "[rank0]: epoch 1 took 30\n").steps.size(), 1U);
  EXPECT_EQ(
      Read(R"(^\[rank0\]: epoch (?P<step>\d+) took (?P<ms>\d+)$)", "[rank0]: epoch 1 took 30\n")
          .steps.size(),
      1U);
}

TEST(CustomPattern, NanAndInfinityMarkTheStep) {
  EXPECT_TRUE(Read(kPlain, "step 1 loss nan ms 5\n").steps.at(0).nan);
  EXPECT_TRUE(Read(kPlain, "step 1 loss inf ms 5\n").steps.at(0).nan);
  EXPECT_EQ(Read(kPlain, "step 1 loss nan ms 5\n").failure->cls, "nan");
}

TEST(CustomPattern, ValuesThatAreNoNumbersMakeNoStep) {
  auto parser = MakeLogParser(Pattern(kPlain));
  (*parser)->Feed("step 1 loss high ms 5\nstep 2 loss 1.0 ms 0\nstep 3 loss 1.0 ms 1.2.3\n", -1);
  EXPECT_TRUE((*parser)->Take().steps.empty());
  EXPECT_EQ((*parser)->Notes().at("odd_value"), 3);
}

// "loss 1.2" may be the beginning of "loss 1.234": only the newline tells.
TEST(CustomPattern, AnUnfinishedLineIsNoStep) {
  EXPECT_TRUE(Read(kPlain, "step 1 loss 1.5 ms 12").steps.empty());
  EXPECT_EQ(Read(kPlain, "step 1 loss 1.5 ms 12\n").steps.size(), 1U);
}

TEST(CustomPattern, OptionalGroupsMayBeAbsent) {
  const LogNews news =
      Read(R"(step (?P<step>\d+)( loss (?P<loss>\S+))? ms (?P<ms>\d+))", "step 4 ms 20\n");
  ASSERT_EQ(news.steps.size(), 1U);
  EXPECT_TRUE(news.steps[0].losses.empty());
}

TEST(CustomPattern, IsRefusedWithTheReason) {
  EXPECT_NE(ErrorOf(Pattern("")).find("needs a pattern"), std::string::npos);
  EXPECT_NE(ErrorOf(Pattern("(")).find("log pattern"), std::string::npos);
  EXPECT_NE(ErrorOf(Pattern(R"((?P<step>\d+))")).find("'loss' or 'ms'"), std::string::npos);
  EXPECT_NE(ErrorOf(Pattern(R"((?P<loss>\d+))")).find("'step'"), std::string::npos);
  EXPECT_NE(ErrorOf(Pattern(R"((?P<step>\d+) (?P<speed>\d+))")).find("'speed'"), std::string::npos);
  EXPECT_NE(ErrorOf(Pattern(R"((?P<step>\d+) (?P<ms>\d+) (?=x))")), "");
  EXPECT_NE(ErrorOf({"tensorboard", ""}).find("'tensorboard'"), std::string::npos);
}

TEST(CustomPattern, FailuresAndArgumentDumpsAreReadAsInAnyLog) {
  const LogNews news = Read(kPlain,
                            "------------------------ arguments ------------------------\n"
                            "  lr .............................................. 0.0003\n"
                            "-------------------- end of arguments ---------------------\n"
                            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n");
  EXPECT_EQ(news.argument_block->at("lr"), "0.0003");
  EXPECT_EQ(news.failure->cls, "oom_gpu");
}

}  // namespace
}  // namespace attune
