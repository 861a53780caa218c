#include "layout_moves.h"

#include <algorithm>

#include "layouts.h"

namespace attune::rules {
namespace {

constexpr int kMostPp = 64, kMostEp = 64, kMostVp = 8, kMostCp = 8;
constexpr int kVirtualStages = 24;  // numbers of virtual stages are divisors of this

// The values that one size may take for a job, the present one left out.
std::vector<int> ValuesOf(const TrainingJob& job, std::string_view size) {
  const Layout& l = job.layout;
  const bool moe = job.shape.experts > 0;
  std::vector<int> all;
  int now = 1;
  if (size == "tp") {
    all = Divisors(job.gpus_per_node, job.gpus_per_node);
    now = l.tp;
  } else if (size == "pp") {
    all = Divisors(job.world, kMostPp);
    now = l.pp;
  } else if (size == "cp") {
    all = Divisors(kMostCp, kMostCp);
    now = l.cp;
  } else if (size == "ep" && moe) {
    all = Divisors(job.shape.experts, kMostEp);
    now = l.ep;
  } else if (size == "etp" && moe) {
    all = {1};  // splitting fine experts further helps nobody; undoing a split may
    now = l.etp;
  } else if (size == "vp") {
    all = Divisors(kVirtualStages, kMostVp);
    now = l.vp;
  } else if (size == "mbs") {
    all = {1, 2, 4, 8, 16};
    now = static_cast<int>(job.batch.mbs);
  }
  std::erase(all, now);
  return all;
}

void Put(Sizes& s, std::string_view size, int value) {
  if (size == "mbs") {
    s.mbs = value;
    return;
  }
  std::optional<int>& field = size == "tp"    ? s.tp
                              : size == "pp"  ? s.pp
                              : size == "ep"  ? s.ep
                              : size == "etp" ? s.etp
                              : size == "cp"  ? s.cp
                                              : s.vp;
  field = value;
}

// Each of `all` as it is and with every other value of one size.
std::vector<Sizes> Expand(const TrainingJob& job, const std::vector<Sizes>& all,
                          std::string_view size) {
  std::vector<Sizes> out = all;
  for (const int value : ValuesOf(job, size)) {
    for (Sizes s : all) {
      Put(s, size, value);
      out.push_back(s);
    }
  }
  return out;
}

// Each of `all` with the splits of the layers that go with it.
std::vector<Sizes> ExpandSplits(const TrainingJob& job, const std::vector<Sizes>& all) {
  std::vector<Sizes> out;
  const Layout& l = job.layout;
  for (const Sizes& s : all) {
    for (const auto& [first, last] : SplitsOf(job, s.pp.value_or(l.pp), s.vp.value_or(l.vp))) {
      Sizes split = s;
      if (first != l.first_layers.value_or(0) || last != l.last_layers.value_or(0)) {
        split.first = first;
        split.last = last;
      }
      out.push_back(split);
    }
  }
  return out;
}

// Whether the lever itself moves, and not only what may follow it: the first of its sizes, or the
// split where the lever is the one of the stages.
bool Moves(const CatalogLever& lever, const Sizes& s) {
  const std::string& self = lever.sizes.front();
  if (self == "tp") return s.tp.has_value();
  if (self == "pp") return s.pp || s.first;
  if (self == "ep") return s.ep || s.etp;
  if (self == "cp") return s.cp.has_value();
  if (self == "vp") return s.vp.has_value();
  return s.mbs.has_value();
}

}  // namespace

std::vector<Sizes> MovesOf(const CatalogLever& lever, const TrainingJob& job) {
  std::vector<Sizes> all(1);
  for (const std::string& size : lever.sizes) {
    if (size != "first" && size != "last") all = Expand(job, all, size);
  }
  std::erase_if(all, [&](const Sizes& s) { return !Divides(job, s); });
  if (Has(lever.sizes, "first")) all = ExpandSplits(job, all);
  std::erase_if(all, [&](const Sizes& s) { return !Moves(lever, s); });
  return all;
}

}  // namespace attune::rules
