// Compressed data: members, cuts, damage, and much from little.
#include "byte_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kineto_text.h"

namespace attune::traces {
namespace {

struct Inflated {
  std::string text;
  bool failed = false, ended_early = false, trailing = false;
};

Inflated InflateAll(const std::string& packed, std::size_t piece = 0, std::size_t window = 1000) {
  const auto source = Inflate(FromMemory(packed, piece));
  Inflated result;
  std::vector<char> buffer(window);
  for (;;) {
    const auto got = source->Read(buffer.data(), buffer.size());
    if (!got) {
      result.failed = true;
      break;
    }
    if (*got == 0) break;
    result.text.append(buffer.data(), *got);
  }
  result.ended_early = source->EndedEarly();
  result.trailing = source->HadTrailingBytes();
  return result;
}

std::string SomeText() { return Document(BusyEvents(2, 6)); }

TEST(Inflate, ReadsAnyNumberOfMembersInPiecesOfAnySize) {
  const std::string text = SomeText();
  for (const int members : {1, 2, 3, 17}) {
    const std::string packed = Gzip(text, members);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{0}}) {
      const Inflated got = InflateAll(packed, piece, piece == 1 ? 7 : 4096);
      EXPECT_EQ(got.text, text) << members << " " << piece;
      EXPECT_FALSE(got.failed || got.ended_early || got.trailing);
    }
  }
}

TEST(Inflate, AnEmptyMemberIsNoEnd) {
  EXPECT_EQ(InflateAll(Gzip("ab") + Gzip("") + Gzip("cd")).text, "abcd");
}

TEST(Inflate, ZeroesBetweenMembersArePadding) {
  const Inflated got =
      InflateAll(Gzip("ab") + std::string(512, '\0') + Gzip("cd") + std::string(512, '\0'));
  EXPECT_EQ(got.text, "abcd");
  EXPECT_FALSE(got.trailing);
}

TEST(Inflate, SaysWhatTrails) {
  const Inflated got = InflateAll(Gzip("ab") + "tail");
  EXPECT_EQ(got.text, "ab");
  EXPECT_TRUE(got.trailing);
}

TEST(Inflate, ACutAtAnyByteEndsEarly) {
  const std::string text = SomeText();
  const std::string packed = Gzip(text);
  for (std::size_t cut = 1; cut < packed.size(); cut += 13) {
    const Inflated got = InflateAll(packed.substr(0, cut));
    ASSERT_TRUE(got.ended_early) << cut;
    ASSERT_FALSE(got.failed) << cut;
    ASSERT_EQ(got.text, text.substr(0, got.text.size()));
  }
}

TEST(Inflate, ADamagedByteFailsAtTheLatestAtTheChecksum) {
  const std::string packed = Gzip(SomeText());
  for (std::size_t at = 10; at < packed.size(); at += 41) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const Inflated got = InflateAll(damaged);
    ASSERT_TRUE(got.failed || got.ended_early) << at;
  }
}

TEST(Inflate, MuchFromLittleIsReadInAWindow) {
  // 64 MB of a thousandth of that: neither text nor events are kept.
  const std::string text =
      "{\"schemaVersion\": 1, \"traceEvents\": [" + std::string(std::size_t{64} << 20, ' ') + "]}";
  const std::string packed = Gzip(text);
  ASSERT_GT(text.size() / packed.size(), 900u);
  const auto source = Inflate(FromMemory(packed));
  EventStore store(std::size_t{1} << 20);
  const auto read = ReadKineto(*source, {}, store);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->whole);
  EXPECT_EQ(read->text_bytes, static_cast<std::int64_t>(text.size()));
}

}  // namespace
}  // namespace attune::traces
