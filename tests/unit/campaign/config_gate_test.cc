// What a campaign's own runs teach the configuration gate: cautions that become refusals.
#include "config_gate.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gates/base_recipes.h"

namespace attune {
namespace {

// How the run of a candidate ended that carried the caution.
struct Past {
  Standing standing = Standing::kRejected;
  RunEnd end = RunEnd::kStopped;
};
constexpr Past kRejected = {Standing::kRejected, RunEnd::kStopped};
constexpr Past kHung = {Standing::kFailed, RunEnd::kHung};
constexpr Past kSlow = {Standing::kFailed, RunEnd::kTooSlow};
constexpr Past kCrashed = {Standing::kFailed, RunEnd::kCrashed};
constexpr Past kNoMemory = {Standing::kFailed, RunEnd::kOomGpu};
constexpr Past kNoHostMemory = {Standing::kFailed, RunEnd::kOomHost};
constexpr Past kNan = {Standing::kFailed, RunEnd::kNan};
constexpr Past kSlower = {Standing::kLoss, RunEnd::kStopped};

// A caution, and a change that meets it.
struct Entry {
  std::string rule;
  Recipe recipe;
  Change change;
};
Entry ThatHangs() {
  return {"defect.E4",
          *BaseRecipe("glm45"),
          {"virtual_pipeline",
           {{Edit::Op::kSet, "--num-virtual-stages-per-pipeline-rank", {"2"}}},
           {}}};
}
Entry ThatCrashes() {
  return {"defect.E23",
          *BaseRecipe("glm45"),
          {"tp_overlap", {{Edit::Op::kSet, "--tp-comm-overlap", {}}}, {}}};
}
Entry ThatIsSilent() {
  Entry entry{"defect.E1",
              *BaseRecipe("glm45"),
              {"tensor_parallel", {{Edit::Op::kSet, "--tensor-model-parallel-size", {"2"}}}, {}}};
  entry.recipe.base.args.Set("--tensor-model-parallel-size", {"1"});
  return entry;
}

GateVerdict VetAfter(const Entry& entry, const std::vector<Past>& past) {
  CampaignState s;
  s.recipe = entry.recipe;
  s.leader.user = entry.recipe.base;
  for (const Past& p : past) {
    RunRecord run;
    run.plan.id = RunId{fmt::format("r{:03}", s.runs.size() + 1)};
    run.end.emplace().detail.end = p.end;
    run.judged.emplace().standing = p.standing;
    ProposalRecord proposal;
    proposal.proposal = Proposal{};
    proposal.verdict.findings = {{Severity::kCaution, entry.rule, "", "", "", ""}};
    proposal.run = run.plan.id;
    s.proposals.push_back(std::move(proposal));
    s.runs.emplace(run.plan.id, std::move(run));
  }
  return VetChange(s, entry.change);
}

bool Refuses(const Entry& entry, const std::vector<Past>& past) {
  const GateVerdict verdict = VetAfter(entry, past);
  const Finding* why = verdict.FirstRefusal();
  EXPECT_TRUE(why == nullptr || why->rule == entry.rule) << why->rule << ": " << why->why;
  return why != nullptr;
}

TEST(VetChange, ACautionThatHungTwiceRefuses) {
  const Entry entry = ThatHangs();
  EXPECT_FALSE(Refuses(entry, {}));
  EXPECT_FALSE(Refuses(entry, {kHung}));
  EXPECT_TRUE(Refuses(entry, {kHung, kHung}));
  EXPECT_TRUE(Refuses(entry, {kHung, kSlower, kCrashed}));
}

TEST(VetChange, WhatWasRejectedOrRanOutOfMemoryDidNotHang) {
  const Entry entry = ThatHangs();
  EXPECT_FALSE(Refuses(entry, {kRejected, kRejected, kRejected}));
  EXPECT_FALSE(Refuses(entry, {kNoMemory, kNoHostMemory, kNoMemory}));
  EXPECT_FALSE(Refuses(entry, {kHung, kRejected, kNoMemory}));
}

TEST(VetChange, WhatHungDidNotCrash) {
  const Entry entry = ThatCrashes();
  EXPECT_FALSE(Refuses(entry, {kHung, kHung, kSlow}));
  EXPECT_FALSE(Refuses(entry, {kHung, kCrashed}));
  EXPECT_TRUE(Refuses(entry, {kCrashed, kCrashed}));
}

TEST(VetChange, ASilentCautionRefusesAfterTwoWrongTrainings) {
  const Entry entry = ThatIsSilent();
  EXPECT_FALSE(Refuses(entry, {kRejected}));
  EXPECT_TRUE(Refuses(entry, {kRejected, kRejected}));
  EXPECT_TRUE(Refuses(entry, {kRejected, kNan}));
  EXPECT_FALSE(Refuses(entry, {kHung, kCrashed, kRejected}));
}

}  // namespace
}  // namespace attune
