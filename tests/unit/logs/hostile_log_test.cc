// Logs that nobody meant to be read: junk, floods, no newline for 100 MB.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "attune/base/random.h"
#include "attune/base/text.h"
#include "news_text.h"

namespace attune {
namespace {

using testing_logs::Megatron;
using testing_logs::NewsOf;
using testing_logs::ShowSteps;

std::string GoodLog(int steps) {
  std::string log;
  for (int i = 1; i <= steps; ++i) {
    log += fmt::format(
        " [2026-11-30 20:00:{:02}] iteration {:8}/     100 | elapsed time per iteration (ms): "
        "{}.5 | lm loss: {}.25E+00 | grad norm: 0.5 | number of skipped iterations:   0 | number "
        "of nan iterations:   0 |\n",
        i % 60, i, 100 + i, i % 9);
  }
  return log;
}

TEST(HostileLog, JunkLinesBetweenStepsChangeNoStep) {
  const std::string good = GoodLog(40);
  const std::string expected = ShowSteps(NewsOf(Megatron(), good).steps);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    std::string log;
    for (const std::string_view line : SplitLines(good)) {
      for (std::uint64_t n = random.Below(3); n > 0; --n) {
        for (std::uint64_t bytes = random.Below(200); bytes > 0; --bytes) {
          log += static_cast<char>(random.Below(256));
        }
        log += '\n';
      }
      log += std::string(line) + "\n";
    }
    EXPECT_EQ(ShowSteps(NewsOf(Megatron(), log).steps), expected) << "seed " << seed;
  }
}

// A torn line may lose its step; it never makes one of its own.
TEST(HostileLog, JunkInsideALineMakesNoStepThatWasNotPrinted) {
  const std::string log = GoodLog(20);
  const std::vector<Step> good = NewsOf(Megatron(), log).steps;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::string junk;
    for (std::uint64_t bytes = 1 + random.Below(20); bytes > 0; --bytes) {
      junk += static_cast<char>(128 + random.Below(128));
    }
    std::string torn = log;
    torn.insert(random.Below(log.size()), junk);
    const std::vector<Step> steps = NewsOf(Megatron(), torn).steps;
    EXPECT_GE(steps.size() + 2, good.size()) << "seed " << seed;
    for (const Step& s : steps) {
      ASSERT_GE(s.iteration, 1);
      ASSERT_LE(s.iteration, 20);
      EXPECT_EQ(s.printed_ms, good[static_cast<std::size_t>(s.iteration - 1)].printed_ms);
    }
  }
}

TEST(HostileLog, ALineWithoutEndIsHeldInBoundedMemory) {
  auto parser = MakeLogParser(Megatron());
  const std::string chunk(std::size_t{1} << 20, 'x');
  (*parser)->Feed(chunk, -1);
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i < 32; ++i) (*parser)->Feed(chunk, -1);
  EXPECT_LT(mallinfo2().uordblks, before + (std::size_t{256} << 10));
  (*parser)->Feed("\n" + GoodLog(2), -1);
  EXPECT_EQ((*parser)->Take().steps.size(), 2U);
  EXPECT_EQ((*parser)->Notes().at("long_line"), 1);
}

TEST(HostileLog, FloodsOfDistinctSourcesAreHeldInBoundedMemory) {
  auto parser = MakeLogParser(Megatron());
  std::size_t before = 0;
  for (int i = 0; i < 60'000; ++i) {
    (*parser)->Feed(fmt::format("[rank{}]: Traceback (most recent call last):\n[rank{}]:   File "
                                "\"x.py\", line 1, in function_with_a_long_name_{}\n",
                                i, i, i),
                    -1);
    if (i == 20'000) before = mallinfo2().uordblks;
  }
  EXPECT_LT(mallinfo2().uordblks, before + (std::size_t{64} << 10));
}

TEST(HostileLog, EvidenceIsBoundedAndSafeToPrint) {
  const LogNews news = NewsOf(
      Megatron(), "RuntimeError: CUDA out of memory \x01\x9b[31m" + std::string(5000, 'z') + "\n");
  ASSERT_TRUE(news.failure);
  EXPECT_LE(news.failure->line.size(), 400U);
  EXPECT_NE(news.failure->line.find("\\x01"), std::string::npos);
  for (const char c : news.failure->line) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(HostileLog, BadUtf8IsCountedAndColourTakenOff) {
  auto parser = MakeLogParser(Megatron());
  std::string log = GoodLog(2);
  log.insert(0, "\x1b[32m");
  log += "caf\xe9\nna\xc3\xafve\n";
  (*parser)->Feed(log, -1);
  EXPECT_EQ((*parser)->Take().steps.size(), 2U);
  EXPECT_EQ((*parser)->Notes().at("bad_utf8"), 1);
}

}  // namespace
}  // namespace attune
