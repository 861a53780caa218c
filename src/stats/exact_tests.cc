// Permutation tests over integers: all values of a test are scaled by one power of ten, so that
// sums, and with them ties, are exact.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "attune/base/check.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

constexpr std::uint64_t kMaxAssignments = 20'000'000;
constexpr std::size_t kMaxFlips = 24;
__extension__ using Wide = __int128;  // sums of 2^62 values cannot overflow it

// Whole numbers in the proportions of `xs`, exact where 10^places makes all of them whole and
// small enough; else rounded to 2^60 / largest, a resolution below 1e-17 of the largest value, so
// that only ties within that count as ties.
std::vector<std::int64_t> Whole(std::span<const double> xs) {
  int places = 0;
  double largest = 0;
  for (const double x : xs) {
    places = std::max(places, Decimal::FromDouble(x).DecimalPlaces());
    largest = std::max(largest, std::abs(x));
  }
  std::vector<std::int64_t> whole;
  for (const double x : xs) {
    const std::optional<std::int64_t> scaled = Decimal::FromDouble(x).Scaled(places);
    if (!scaled) {
      break;
    }
    whole.push_back(*scaled);
  }
  if (whole.size() == xs.size()) {
    return whole;
  }
  whole.clear();
  for (const double x : xs) {
    whole.push_back(std::llround(std::ldexp(x / largest, 60)));
  }
  return whole;
}

Wide SumOf(std::span<const std::int64_t> xs) {
  Wide sum = 0;
  for (const std::int64_t x : xs) {
    sum += x;
  }
  return sum;
}

// Calls visit(sum) for each choice of `take` of the values.
template <class Visit>
void ForEachChoice(std::span<const std::int64_t> values, std::size_t take, Wide sum, Visit visit) {
  if (take == 0) {
    visit(sum);
    return;
  }
  for (std::size_t i = 0; i + take <= values.size(); ++i) {
    ForEachChoice(values.subspan(i + 1), take - 1, sum + values[i], visit);
  }
}

std::optional<std::uint64_t> Product(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / b) {
    return std::nullopt;
  }
  return a * b;
}

std::vector<double> Pooled(std::span<const SampleBlock> blocks) {
  std::vector<double> all;
  for (const SampleBlock& block : blocks) {
    all.insert(all.end(), block.a.begin(), block.a.end());
    all.insert(all.end(), block.b.begin(), block.b.end());
  }
  return all;
}

}  // namespace

std::optional<std::uint64_t> Binomial(std::uint64_t n, std::uint64_t k) {
  if (k > n) {
    return 0;
  }
  k = std::min(k, n - k);
  Wide value = 1;
  for (std::uint64_t i = 1; i <= k; ++i) {
    value = value * static_cast<Wide>(n - k + i) / static_cast<Wide>(i);
    if (value > std::numeric_limits<std::int64_t>::max()) {
      return std::nullopt;
    }
  }
  return static_cast<std::uint64_t>(value);
}

std::optional<std::uint64_t> AssignmentsTwoSample(std::uint64_t n, std::uint64_t m) {
  return Binomial(n + m, n);
}

std::optional<std::uint64_t> AssignmentsInBlocks(
    std::span<const std::pair<std::uint64_t, std::uint64_t>> blocks) {
  std::optional<std::uint64_t> total = 1;
  for (const auto& [a, b] : blocks) {
    const std::optional<std::uint64_t> ways = Binomial(a + b, a);
    total = ways ? Product(*total, *ways) : std::nullopt;
    if (!total) {
      return std::nullopt;
    }
  }
  return total;
}

