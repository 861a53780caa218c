#include "attune/base/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attune/base/random.h"

namespace attune {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Trim, RemovesAsciiSpaceAtBothEndsOnly) {
  EXPECT_EQ(Trim(" \t\r\n a b \v\f"), "a b");
  EXPECT_EQ(Trim(" \n "), "");
  EXPECT_EQ(Trim(""), "");
  EXPECT_EQ(Trim("\xc2\xa0x"), "\xc2\xa0x");  // a no-break space is text
}

TEST(Split, GivesOnePartMoreThanSeparators) {
  EXPECT_EQ(Split("a,b,,c", ','), (Parts{"a", "b", "", "c"}));
  EXPECT_EQ(Split("", ','), (Parts{""}));
  EXPECT_EQ(Split(",", ','), (Parts{"", ""}));
  EXPECT_EQ(Split("abc", ','), (Parts{"abc"}));
}

TEST(SplitLines, TakesBothLineEndsAndNoLastEmptyLine) {
  EXPECT_EQ(SplitLines("a\nb\r\nc"), (Parts{"a", "b", "c"}));
  EXPECT_EQ(SplitLines("a\n"), (Parts{"a"}));
  EXPECT_EQ(SplitLines("a\n\nb\n"), (Parts{"a", "", "b"}));
  EXPECT_EQ(SplitLines("\n"), (Parts{""}));
  EXPECT_EQ(SplitLines(""), (Parts{}));
  EXPECT_EQ(SplitLines("a\rb\r"), (Parts{"a\rb\r"}));  // a progress bar's return ends no line
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(Join({"a", "", "b"}, ", "), "a, , b");
  EXPECT_EQ(Join({"a"}, ", "), "a");
  EXPECT_EQ(Join({}, ", "), "");
}

TEST(Split, JoinUndoesIt) {
  Random random(9);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (std::uint64_t n = random.Below(20); n > 0; --n) {
      text += ",ab"[random.Below(3)];
    }
    std::vector<std::string> parts;
    for (const std::string_view part : Split(text, ',')) {
      parts.emplace_back(part);
    }
    EXPECT_EQ(Join(parts, ","), text);
  }
}

TEST(IsAscii, SeesTheHighBit) {
  EXPECT_TRUE(IsAscii(std::string_view("\0\x7f", 2)));
  EXPECT_FALSE(IsAscii("\x80"));
  EXPECT_FALSE(IsAscii("é"));
}

TEST(IsPrintableAscii, IsSpaceToTilde) {
  EXPECT_TRUE(IsPrintableAscii(" ~"));
  EXPECT_TRUE(IsPrintableAscii(""));
  for (const char* text : {"\x1f", "\x7f", "\n", "\t", "é", "\xff"}) {
    EXPECT_FALSE(IsPrintableAscii(text));
  }
}

const std::vector<std::string>& NotUtf8() {
  static const std::vector<std::string> texts = {"\x80",              // continuation alone
                                                 "\xc0\x80",          // NUL in two bytes
                                                 "\xc1\xbf",          // overlong
                                                 "\xe0\x9f\xbf",      // overlong
                                                 "\xf0\x8f\xbf\xbf",  // overlong
                                                 "\xed\xa0\x80",      // surrogate
                                                 "\xed\xbf\xbf",      // surrogate
                                                 "\xf4\x90\x80\x80",  // above U+10FFFF
                                                 "\xf5\x80\x80\x80",
                                                 "\xff",
                                                 "\xc3",
                                                 "\xe2\x82",
                                                 "\xf0\x9f\x99",
                                                 "\xc3(",
                                                 "\xe2(\xa1",
                                                 "a\xfe"};
  return texts;
}

