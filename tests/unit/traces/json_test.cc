// The scanner: block maps, windows, numbers.
#include <gtest/gtest.h>

#include <string>

#include "attune/base/random.h"
#include "json_blocks.h"
#include "json_number.h"
#include "json_window.h"

namespace attune::traces {
namespace {

struct Maps {
  std::vector<std::uint64_t> quote, open, close, odd;
  bool operator==(const Maps&) const = default;
};

Maps Mark(BlockMarker marker, const std::string& bytes) {
  const std::size_t blocks = bytes.size() / 64;
  Maps m{std::vector<std::uint64_t>(blocks), std::vector<std::uint64_t>(blocks),
         std::vector<std::uint64_t>(blocks), std::vector<std::uint64_t>(blocks)};
  BlockState state;
  // In two calls, so that what one block leaves to the next is tested too.
  const std::size_t half = blocks / 2;
  marker(bytes.data(), half, state, {m.quote.data(), m.open.data(), m.close.data(), m.odd.data()});
  marker(bytes.data() + half * 64, blocks - half, state,
         {m.quote.data() + half, m.open.data() + half, m.close.data() + half, m.odd.data() + half});
  return m;
}

TEST(MarkBlocks, AllWaysAgreeOnRandomText) {
  // Few different characters, so that runs of backslashes before quotes are common.
  const std::string alphabet = "\"\"\\\\\\{}[]:, aNI\x01\x1f\x80\xff\n";
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(64 * 6, ' ');
    for (char& c : bytes) c = alphabet[random.Below(alphabet.size())];
    const Maps plain = Mark(AllMarkers().front(), bytes);
    for (const BlockMarker marker : AllMarkers()) ASSERT_EQ(Mark(marker, bytes), plain) << round;
  }
}

TEST(MarkBlocks, EscapedQuotesDoNotEndAString) {
  std::string bytes = R"({"a\"b": "c\\", "d": [1]})";
  bytes.resize(64, ' ');
  for (const BlockMarker marker : AllMarkers()) {
    const Maps m = Mark(marker, bytes);
    std::string quotes;
    for (int i = 0; i < 64; ++i) {
      if ((m.quote[0] >> i & 1) != 0) quotes += std::to_string(i) + " ";
    }
    EXPECT_EQ(quotes, "1 6 9 13 16 18 ");
    EXPECT_EQ(m.open[0], (1u << 0) | (1u << 21));
  }
}

TEST(MicrosToNanos, KeepsEveryDigit) {
  EXPECT_EQ(MicrosToNanos("1694040010088500.123"), 1694040010088500123);
  EXPECT_EQ(MicrosToNanos("0.001"), 1);
  EXPECT_EQ(MicrosToNanos("-5.5"), -5500);
  EXPECT_EQ(MicrosToNanos("12"), 12000);
  EXPECT_EQ(MicrosToNanos("0"), 0);
  EXPECT_EQ(MicrosToNanos("9223372036854775.807"), 9223372036854775807);
}

TEST(MicrosToNanos, RoundsWhatIsBelowANanosecond) {
  EXPECT_EQ(MicrosToNanos("1.0004"), 1000);
  EXPECT_EQ(MicrosToNanos("1.0005"), 1001);
  EXPECT_EQ(MicrosToNanos("123.45600000000002"), 123456);
  EXPECT_EQ(MicrosToNanos("-1.0005"), -1001);
}

TEST(MicrosToNanos, ReadsScientificForm) {
  EXPECT_EQ(MicrosToNanos("1.5e3"), 1500000);
  EXPECT_EQ(MicrosToNanos("1669783687464181e0"), 1669783687464181000);
  EXPECT_EQ(MicrosToNanos("2E-3"), 2);
  EXPECT_EQ(MicrosToNanos("1e-300"), 0);
}

