// The last line of a log, whatever the pieces it came in.
#include "log_tail.h"

#include <gtest/gtest.h>

#include <string>

namespace attune {
namespace {

TEST(LogTail, GivesTheLastLineThatSaysAnythingWithItsNumber) {
  const std::string log = "first\nsecond\n  why it died  \n\n \n";
  for (std::size_t piece = 1; piece <= log.size(); ++piece) {
    LogTail tail;
    for (std::size_t at = 0; at < log.size(); at += piece) tail.Feed(log.substr(at, piece));
    const auto last = tail.Last();
    ASSERT_TRUE(last) << piece;
    EXPECT_EQ(last->text, "  why it died");
    EXPECT_EQ(last->number, 3);
  }
}

TEST(LogTail, NeedsNoNewlineAtTheEnd) {
  LogTail tail;
  tail.Feed("one\ntwo");
  EXPECT_EQ(tail.Last()->text, "two");
  EXPECT_EQ(tail.Last()->number, 2);
}

TEST(LogTail, OfABlankLogIsNothing) {
  LogTail tail;
  EXPECT_FALSE(tail.Last());
  tail.Feed("\n \r\n");
  EXPECT_FALSE(tail.Last());
}

TEST(LogTail, CountsTheLinesOfALongLogAndShowsNoRawBytes) {
  LogTail tail;
  for (int i = 0; i < 10'000; ++i) tail.Feed("a line of some length\n");
  tail.Feed("\x1b[31m" + std::string(9'000, 'x') + "\n");
  EXPECT_EQ(tail.Last()->number, 10'001);
  EXPECT_LE(tail.Last()->text.size(), 200u);
  EXPECT_EQ(tail.Last()->text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace attune
