// What the campaign's own failures say about the next launch.
#include "hazards.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "unit/propose/examples.h"

namespace attune::rules {
namespace {

using attune::testing::ExampleRecipe;

constexpr double kSmall = 1e9;  // bytes: no matter what ran out, this is clearly smaller

TrainingJob Baseline() {
  const Recipe recipe = ExampleRecipe("mixtral-8x22b-h100x128");
  const auto job = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  TrainingJob out = std::get<TrainingJob>(job);
  out.layout.vp = 1;
  out.layout.cp = 1;
  out.layout.first_layers = out.layout.last_layers = std::nullopt;
  out.batch.mbs = 1;
  return out;
}

class Past {
 public:
  explicit Past(const TrainingJob& sound) {
    Measured m;
    m.job = sound;
    m.step_seconds = 10;
    history.measured.push_back(m);
  }
  void Failed(const TrainingJob& job, std::size_t steps, bool out_of_memory) {
    RunRecord& run = runs_.emplace_back();
    run.steps.resize(steps);
    Trial t;
    t.run = &run;
    t.job = job;
    t.failed = true;
    t.out_of_memory = out_of_memory;
    history.trials.push_back(t);
  }
  double Risk(const TrainingJob& job) const {
    const Correction none;
    return Hazards(history, none).Of(job, kSmall);
  }

  History history;

 private:
  std::deque<RunRecord> runs_;
};

TEST(Hazards, WhatNoRunHadYetMayMeetADefect) {
  const TrainingJob base = Baseline();
  TrainingJob other = base;
  other.layout.cp = 4;
  other.batch.mbs = 4;
  const Past past(base);
  EXPECT_EQ(past.Risk(base), 0);
  EXPECT_GT(past.Risk(other), 0.1);
  EXPECT_LT(past.Risk(other), 0.3);
}

TEST(Hazards, RiskOfThingsNeverSeenTogetherGrowsFasterThanTheirNumber) {
  const TrainingJob base = Baseline();
  TrainingJob one = base, three = base;
  one.layout.cp = 2;
  three.layout.cp = 2;
  three.layout.vp = 2;
  three.batch.mbs = 2;
  Past past(base);
  const Correction none;
  const auto risk = [&](const TrainingJob& job) {
    return Hazards(past.history, none).OfNovelPairs(job);
  };
  EXPECT_EQ(risk(base), 0);
  EXPECT_GT(risk(one), 0);
  EXPECT_LT(std::log(1 - risk(three)), 3 * std::log(1 - risk(one)));
  // Each was sound alone: what is left is the two and the three of them together.
  const double before = risk(three);
  for (const auto set :
       {+[](TrainingJob& j) { j.layout.cp = 2; }, +[](TrainingJob& j) { j.layout.vp = 2; },
        +[](TrainingJob& j) { j.batch.mbs = 2; }}) {
    Measured m;
    m.job = base;
    set(m.job);
    m.step_seconds = 9;
    past.history.measured.push_back(m);
  }
  EXPECT_EQ(risk(one), 0);
  EXPECT_GT(risk(three), 0);
  EXPECT_LT(risk(three), before);
}

TEST(Hazards, AHangGivesUpTheFamilyAndNotTheRest) {
  const TrainingJob base = Baseline();
  TrainingJob hung = base;
  hung.layout.cp = 4;
  hung.layout.vp = 4;
  hung.batch.mbs = 4;
  Past past(base);
  past.Failed(hung, 2, false);

  // Far enough away to be no likeness, and three of its six suspects remain.
  TrainingJob neighbour = hung;
  neighbour.layout.cp = 2;
  neighbour.layout.vp = 2;
  neighbour.batch.mbs = 2;
  neighbour.layout.pp *= 4;
  neighbour.layout.ep = 1;
  EXPECT_GT(past.Risk(neighbour), 0.95);

  TrainingJob two_left = neighbour;
  two_left.layout.cp = 1;
  EXPECT_LT(past.Risk(two_left), 0.5);

  TrainingJob one_left = base;  // one of its six suspects
  one_left.batch.mbs = 2;
  EXPECT_LT(past.Risk(one_left), 0.3);
}

TEST(Hazards, AJobThatGrewOutOfMemoryIsBlamedOnItsTraits) {
  const TrainingJob base = Baseline();
  TrainingJob wide = base;
  wide.batch.mbs = 4;
  TrainingJob again = wide;
  again.layout.pp *= 4;
  again.layout.tp = 1;

  Past at_once(base), after_steps(base);
  at_once.Failed(wide, 0, true);
  after_steps.Failed(wide, 6, true);
  EXPECT_LT(at_once.Risk(again),
            0.3);  // projected wrongly: a clearly smaller job is another matter
  EXPECT_GT(after_steps.Risk(again), 0.95);
}

TEST(Hazards, SoundRunsAcquit) {
  const TrainingJob base = Baseline();
  TrainingJob hung = base;
  hung.layout.vp = 4;
  hung.batch.mbs = 4;
  Past past(base);
  past.Failed(hung, 2, false);
  TrainingJob wide = base;
  wide.batch.mbs = 4;
  const double before = past.Risk(wide);
  Measured m;
  m.job = wide;
  m.step_seconds = 9;
  past.history.measured.push_back(m);
  EXPECT_LT(past.Risk(wide), before);
  TrainingJob staged = base;
  staged.layout.vp = 4;
  EXPECT_GT(past.Risk(staged), 0.95);  // what is left is to blame
}

}  // namespace
}  // namespace attune::rules
