#include "outlay.h"

#include <algorithm>

namespace attune::rules {
namespace {

// A primary lever below this share of the memory needs no enabler; above the second one it is not
// worth a launch without any.
constexpr double kRoomy = 0.86, kHopeless = 1.02;
constexpr std::size_t kExpanded = 6;  // non-fitting moves of a lever that get enablers, best first
constexpr std::size_t kLayouts = 24;  // layouts that may serve as enablers, best first
constexpr std::size_t kPaired = 3;    // of them, that are tried with everything that makes room
constexpr double kSlowest = 2.5;      // times the leader's step: not worth enablers
constexpr std::size_t kPool = 8;      // moves of a lever that joint moves are made of, best first
constexpr std::size_t kPoolLayouts = 24;  // the same of a lever that places stages
constexpr std::size_t kWays = 24;         // joint moves that are made longer
constexpr std::size_t kParts = 4;         // the gates take one lever and three enablers
constexpr double kEarns = 0.99;  // times the step without it: what a further part must reach
constexpr double kTight = 0.92;  // joint moves above this share rank lower ...
constexpr double kDear = 3;      // ... by this a share

void SortBySeconds(std::vector<Candidate>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
}

// One that does not fit may still lead to one that does.
double Rank(const Candidate& c) {
  return c.seconds * (1 + kDear * std::max(0.0, c.peak_share - kTight));
}

bool Clash(const Sizes& a, const Sizes& b) {
  return (a.tp && b.tp) || (a.pp && b.pp) || (a.ep && b.ep) || (a.etp && b.etp) || (a.cp && b.cp) ||
         (a.vp && b.vp) || (a.mbs && b.mbs) || (a.first && b.first);
}
// Whether two parts set the same argument to different values, or are of one lever.
bool Clash(const Part& a, const Part& b) {
  if (a.lever == b.lever) return true;
  if (a.move == nullptr && b.move == nullptr) return Clash(a.sizes, b.sizes);
  if (a.move == nullptr || b.move == nullptr) return false;
  return std::any_of(a.move->edits.begin(), a.move->edits.end(), [&](const Edit& x) {
    return std::any_of(b.move->edits.begin(), b.move->edits.end(),
                       [&](const Edit& y) { return x.name == y.name && !(x == y); });
  });
}

}  // namespace

void Outlay::Alone(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    std::optional<Candidate> c = make_({part});
    if (!c) {
      illegal_.push_back(part);
      continue;
    }
    Sort(*c);
    alone_[part.lever->lever].push_back(*c);
    if (c->peak_share > kRoomy) tight_[part.lever->lever].push_back(*c);
    if (c->peak_share <= kHopeless) out_.push_back(std::move(*c));
  }
  SortBySeconds(layouts_);
  if (layouts_.size() > kLayouts) layouts_.resize(kLayouts);
}

void Outlay::WithEnablers() {
  for (auto& [lever, list] : tight_) {
    SortBySeconds(list);
    for (std::size_t i = 0; i < list.size() && i < kExpanded; ++i) {
      if (list[i].seconds > kSlowest * leader_seconds_) break;
      const Part& primary = list[i].parts[0];
      // A layout can't enable itself, and listed moves are many: room is made by one lever there.
      Enable(primary, primary.move == nullptr && !Has(primary.lever->sizes, "pp"));
    }
  }
  for (const Part& part : illegal_) {
    if (part.move != nullptr) EnableByLayout(part, false);  // such as virtual stages
  }
}

void Outlay::Jointly() {
  pool_.clear();
  for (auto& [lever, list] : alone_) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Candidate& a, const Candidate& b) { return Rank(a) < Rank(b); });
    const bool stages = Has(list.front().parts[0].lever->sizes, "pp");
    const std::size_t most = std::min(list.size(), stages ? kPoolLayouts : kPool);
    for (std::size_t i = 0; i < most; ++i) pool_.push_back(list[i].parts[0]);
  }
  for (const Part& part : illegal_) {
    if (part.move != nullptr) pool_.push_back(part);
  }
  std::set<std::vector<std::size_t>> seen;
  std::vector<Way> ways(1);
  for (std::size_t length = 1; length <= kParts && !ways.empty(); ++length) {
    ways = Longer(ways, seen);
    if (length == 1) continue;  // laid out already
    for (const Way& way : ways) Add(way.candidate);
  }
}

std::vector<Outlay::Way> Outlay::Longer(const std::vector<Way>& ways,
                                        std::set<std::vector<std::size_t>>& seen) {
  std::vector<Way> longer;
  for (const Way& way : ways) {
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      const auto clashes = [&](const Part& part) { return Clash(part, pool_[i]); };
      if (std::any_of(way.candidate.parts.begin(), way.candidate.parts.end(), clashes)) continue;
      std::vector<std::size_t> of = way.of;
      of.insert(std::upper_bound(of.begin(), of.end(), i), i);
      if (!seen.insert(of).second) continue;
      std::vector<Part> parts = way.candidate.parts;
      parts.push_back(pool_[i]);
      std::optional<Candidate> c = make_(std::move(parts));
      if (!c) continue;
      const bool earns = way.of.empty() || Rank(*c) < kEarns * Rank(way.candidate);
      c->joint = !way.of.empty();
      if (earns) longer.push_back({std::move(of), std::move(*c)});
    }
  }
  std::vector<Way*> order;  // the ways themselves are large
  for (Way& way : longer) order.push_back(&way);
  std::sort(order.begin(), order.end(), [](const Way* a, const Way* b) {
    const double x = Rank(a->candidate), y = Rank(b->candidate);
    return x != y ? x < y : a->of < b->of;
  });
  std::vector<Way> kept;
  for (Way* way : order) {
    if (kept.size() == kWays) break;
    if (admits_(way->candidate)) kept.push_back(std::move(*way));
  }
  return kept;
}

// What may serve as an enabler later: levers that make room, and layouts.
void Outlay::Sort(const Candidate& c) {
  const Part& part = c.parts[0];
  if (Has(part.lever->sizes, "pp")) layouts_.push_back(c);
  const bool makes_room = part.lever->lever == "recompute" || part.sizes.mbs ||
                          part.lever->lever == "distributed_optimizer";
  if (makes_room && c.peak_share < leader_peak_) room_.push_back(part);
}

void Outlay::Add(std::optional<Candidate> c) {
  if (c && c->peak_share <= kHopeless) out_.push_back(std::move(*c));
}

void Outlay::Enable(const Part& primary, bool by_layout) {
  for (const Part& room : room_) {
    if (room.lever != primary.lever) Add(make_({primary, room}));
  }
  if (by_layout) EnableByLayout(primary, true);
}

void Outlay::EnableByLayout(const Part& primary, bool pairs) {
  std::vector<Candidate> placed;
  for (const Candidate& layout : layouts_) {
    if (layout.parts[0].lever == primary.lever) continue;
    if (auto c = make_({primary, layout.parts[0]})) placed.push_back(std::move(*c));
  }
  SortBySeconds(placed);
  std::size_t paired = 0;
  for (Candidate& c : placed) {
    if (pairs && c.peak_share > kRoomy && paired < kPaired) {
      ++paired;
      for (const Part& room : room_) {
        if (room.lever != primary.lever) Add(make_({primary, c.parts[1], room}));
      }
    }
    Add(std::move(c));
  }
}

}  // namespace attune::rules
