// Texts that no file here holds: made while they are read.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>

#include "kineto_text.h"

namespace attune::traces {
namespace {

// `head`, then `filler` again and again up to `bytes`, then `tail`.
class MadeUp final : public ByteSource {
 public:
  MadeUp(std::string head, std::string filler, std::int64_t bytes, std::string tail)
      : head_(std::move(head)), filler_(std::move(filler)), tail_(std::move(tail)), left_(bytes) {
    while (filler_.size() < 1 << 16) filler_ += filler_;
  }

  Result<std::size_t> Read(char* to, std::size_t n) override {
    if (!head_.empty()) return Take(head_, to, n);
    if (left_ > 0) {
      n = std::min({n, filler_.size(), static_cast<std::size_t>(left_)});
      std::copy_n(filler_.data(), n, to);
      left_ -= static_cast<std::int64_t>(n);
      // What is left of the filler must go on where this piece ended.
      std::rotate(filler_.begin(),
                  filler_.begin() + static_cast<std::ptrdiff_t>(n % filler_.size()), filler_.end());
      return n;
    }
    return Take(tail_, to, n);
  }

 private:
  static std::size_t Take(std::string& from, char* to, std::size_t n) {
    n = std::min(n, from.size());
    std::copy_n(from.data(), n, to);
    from.erase(0, n);
    return n;
  }
  std::string head_, filler_, tail_;
  std::int64_t left_;
};

std::int64_t PeakKilobytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

constexpr std::int64_t kGigabyte = std::int64_t{1} << 30;

TEST(Large, AStringOfAGigabyteOnOneLineIsLeftOut) {
  const std::string kernel = KernelEvent("k", 5000, 2000, 1);
  MadeUp source("{\"schemaVersion\": 1, \"traceEvents\": [" + kernel +
                    ", {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"",
                "abcdefgh", kGigabyte, "\"}, " + KernelEvent("k", 9000, 1000, 2) + "]}");
  EventStore store(std::size_t{1} << 20);
  const std::int64_t before = PeakKilobytes();
  const auto read = ReadKineto(source, {}, store);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->whole);
  EXPECT_GT(read->text_bytes, kGigabyte);
  EXPECT_EQ(store.notes.Count(Note::kOversizeElement), 1);
  EXPECT_EQ(store.gpu.size(), 2u);
  EXPECT_LT(PeakKilobytes() - before, 64 * 1024);  // the largest window and its maps
}

TEST(Large, ACutStringOfManyMegabytesIsNotWhole) {
  MadeUp source("{\"schemaVersion\": 1, \"traceEvents\": [{\"name\": \"", "abcdefgh",
                std::int64_t{40} << 20, "");
  EventStore store(std::size_t{1} << 20);
  const auto read = ReadKineto(source, {}, store);
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->whole);
}

TEST(Large, NestingWithoutEndNeedsNoStack) {
  MadeUp source("{\"schemaVersion\": 1, \"traceEvents\": [{\"args\": ", "[[[[[[[[",
                std::int64_t{40} << 20, "");
  EventStore store(std::size_t{1} << 20);
  const auto read = ReadKineto(source, {}, store);
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->whole);
}

}  // namespace
}  // namespace attune::traces
