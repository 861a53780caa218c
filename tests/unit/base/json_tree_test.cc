#include "attune/base/json_tree.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

std::string ErrorOf(const std::string& text, JsonBounds bounds = {}) {
  return ReadJson(text, bounds).error;
}

TEST(ReadJson, KeepsNumbersAndTheOrderOfKeysAsTheyAreWritten) {
  const std::string text =
      R"({"z":1e-5,"a":[18446744073709551615,0.10,true,null],"s":"q\"\u0007é"})";
  const JsonReading read = ReadJson(text, {});
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(WriteJson(read.root), text);
  EXPECT_EQ(read.root.Find("z")->text, "1e-5");
  EXPECT_EQ(read.root.Find("missing"), nullptr);
}

TEST(ReadJson, RefusesWhatIsNotOneWholeText) {
  for (const char* text : {"", "{", R"({"a":1)", R"({"a":1} {"b":2})", R"({"a":1}x)", "[1,]",
                           R"({"a":NaN})", R"({"a":1e400})", R"({"a":"\ud800"})", "{'a':1}"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
  }
  EXPECT_NE(ErrorOf("\xEF\xBB\xBF{}"), "");
  EXPECT_NE(ErrorOf("{\"a\":\"\xff\"}"), "");
}

TEST(ReadJson, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(ErrorOf(R"({"to":1,"to":2})"), "the key \"to\" stands twice in one object");
  EXPECT_EQ(ErrorOf(R"({"a":{"to":1},"b":{"to":2}})"), "");
}

TEST(ReadJson, HoldsItsBounds) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(ErrorOf(deep, {.bytes = 1 << 20, .depth = 64}), "nested deeper than 64");
  EXPECT_EQ(ErrorOf("[1,2,3]", {.values = 3}), "more than 3 values");
  EXPECT_EQ(ErrorOf("[1,2,3]", {.bytes = 6}), "longer than 6 bytes");
}

}  // namespace
}  // namespace attune
