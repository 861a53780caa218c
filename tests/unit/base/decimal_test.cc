#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "attune/base/random.h"
#include "attune/base/text.h"

namespace attune {
namespace {

TEST(ParseInt, TakesWholeTextsInCanonicalForm) {
  EXPECT_EQ(ParseInt("0"), 0);
  EXPECT_EQ(ParseInt("7"), 7);
  EXPECT_EQ(ParseInt("-12"), -12);
  EXPECT_EQ(ParseInt("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(ParseInt("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
}

TEST(ParseInt, RefusesEverythingElse) {
  for (const char* text : {"",
                           "-",
                           "+1",
                           "01",
                           "-0",
                           "-01",
                           "00",
                           " 1",
                           "1 ",
                           "1_000",
                           "1,000",
                           "1.0",
                           "1e3",
                           "0x10",
                           "9223372036854775808",
                           "-9223372036854775809",
                           "--1",
                           "1-",
                           "\xd9\xa1",
                           "١"}) {
    EXPECT_EQ(ParseInt(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseInt(std::string_view("1\0", 2)), std::nullopt);
}

TEST(ParseDouble, TakesDecimalAndScientific) {
  EXPECT_EQ(ParseDouble("0.03"), 0.03);
  EXPECT_EQ(ParseDouble("-1.5E+2"), -150.0);
  EXPECT_EQ(ParseDouble("1e-05"), 1e-5);
  EXPECT_EQ(ParseDouble("3."), 3.0);
  EXPECT_EQ(ParseDouble(".5"), 0.5);
  EXPECT_EQ(ParseDouble("007"), 7.0);
  EXPECT_EQ(ParseDouble("1.7976931348623157e308"), std::numeric_limits<double>::max());
}

TEST(ParseDouble, RefusesEverythingElse) {
  for (const char* text :
       {"",      ".",     "-",   "e5", "1e", "1e+", "inf",   "-inf",   "nan",    "NaN", "infinity",
        "0x1p3", "1.2.3", "1,5", "+1", " 1", "1 ",  "1e400", "-1e400", "1e-400", "1d5", "1e5f"}) {
    EXPECT_EQ(ParseDouble(text), std::nullopt) << text;
  }
}

TEST(ParseDouble, ReadsBackEveryDoubleThatIsPrintedInFull) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const double value =
        random.Normal() * std::pow(10.0, static_cast<double>(random.Below(40)) - 20);
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    EXPECT_EQ(ParseDouble(text), value) << text;
  }
}

TEST(CompareDecimal, EqualValuesSpeltDifferentlyAreEqual) {
  const std::pair<const char*, const char*> equal[] = {
      {"1e-4", "0.0001"},
      {"1e-05", "0.00001"},
      {"0.03", "3e-2"},
      {"100", "1E+2"},
      {"-2.50", "-25e-1"},
      {"0", "-0.000"},
      {"0", "0e12"},
      {".5", "0.5"},
      {"3.", "3"},
      {"0010", "1e1"},
      {"1e0000000000003", "1000"},
  };
  for (const auto& [a, b] : equal) {
    EXPECT_EQ(CompareDecimal(a, b), 0) << a << " " << b;
  }
}

TEST(CompareDecimal, SeesDifferencesThatADoubleCannotHold) {
  EXPECT_EQ(CompareDecimal("0.1", "0.1000000000000000055511151231257827"), -1);
  EXPECT_EQ(CompareDecimal("9007199254740993", "9007199254740992"), 1);
  EXPECT_EQ(CompareDecimal("1e-400", "0"), 1);
  EXPECT_EQ(CompareDecimal("-1e-400", "0"), -1);
  EXPECT_EQ(CompareDecimal("1e999999999", "1e999999998"), 1);
}

TEST(CompareDecimal, WhatIsNoDecimalHasNoOrder) {
  for (const char* text : {"", "nan", "inf", "0x10", "1e", "1.2.3", "+1", " 1", "true", "-",
                           "1e1000000000", "1e-99999999999999999999"}) {
    EXPECT_EQ(CompareDecimal(text, "1"), std::nullopt) << text;
    EXPECT_EQ(CompareDecimal("1", text), std::nullopt) << text;
  }
}

using Wide = __int128;

// A random value as an exact integer multiple of 10^-12, and one of its many spellings.
struct Sample {
  Wide exact = 0;
  std::string text;
};

Sample Draw(Random& random) {
  // Few different digits, so that equal values and equal prefixes come up often.
  const std::size_t digit_count = 1 + random.Below(9);
  std::string digits;
  Wide mantissa = 0;
  for (std::size_t i = 0; i < digit_count; ++i) {
    const int digit = static_cast<int>(random.Below(3));
    digits += static_cast<char>('0' + digit);
    mantissa = mantissa * 10 + digit;
  }
  const int power = static_cast<int>(random.Below(21)) - 10;  // value = mantissa * 10^power

  Sample sample;
  sample.exact = mantissa;
  for (int i = 0; i < power + 12; ++i) {
    sample.exact *= 10;
  }
  if (random.Below(2) == 0) {
    sample.exact = -sample.exact;
    sample.text += '-';
  }
  // The point may stand anywhere; the exponent makes up for it.
  const std::size_t point = random.Below(digit_count + 1);
  const int exponent = power + static_cast<int>(digit_count - point);
  sample.text += std::string(random.Below(3), '0') + digits.substr(0, point);
  if (point < digit_count || random.Below(2) == 0) {
    if (sample.text.empty() || sample.text == "-") {
      sample.text += '0';
    }
    sample.text += '.' + digits.substr(point) + std::string(random.Below(3), '0');
  } else if (point == 0) {
    sample.text += '0';
  }
  if (exponent != 0 || random.Below(2) == 0) {
    sample.text += random.Below(2) == 0 ? 'e' : 'E';
    sample.text += exponent < 0 ? "-" : (random.Below(2) == 0 ? "+" : "");
    sample.text += std::string(random.Below(3), '0') + std::to_string(std::abs(exponent));
  }
  return sample;
}

TEST(CompareDecimal, AgreesWithIntegerArithmetic) {
  constexpr std::uint64_t kSeed = 20261130;
  Random random(kSeed);
  int equal = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Sample a = Draw(random);
    const Sample b = Draw(random);
    const int expected = a.exact < b.exact ? -1 : (a.exact > b.exact ? 1 : 0);
    equal += expected == 0 ? 1 : 0;
    ASSERT_EQ(CompareDecimal(a.text, b.text), expected)
        << a.text << " against " << b.text << ", seed " << kSeed << ", draw " << i;
  }
  EXPECT_GT(equal, 50);  // else the test never saw two spellings of one value
}

}  // namespace
}  // namespace attune
