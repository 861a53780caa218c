#include "attune/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attune/base/random.h"

namespace attune {
namespace {

constexpr std::int64_t kHour = 3'600'000;

TEST(GpuMillis, AreExactAndOrdered) {
  GpuMillis g{5};
  g += {7};
  g -= {2};
  EXPECT_EQ(g, GpuMillis{10});
  EXPECT_EQ(g + GpuMillis{1} - GpuMillis{4}, GpuMillis{7});
  EXPECT_LT(GpuMillis{1}, GpuMillis{2});
  EXPECT_DOUBLE_EQ(GpuMillis{kHour / 2}.Hours(), 0.5);
}

TEST(ChargeFor, IsSlotsTimesTimeHeld) {
  EXPECT_EQ(ChargeFor(128, std::chrono::minutes(3)), GpuMillis{128 * 180'000});
  EXPECT_EQ(ChargeFor(2, Millis{0}), GpuMillis{0});
}

TEST(FromGpuHours, RoundsUpToAWholeMillisecond) {
  EXPECT_EQ(FromGpuHours(1), GpuMillis{kHour});
  EXPECT_EQ(FromGpuHours(0), GpuMillis{0});
  EXPECT_EQ(FromGpuHours(1e-9), GpuMillis{1});
  EXPECT_EQ(FromGpuHours((1000.25) / kHour), GpuMillis{1001});
}

// 7.86 x 3'600'000 in binary may come out a hair above 28'296'000; the holder asked for 7.86.
TEST(FromGpuHours, ADecimalAmountIsNotRoundedUpForItsBinarySpelling) {
  for (std::int64_t hundredths = 1; hundredths <= 200'000; ++hundredths) {
    const double hours = static_cast<double>(hundredths) / 100;
    ASSERT_EQ(FromGpuHours(hours).value, hundredths * (kHour / 100)) << hours;
  }
}

TEST(FromGpuHours, SumsOfTwoCannotOverflow) {
  EXPECT_EQ(FromGpuHours(1e300).value, std::int64_t{1} << 62);
  EXPECT_EQ(FromGpuHours(INFINITY).value, std::int64_t{1} << 62);
  EXPECT_GT((FromGpuHours(1e300) + GpuMillis{1}).value, 0);
}

TEST(Instant, DifferencesAreDurations) {
  const Instant t{1000};
  EXPECT_EQ(t + Millis{5}, Instant{1005});
  EXPECT_EQ(t - Millis{5}, Instant{995});
  EXPECT_EQ(Instant{1500} - t, Millis{500});
  EXPECT_GT(Instant::Never(), t);
}

TEST(Rfc3339, ShowsUtcAndMillisecondsOnlyWhenThereAreAny) {
  EXPECT_EQ(Rfc3339({0}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(Rfc3339({1'796'068'800'000}), "2026-11-30T20:00:00Z");
  EXPECT_EQ(Rfc3339({1'796'068'800'007}), "2026-11-30T20:00:00.007Z");
  EXPECT_EQ(Rfc3339({-1}), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(Rfc3339({951'782'400'000}), "2000-02-29T00:00:00Z");
}

TEST(Rfc3339, WhatTheFormatCannotSpellIsItsFirstOrLastInstant) {
  EXPECT_EQ(Rfc3339(Instant::Never()), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(Rfc3339({std::numeric_limits<std::int64_t>::min()}), "0000-01-01T00:00:00Z");
}

TEST(ParseRfc3339, ReadsOffsetsAndFractions) {
  EXPECT_EQ(ParseRfc3339("2026-11-30T20:00:00Z").value(), Instant{1'796'068'800'000});
  EXPECT_EQ(ParseRfc3339("2026-11-30T21:30:00+01:30").value(), Instant{1'796'068'800'000});
  EXPECT_EQ(ParseRfc3339("2026-11-30T12:00:00-08:00").value(), Instant{1'796'068'800'000});
  EXPECT_EQ(ParseRfc3339("2026-11-30T20:00:00.5Z").value(), Instant{1'796'068'800'500});
  EXPECT_EQ(ParseRfc3339("2026-11-30T20:00:00.123456789Z").value(), Instant{1'796'068'800'123});
  EXPECT_EQ(ParseRfc3339("1969-12-31T23:59:59.999Z").value(), Instant{-1});
}

TEST(ParseRfc3339, RefusesEverythingElse) {
  for (const char* text : {"",
                           "2026-11-30",
                           "2026-11-30T20:00:00",
                           "2026-11-30 20:00:00Z",
                           "2026-11-30T20:00Z",
                           "2026-11-30t20:00:00z",
                           "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z",
                           "2026-02-29T00:00:00Z",
                           "2026-11-31T00:00:00Z",
                           "2026-11-30T24:00:00Z",
                           "2026-11-30T20:60:00Z",
                           "2026-11-30T20:00:60Z",
                           "2026-11-30T20:00:00+0100",
                           "2026-11-30T20:00:00+24:00",
                           "2026-11-30T20:00:00+01:60",
                           "2026-11-30T20:00:00.Z",
                           "2026-11-30T20:00:00.1234567890Z",
                           "2026-11-30T20:00:00Z ",
                           " 2026-11-30T20:00:00Z",
                           "+026-11-30T20:00:00Z",
                           "2026-1a-30T20:00:00Z",
                           "1796068800"}) {
    const Result<Instant> got = ParseRfc3339(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(got.error().message.find(text), std::string::npos);
    EXPECT_FALSE(got.error().help.empty());
  }
}

TEST(ParseRfc3339, ReadsBackWhatIsShown) {
  Random random(23);
  for (int i = 0; i < 5000; ++i) {
    const Instant t{static_cast<std::int64_t>(random.Below(315'000'000'000'000)) -
                    62'000'000'000'000};
    const Result<Instant> back = ParseRfc3339(Rfc3339(t));
    ASSERT_TRUE(back) << Rfc3339(t);
    EXPECT_EQ(*back, t) << Rfc3339(t);
  }
}

TEST(ParseDuration, ReadsUnitsFromLargeToSmall) {
  EXPECT_EQ(ParseDuration("90s").value(), Millis{90'000});
  EXPECT_EQ(ParseDuration("8m").value(), Millis{480'000});
  EXPECT_EQ(ParseDuration("2h").value(), Millis{2 * kHour});
  EXPECT_EQ(ParseDuration("250ms").value(), Millis{250});
  EXPECT_EQ(ParseDuration("1h30m").value(), Millis{kHour + 1'800'000});
  EXPECT_EQ(ParseDuration("1h0m5s7ms").value(), Millis{kHour + 5'007});
}

TEST(ParseDuration, RefusesEverythingElse) {
  for (const char* text : {"",
                           "5",
                           "s",
                           "0s",
                           "0h0m",
                           "-5s",
                           "+5s",
                           "1.5h",
                           "5 s",
                           "5s ",
                           " 5s",
                           "5S",
                           "5sec",
                           "5d",
                           "30m1h",
                           "1h1h",
                           "1ms1s",
                           "05s",
                           "9999999999999h",
                           "99999999999999999999s",
                           "1000000h"}) {
    const Result<Millis> got = ParseDuration(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidInput);
    EXPECT_FALSE(got.error().help.empty());
  }
}

TEST(ShowDuration, IsShortAndRoundsToSeconds) {
  EXPECT_EQ(ShowDuration(Millis{252'000}), "4m12s");
  EXPECT_EQ(ShowDuration(Millis{250}), "250ms");
  EXPECT_EQ(ShowDuration(Millis{0}), "0s");
  EXPECT_EQ(ShowDuration(Millis{1'499}), "1s");
  EXPECT_EQ(ShowDuration(Millis{59'500}), "1m");
  EXPECT_EQ(ShowDuration(std::chrono::minutes(150)), "2h30m");
  EXPECT_EQ(ShowDuration(Millis{kHour + 5000}), "1h5s");
  EXPECT_EQ(ShowDuration(Millis{-252'000}), "-4m12s");
}

TEST(ShowDuration, IsReadBackByParseDuration) {
  Random random(29);
  for (int i = 0; i < 2000; ++i) {
    const Millis d{static_cast<std::int64_t>(1 + random.Below(1'000'000)) * 1000};
    EXPECT_EQ(ParseDuration(ShowDuration(d)).value(), d);
  }
}

TEST(ParseSize, ReadsBinaryUnits) {
  EXPECT_EQ(ParseSize("1000").value(), 1000);
  EXPECT_EQ(ParseSize("0").value(), 0);
  EXPECT_EQ(ParseSize("7B").value(), 7);
  EXPECT_EQ(ParseSize("3KiB").value(), 3072);
  EXPECT_EQ(ParseSize("512MiB").value(), std::int64_t{512} << 20);
  EXPECT_EQ(ParseSize("80GiB").value(), std::int64_t{80} << 30);
  EXPECT_EQ(ParseSize("2TiB").value(), std::int64_t{2} << 40);
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", "GiB", "-1", "1.5GiB", "80GB", "80G", "80gib", "80 GiB", "80GiBs",
                           "007", "9000000TiB", "9223372036854775808"}) {
    const Result<std::int64_t> got = ParseSize(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidInput);
  }
}

TEST(ShowGpuHours, KeepsFourDecimalsOfSmallAmounts) {
  EXPECT_EQ(ShowGpuHours({28'296'000}), "7.86");
  EXPECT_EQ(ShowGpuHours({76'680}), "0.0213");
  EXPECT_EQ(ShowGpuHours({kHour}), "1.00");
  EXPECT_EQ(ShowGpuHours({0}), "0");
  EXPECT_EQ(ShowGpuHours({-76'680}), "-0.0213");
  EXPECT_EQ(ShowGpuHours({1880 * kHour}), "1880.00");
}

}  // namespace
}  // namespace attune
