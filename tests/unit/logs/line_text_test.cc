#include "line_text.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

TEST(StripAnsi, RemovesWholeSequencesAndKeepsTheText) {
  EXPECT_EQ(StripAnsi("\x1b[1;31mred\x1b[0m"), "red");
  EXPECT_EQ(StripAnsi("a\x1b[2Kb\x1b[?25lc"), "abc");
  EXPECT_EQ(StripAnsi("\x1b]0;title\x07text\x1b]8;;url\x1b\\link"), "textlink");
  EXPECT_EQ(StripAnsi("\x1b(Bplain\x1b"
                      "7"),
            "plain");
}

TEST(StripAnsi, ABrokenSequenceLosesItsEscapeByteOnly) {
  EXPECT_EQ(StripAnsi("x\x1b"), "x");
  EXPECT_EQ(StripAnsi("x\x1b[12"), "x[12");
  EXPECT_EQ(StripAnsi("x\x1b]0;never ended"), "x]0;never ended");
}

TEST(StripPrefixes, TakesOffWhatLaunchersAdd) {
  EXPECT_EQ(StripPrefixes("  text").rest, "text");
  EXPECT_EQ(StripPrefixes("[rank12]: text").rest, "text");
  EXPECT_EQ(StripPrefixes("[rank1]:[E626 06:24:44] text").rest, "[E626 06:24:44] text");
  EXPECT_EQ(StripPrefixes("[default0]:text").rest, "text");
  EXPECT_EQ(StripPrefixes(" 3: text").rest, "text");
  EXPECT_EQ(StripPrefixes("(TaskRunner pid=16, ip=10.0.0.1) text").rest, "text");
  EXPECT_EQ(StripPrefixes("stdout: [2026-01-05 12:20:29,100] text").rest, "text");
  EXPECT_EQ(StripPrefixes("2026-01-05T12:20:29.123456789Z text").rest, "text");
  EXPECT_EQ(StripPrefixes("2026-01-05T12:20:29+02:00 text").rest, "text");
  EXPECT_EQ(StripPrefixes(" 7: [rank3]: [2026-01-05 12:20:29.000001] text").rest, "text");
}

TEST(StripPrefixes, LeavesWhatOnlyResemblesOne) {
  for (const std::string_view text :
       {"[Rank 0] (after 1 iterations) memory", "10:39:44 text", "[rank]: text", "[rank1] text",
        "(actor) text", "(after 10 iterations) text", "2026-01-05 text", "12:text"}) {
    EXPECT_EQ(StripPrefixes(text).rest, text);
  }
}

TEST(StripPrefixes, KeepsSourcesApartAndKnowsOnlyGlobalRanks) {
  const Prefix rank = StripPrefixes("[rank3]: x"), task = StripPrefixes("3: x"),
               role = StripPrefixes("[default3]: x"), none = StripPrefixes("x");
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(StripPrefixes("0: [rank3]: x").rank, 3);
  // srun's number is a task, the role's is local to its node: neither is a rank.
  EXPECT_FALSE(task.rank || role.rank || none.rank);
  EXPECT_EQ(none.source, 0);
  EXPECT_NE(rank.source, task.source);
  EXPECT_NE(rank.source, role.source);
  EXPECT_NE(task.source, role.source);
  EXPECT_EQ(StripPrefixes("5: [rank3]: x").source, rank.source);
}

TEST(TakeNumber, StopsAtWhatIsNoDigitAndRefusesWhatDoesNotFit) {
  std::string_view s = "12abc";
  EXPECT_EQ(TakeNumber(s), 12);
  EXPECT_EQ(s, "abc");
  EXPECT_EQ(TakeNumber(s), std::nullopt);
  s = "999999999999999999";
  EXPECT_EQ(TakeNumber(s), 999999999999999999);
  s = "1999999999999999999";
  EXPECT_EQ(TakeNumber(s), std::nullopt);
}

}  // namespace
}  // namespace attune
