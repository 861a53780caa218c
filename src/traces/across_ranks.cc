// Ranks leave a collective together (their ends agree within microseconds where clocks are shared),
// so who spends least time in it entered last, and that time is the transfer; what the others
// spend beyond it is waiting. This needs no common clock.
#include "across_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace attune::traces {
namespace {

struct Part {
  std::int64_t rank, start, end;
};

std::map<std::string, std::vector<Part>> Match(const std::vector<RankTrace>& ranks,
                                               std::map<std::string, const CollectiveEvent*>& of) {
  std::map<std::string, std::vector<Part>> matched;
  for (const RankTrace& r : ranks) {
    for (const CollectiveEvent& c : r.collective_events) {
      // One sends and the other receives: their times are not those of one collective.
      if (c.point_to_point) continue;
      matched[c.key].push_back({r.rank, c.start, c.end});
      of.emplace(c.key, &c);
    }
  }
  return matched;
}

std::string ClaimedTwice(const std::vector<RankTrace>& ranks, std::vector<std::string>& remarks) {
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].rank != ranks[i - 1].rank) continue;
    const std::string which = ranks[i].rank < 0 ? "do not say their rank"
                                                : fmt::format("both claim rank {}", ranks[i].rank);
    remarks.push_back(fmt::format("{} and {} {}: ranks are not compared", ranks[i - 1].path,
                                  ranks[i].path, which));
    return "two files " + which;
  }
  return {};
}

void CompareCompute(const std::vector<RankTrace>& ranks, AcrossRanks& across) {
  std::int64_t max = 0, sum = 0, count = 0;
  for (const RankTrace& r : ranks) {
    if (!r.HasGpu()) continue;
    sum += r.analysed.compute;
    ++count;
    if (r.analysed.compute > max) {
      max = r.analysed.compute;
      across.slowest_rank = r.rank;
    }
  }
  if (count < 2 || max == 0) return;
  const double mean = static_cast<double>(sum) / static_cast<double>(count);
  across.compute_imbalance = (static_cast<double>(max) - mean) / static_cast<double>(max);
}

}  // namespace

AcrossRanks CompareRanks(const std::vector<RankTrace>& ranks, std::vector<std::string>& remarks) {
  AcrossRanks across;
  if (ranks.size() < 2) {
    across.why_empty = "one rank alone: waiting and transfer cannot be told apart";
    return across;
  }
  if (const std::string why = ClaimedTwice(ranks, remarks); !why.empty()) {
    across.why_empty = why;
    return across;
  }
  CompareCompute(ranks, across);
  std::map<std::string, const CollectiveEvent*> of;
  std::map<std::int64_t, RankLateness> lateness;
  std::vector<std::pair<std::int64_t, MatchedCollective>> rows;
  std::int64_t seen = 0;
  for (const RankTrace& r : ranks) seen += static_cast<std::int64_t>(r.collective_events.size());
  for (auto& [key, parts] : Match(ranks, of)) {
    if (parts.size() < 2) continue;
    const auto shorter = [](const Part& a, const Part& b) {
      return std::tuple(a.end - a.start, a.rank) < std::tuple(b.end - b.start, b.rank);
    };
    const Part last = *std::min_element(parts.begin(), parts.end(), shorter);
    const Part first = *std::max_element(parts.begin(), parts.end(), shorter);
    MatchedCollective m;
    m.key = key;
    m.type = of[key]->type;
    m.group = of[key]->group;
    m.ranks = static_cast<int>(parts.size());
    m.last_rank = last.rank;
    m.transfer = last.end - last.start;
    m.longest = first.end - first.start;
    m.longest_rank = first.rank;
    std::int64_t end_min = parts[0].end, end_max = parts[0].end, start_min = parts[0].start;
    for (const Part& p : parts) {
      const std::int64_t waited = p.end - p.start - m.transfer;
      m.waiting += waited;
      across.comm += p.end - p.start;
      lateness[p.rank].waited += waited;
      end_min = std::min(end_min, p.end);
      end_max = std::max(end_max, p.end);
      start_min = std::min(start_min, p.start);
    }
    m.end_spread = end_max - end_min;
    across.waiting += m.waiting;
    across.largest_skew = std::max(across.largest_skew, m.longest - m.transfer);
    ++lateness[m.last_rank].last_in;
    lateness[m.last_rank].caused += m.waiting;
    rows.emplace_back(start_min, std::move(m));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.key) < std::tie(b.first, b.second.key);
  });
  for (auto& [start, row] : rows) across.collectives.push_back(std::move(row));
  for (auto& [rank, row] : lateness) {
    row.rank = rank;
    across.lateness.push_back(row);
  }
  std::sort(across.lateness.begin(), across.lateness.end(), [](const auto& a, const auto& b) {
    return std::tie(b.caused, a.rank) < std::tie(a.caused, b.rank);
  });
  if (across.collectives.empty()) {
    across.why_empty = seen == 0 ? "no communication kernels were found on any rank"
                                 : fmt::format(
                                       "{} communication kernels were found, none on two ranks "
                                       "with the same group and order",
                                       seen);
  }
  return across;
}

}  // namespace attune::traces
