#include "literal_scan.h"

#include <gtest/gtest.h>

#include "attune/base/random.h"

namespace attune {
namespace {

TEST(LiteralScan, FindsLiteralsInsideAndAcrossEachOther) {
  const LiteralScan scan({"he", "she", "his", "hers"});
  const LiteralSet found = scan.Find("ushers");
  EXPECT_TRUE(found.Has(0) && found.Has(1) && found.Has(3));
  EXPECT_FALSE(found.Has(2));
  EXPECT_TRUE(scan.Find("").empty());
  EXPECT_TRUE(scan.Find("hi s").empty());
  EXPECT_TRUE(scan.Find(std::string_view("\0h\xffis", 5)).empty());
}

TEST(LiteralScan, AgreesWithPlainSearchOnRandomText) {
  const std::vector<std::string_view> literals = {"a",   "ab",  "bab",    "bc",  "bca", "c",
                                                  "caa", "ccc", "abcabc", "cab", "aaaa"};
  const LiteralScan scan(literals);
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::uint64_t n = random.Below(24); n > 0; --n) {
      text += static_cast<char>('a' + random.Below(4));
    }
    const LiteralSet found = scan.Find(text);
    for (std::size_t i = 0; i < literals.size(); ++i) {
      ASSERT_EQ(found.Has(i), text.find(literals[i]) != std::string::npos)
          << literals[i] << " in " << text;
    }
  }
}

TEST(LiteralSet, AsksForAllAndForAny) {
  LiteralSet a, b, none;
  a.Add(3);
  a.Add(200);
  b.Add(200);
  EXPECT_TRUE(a.HasAll(b));
  EXPECT_FALSE(b.HasAll(a));
  EXPECT_TRUE(b.HasAny(a));
  EXPECT_TRUE(a.HasAll(none));
  EXPECT_FALSE(a.HasAny(none));
}

}  // namespace
}  // namespace attune