std::optional<ExactTest> BlockPermutationTest(std::span<const SampleBlock> blocks) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sizes;
  for (const SampleBlock& block : blocks) {
    sizes.emplace_back(block.a.size(), block.b.size());
  }
  const std::optional<std::uint64_t> total = AssignmentsInBlocks(sizes);
  if (!total || *total > kMaxAssignments) {
    return std::nullopt;
  }
  const std::vector<double> pooled = Pooled(blocks);
  const std::vector<std::int64_t> whole = Whole(pooled);
  Wide observed = 0;
  // How many ways lead to each sum of a-values over the blocks so far.
  std::map<Wide, std::uint64_t> ways = {{0, 1}};
  std::size_t at = 0;
  for (const SampleBlock& block : blocks) {
    const std::span<const std::int64_t> values(whole.data() + at, block.a.size() + block.b.size());
    observed += SumOf(values.first(block.a.size()));
    std::map<Wide, std::uint64_t> here;
    ForEachChoice(values, block.a.size(), 0, [&](Wide sum) { ++here[sum]; });
    std::map<Wide, std::uint64_t> next;
    for (const auto& [before, count] : ways) {
      for (const auto& [sum, more] : here) {
        next[before + sum] += count * more;
      }
    }
    ways = std::move(next);
    at += values.size();
  }
  ExactTest test;
  test.total = *total;
  for (const auto& [sum, count] : ways) {
    if (sum >= observed) {
      test.count += count;
    }
  }
  return test;
}

// mean(a) - mean(b) grows with the sum of a when the pool is fixed.
std::optional<ExactTest> PermutationTest(std::span<const double> a, std::span<const double> b) {
  ATTUNE_CHECK(!a.empty() && !b.empty(), "a comparison needs two groups");
  const std::optional<std::uint64_t> total = AssignmentsTwoSample(a.size(), b.size());
  if (!total || *total > kMaxAssignments) {
    return std::nullopt;
  }
  std::vector<double> pooled(a.begin(), a.end());
  pooled.insert(pooled.end(), b.begin(), b.end());
  const std::vector<std::int64_t> whole = Whole(pooled);
  const Wide observed = SumOf(std::span(whole).first(a.size()));
  ExactTest test;
  test.total = *total;
  ForEachChoice(whole, a.size(), 0, [&](Wide sum) { test.count += sum >= observed ? 1U : 0U; });
  return test;
}

std::optional<ExactTest> SignFlipTest(std::span<const double> xs) {
  ATTUNE_CHECK(!xs.empty(), "a test needs values");
  if (xs.size() > kMaxFlips) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> whole = Whole(xs);
  const Wide observed = SumOf(whole);
  std::map<Wide, std::uint64_t> ways = {{0, 1}};
  for (const std::int64_t x : whole) {
    std::map<Wide, std::uint64_t> next;
    for (const auto& [sum, count] : ways) {
      next[sum + x] += count;
      next[sum - x] += count;
    }
    ways = std::move(next);
  }
  ExactTest test;
  test.total = std::uint64_t{1} << xs.size();
  for (const auto& [sum, count] : ways) {
    test.count += sum >= observed ? count : 0;
  }
  return test;
}

// Hypergeometric upper tail. Terms as logarithms in long double: margins in the hundreds overflow
// products, and the relative error of each term stays below 1e-15.
double FisherGreater(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  ATTUNE_CHECK(a >= 0 && b >= 0 && c >= 0 && d >= 0, "counts");
  const auto log_factorial = [](std::int64_t n) {
    return std::lgamma(static_cast<long double>(n) + 1);
  };
  const std::int64_t row1 = a + b;
  const std::int64_t row2 = c + d;
  const std::int64_t column1 = a + c;
  const std::int64_t column2 = b + d;
  const long double margins = log_factorial(row1) + log_factorial(row2) + log_factorial(column1) +
                              log_factorial(column2) - log_factorial(row1 + row2);
  long double p = 0;
  for (std::int64_t x = a; x <= std::min(row1, column1); ++x) {
    p += std::exp(margins - log_factorial(x) - log_factorial(row1 - x) -
                  log_factorial(column1 - x) - log_factorial(row2 - column1 + x));
  }
  return static_cast<double>(std::min(p, 1.0L));
}

}  // namespace attune