TEST(MicrosToNanos, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "-", ".5", "5.", "1e", "1e+", "NaN", "Infinity", "0x10", "1 ", "1,5",
        "9223372036854775.808", "1e300", "99999999999999999999", "--1", "1.2.3"}) {
    EXPECT_FALSE(MicrosToNanos(text)) << text;
  }
}

TEST(ParseUnsigned, TakesDecimalAndHexAndNothingElse) {
  EXPECT_EQ(ParseUnsigned("18446744073709551615"), 18446744073709551615ull);
  EXPECT_EQ(ParseUnsigned("0x0"), 0u);
  EXPECT_EQ(ParseUnsigned("0xFF"), 255u);
  for (const char* text : {"", "18446744073709551616", "-1", "1.0", "0x", "0xg", "1e3"}) {
    EXPECT_FALSE(ParseUnsigned(text)) << text;
  }
}

// Every value of a text, found through windows of any size and reads of any size.
std::vector<std::string> Values(const std::string& text, std::size_t window_bytes,
                                std::size_t piece) {
  const auto source = FromMemory(text, piece);
  JsonWindow window(*source, window_bytes, std::size_t{1} << 20);
  std::vector<std::string> values;
  std::size_t at = 0;
  for (;;) {
    at = window.SkipSpace(at);
    const std::size_t end = at < window.size() ? window.ValueEnd(at) : kMore;
    if (end != kMore) {
      values.emplace_back(window.Slice(at, end));
      at = end;
      continue;
    }
    if (window.AtEnd()) return values;
    EXPECT_TRUE(window.Advance(at).has_value());
    at = 0;
  }
}

TEST(JsonWindow, FindsTheSameValuesWhereverTheWindowEnds) {
  const std::string text = "{\"a\": [1, {\"b\": \"}]\\\"\"}], \"c\": \"" + std::string(150, 'x') +
                           "\"} [[[]]] \"s\\\\\" 12.5 true {\"deep\": " + std::string(40, '[') +
                           std::string(40, ']') + "} \"last\" ";
  const std::vector<std::string> whole = Values(text, 4096, 0);
  ASSERT_EQ(whole.size(), 7u);
  for (const std::size_t window : {64, 128, 192, 320}) {
    for (const std::size_t piece : {1, 3, 63, 64, 65, 1000}) {
      EXPECT_EQ(Values(text, window, piece), whole) << window << " " << piece;
    }
  }
}

TEST(JsonWindow, DropsAValueOfAnySize) {
  for (const std::string& big :
       {std::string("\"") + std::string(5000, 'x') + "\\\"" + std::string(5000, 'y') + "\"",
        std::string(3000, '[') + std::string(3000, ']'),
        "{\"k\": \"" + std::string(9000, '}') + "\"}", std::string(7000, '1')}) {
    const std::string text = big + ", 42 ";
    const auto source = FromMemory(text, 777);
    JsonWindow window(*source, 256, 512);
    ASSERT_TRUE(window.Advance(0).has_value());
    while (!window.Full()) {
      ASSERT_TRUE(window.Advance(0).has_value());
    }
    EXPECT_EQ(window.ValueEnd(0), kMore);
    const auto dropped = window.DropValue(0);
    ASSERT_TRUE(dropped.has_value());
    EXPECT_TRUE(*dropped);
    if (window.size() < 4) {
      ASSERT_TRUE(window.Advance(0).has_value());
    }
    EXPECT_EQ(window.Slice(0, 4), ", 42");
    EXPECT_EQ(window.Offset(0), static_cast<std::int64_t>(big.size()));
  }
}

TEST(JsonWindow, SaysWhenADroppedValueIsCut) {
  const std::string text = "{\"k\": \"" + std::string(9000, 'x');
  const auto source = FromMemory(text);
  JsonWindow window(*source, 256, 512);
  ASSERT_TRUE(window.Advance(0).has_value());
  const auto dropped = window.DropValue(0);
  ASSERT_TRUE(dropped.has_value());
  EXPECT_FALSE(*dropped);
}

}  // namespace
}  // namespace attune::traces
