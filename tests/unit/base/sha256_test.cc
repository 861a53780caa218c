#include <gtest/gtest.h>

#include <string>

#include "attune/base/text.h"

namespace attune {
namespace {

// The examples that NIST publishes for FIPS 180-4 (one block, two blocks) and its long-message one.
TEST(Sha256Hex, GivesThePublishedDigests) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                      "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(Sha256Hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around the places where the padding needs one more block. The digest of each digest's
// text was taken with coreutils' sha256sum.
TEST(Sha256Hex, IsRightAtEveryLengthAroundABlock) {
  std::string all;
  for (std::size_t length = 50; length <= 130; ++length) {
    all += Sha256Hex(std::string(length, 'q')) + "\n";
  }
  EXPECT_EQ(Sha256Hex(all), "35215ef785f3701ba908164c2af3305856e7860171c985caf424f471e36c0d00");
}

TEST(Sha256Hex, HashesBytesWithNulAndHighBits) {
  EXPECT_EQ(Sha256Hex(std::string_view("\0", 1)),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
  EXPECT_EQ(Sha256Hex("\xff"), "a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89");
}

}  // namespace
}  // namespace attune