TEST(IsValidUtf8, TakesTheEdgesOfEachLength) {
  for (const char* text :
       {"", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << EscapeForDisplay(text);
  }
}

TEST(IsValidUtf8, RefusesWhatIsNot) {
  for (const std::string& text : NotUtf8()) {
    EXPECT_FALSE(IsValidUtf8(text));
    EXPECT_FALSE(IsValidUtf8("ok " + text + " ok"));
  }
}

TEST(EscapeForDisplay, ShowsControlAndBidirectionalCharacters) {
  EXPECT_EQ(EscapeForDisplay("a\nb\r\x1b[31m\t\x7f"), "a\\x0ab\\x0d\\x1b[31m\\x09\\x7f");
  EXPECT_EQ(EscapeForDisplay(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(EscapeForDisplay("x\u202ey\u2066z\u200f\u061c"),
            "x\\u{202e}y\\u{2066}z\\u{200f}\\u{061c}");
  EXPECT_EQ(EscapeForDisplay("\u0085\u2028\ufeff\u200b"), "\\u{0085}\\u{2028}\\u{feff}\\u{200b}");
  EXPECT_EQ(EscapeForDisplay("\U000e0041"), "\\u{0e0041}");
}

TEST(EscapeForDisplay, KeepsOrdinaryText) {
  EXPECT_EQ(EscapeForDisplay("C:\\dir 'naïve' 漢字 🙂"), "C:\\dir 'naïve' 漢字 🙂");
}

TEST(EscapeForDisplay, ReplacesBadBytes) {
  EXPECT_EQ(EscapeForDisplay("a\xff\xfe"), "a\ufffd\ufffd");
  EXPECT_EQ(EscapeForDisplay("\xc3"), "\ufffd");
}

TEST(EscapeForDisplay, CutsBetweenCharactersAndSaysSo) {
  EXPECT_EQ(EscapeForDisplay("abcdef", 6), "abcdef");
  EXPECT_EQ(EscapeForDisplay("abcdefg", 6), "abc...");
  EXPECT_EQ(EscapeForDisplay("ab漢字漢字", 6), "ab...");
  EXPECT_EQ(EscapeForDisplay("ab\n\n", 8), "ab...");  // never half of an escape
  EXPECT_EQ(EscapeForDisplay("abc", 2), "..");
  EXPECT_EQ(EscapeForDisplay("abc", 0), "");
}

TEST(EscapeForDisplay, IsSafeAndBoundedForAnyBytes) {
  Random random(13);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes;
    for (std::uint64_t n = random.Below(60); n > 0; --n) {
      bytes += static_cast<char>(random.Below(256));
    }
    const std::size_t limit = random.Below(80);
    const std::string shown = EscapeForDisplay(bytes, limit);
    EXPECT_LE(shown.size(), limit);
    EXPECT_TRUE(IsValidUtf8(shown));
    EXPECT_TRUE(
        std::none_of(shown.begin(), shown.end(), [](char c) { return c >= 0 && c < 0x20; }));
    EXPECT_EQ(EscapeForDisplay(shown, limit), shown);  // nothing left to escape
  }
}

TEST(EditDistance, CountsInsertionsDeletionsReplacements) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("micro_batchsize", "micro_batch_size"), 1);
  EXPECT_EQ(EditDistance("ab", "ba"), 2);
}

TEST(EditDistance, IsADistance) {
  Random random(17);
  const auto draw = [&random] {
    std::string word;
    for (std::uint64_t n = random.Below(8); n > 0; --n) {
      word += "ab"[random.Below(2)];
    }
    return word;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string a = draw();
    const std::string b = draw();
    const std::string c = draw();
    EXPECT_EQ(EditDistance(a, b) == 0, a == b);
    EXPECT_EQ(EditDistance(a, b), EditDistance(b, a));
    EXPECT_LE(EditDistance(a, c), EditDistance(a, b) + EditDistance(b, c));
  }
}

TEST(Nearest, FindsTheMisspeltName) {
  const std::vector<std::string> names = {"micro_batch_size", "global_batch_size", "tp", "pp",
                                          "sequence_parallel"};
  EXPECT_EQ(Nearest("micro_batchsize", names), "micro_batch_size");
  EXPECT_EQ(Nearest("sequnce_paralel", names), "sequence_parallel");
  EXPECT_EQ(Nearest("tpp", names), "tp");
  EXPECT_EQ(Nearest("pp", names), "pp");
}

TEST(Nearest, TakesTheNearestAndOfEqualsTheFirst) {
  EXPECT_EQ(Nearest("epocs", {"epics", "epocs2", "epochs"}), "epics");
  EXPECT_EQ(Nearest("levers", {"lovers", "levers"}), "levers");
}

TEST(Nearest, DistanceMayBeTwoOrAThirdOfTheCandidate) {
  EXPECT_EQ(Nearest("abcd", {"abxy"}), "abxy");                 // 2 of 4
  EXPECT_EQ(Nearest("abcd", {"axyz"}), "");                     // 3 of 4
  EXPECT_EQ(Nearest("abcdefxyz", {"abcdefghi"}), "abcdefghi");  // 3 of 9
  EXPECT_EQ(Nearest("abcdewxyz", {"abcdefghi"}), "");           // 4 of 9
}

TEST(Nearest, SuggestsNothingForAWordOfItsOwn) {
  EXPECT_EQ(Nearest("xy", {"tp", "pp", "dp"}), "");
  EXPECT_EQ(Nearest("", {"tp"}), "");
  EXPECT_EQ(Nearest("tp", {}), "");
  EXPECT_EQ(Nearest(std::string(100'000, 'a'), {std::string(100'000, 'a')}), "");  // bounded work
}

TEST(JsonEscape, MakesAJsonString) {
  EXPECT_EQ(JsonEscape("a\"b\\c/"), "a\\\"b\\\\c/");
  EXPECT_EQ(JsonEscape("\n\t\r\x01\x1f\x7f"), "\\n\\t\\r\\u0001\\u001f\\u007f");
  EXPECT_EQ(JsonEscape(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(JsonEscape("naïve 漢字 🙂"), "naïve 漢字 🙂");
}

TEST(JsonEscape, ReplacesBadUtf8) {
  EXPECT_EQ(JsonEscape("a\xff"), "a\ufffd");
  for (const std::string& text : NotUtf8()) {
    EXPECT_TRUE(IsValidUtf8(JsonEscape(text)));
  }
}

}  // namespace
}  // namespace attune
