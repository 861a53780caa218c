// Joint moves: which ways are kept, where the gates refuse what looks fastest.
#include "outlay.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attune::rules {
namespace {

constexpr double kLeader = 100;  // seconds

// Moves that multiply the step by a factor each, whatever stands beside them.
class Moves {
 public:
  void Add(const std::string& name, double factor) {
    CatalogLever& lever = levers_.emplace_back();
    lever.lever = name;
    lever.modelled = true;
    lever.moves = {{"on", {{Edit::Op::kSet, "--" + name, {}}}, {}}};
    parts_.push_back({&lever, {}, &lever.moves.front()});
    factors_.push_back(factor);
  }

  // Names of the levers of each candidate that is laid out.
  std::set<std::set<std::string>> LaidOut(const Space::Admits& admits) const {
    const auto make = [&](std::vector<Part> parts) -> std::optional<Candidate> {
      Candidate c{.parts = std::move(parts), .job = {}};
      c.seconds = kLeader;
      for (const Part& part : c.parts) c.seconds *= FactorOf(part);
      return c;
    };
    Outlay outlay(make, admits, kLeader, 0.5);
    outlay.Alone(parts_);
    outlay.Jointly();
    std::set<std::set<std::string>> names;
    for (const Candidate& c : outlay.Take()) names.insert(NamesOf(c));
    return names;
  }

  static std::set<std::string> NamesOf(const Candidate& c) {
    std::set<std::string> names;
    for (const Part& part : c.parts) names.insert(part.lever->lever);
    return names;
  }

 private:
  double FactorOf(const Part& part) const {
    const auto same = [&](const Part& p) { return p.lever == part.lever; };
    const auto at = std::find_if(parts_.begin(), parts_.end(), same) - parts_.begin();
    return factors_[static_cast<std::size_t>(at)];
  }

  std::deque<CatalogLever> levers_;
  std::vector<Part> parts_;
  std::vector<double> factors_;
};

bool Refused(const std::string& lever) { return lever.starts_with("refused"); }

// Sixty that look twice as fast as the four that the gates take.
Moves Crowd() {
  Moves moves;
  for (int i = 0; i < 60; ++i) moves.Add(fmt::format("refused-{}", i), 0.4);
  for (const char* name : {"a", "b", "c", "d"}) moves.Add(name, 0.9);
  return moves;
}

TEST(Outlay, WhatTheGatesRefuseTakesNobodysPlace) {
  const auto admits = [](const Candidate& c) {
    const std::set<std::string> names = Moves::NamesOf(c);
    return std::none_of(names.begin(), names.end(), Refused);
  };
  const std::set<std::set<std::string>> laid_out = Crowd().LaidOut(admits);
  EXPECT_TRUE(laid_out.contains({"a", "b", "c", "d"}));
  for (const std::set<std::string>& names : laid_out) {
    EXPECT_TRUE(names.size() == 1 || std::none_of(names.begin(), names.end(), Refused))
        << *names.begin();
  }
}

TEST(Outlay, WithoutRefusalsTheFastestCrowdTheOthersOut) {
  const auto admits = [](const Candidate&) { return true; };
  EXPECT_FALSE(Crowd().LaidOut(admits).contains({"a", "b", "c", "d"}));
}

}  // namespace
}  // namespace attune::rules
