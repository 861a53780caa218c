// When the agent may end the search.
#include "stop_rules.h"

#include <gtest/gtest.h>

#include "record.h"

namespace attune {
namespace {

using testing::Move;
using testing::Record;

const Vet kAdmits = [](const Change&) { return VerdictOf({}); };

Diagnosis LaunchBound() {
  Diagnosis d;
  d.source = "trace";
  d.bottlenecks = {{"launch_bound", 0.41, 0.41, 0.15, true, "host waits"},
                   {"optimizer", 0.02, 0.02, 0.08, false, "small"}};
  return d;
}

Recipe Megatron() {
  Recipe r;
  r.framework = Framework::kMegatronLm;
  return r;
}

StopWish Answered() { return {"converged", {{"launch_bound", "recompute was tried"}}}; }

TEST(WhyNotStop, AnArmWithoutADiagnosisIsNotToldItsClasses) {
  Policy policy;
  policy.diagnosis = false;
  Record record(Megatron(), policy);
  record.Calibrate(2, 100, LaunchBound());
  for (const char* flag : {"--a", "--b", "--c"}) {
    record.Try(Move("a", flag, "1", "a"), {Standing::kTie, 100, 0.0});
  }
  EXPECT_EQ(WhyNotStop(record.s, kAdmits, {"converged", {}}), "");
}

TEST(WhyNotStop, WantsFiveLaunchesOrThreeInARowThatDidNotWin) {
  Record record(Megatron());
  record.Calibrate(2, 100, LaunchBound());
  EXPECT_NE(WhyNotStop(record.s, kAdmits, Answered()), "");
  record.Try(Move("a", "--a", "1", "a"), {Standing::kTie, 100, 0.0});
  record.Try(Move("b", "--b", "1", "b"), {Standing::kFailed, 0, {}, RunEnd::kOomGpu});
  EXPECT_NE(WhyNotStop(record.s, kAdmits, Answered()), "");
  record.Try(Move("c", "--c", "1", "c"), {Standing::kLoss, 90, -0.1});
  EXPECT_EQ(WhyNotStop(record.s, kAdmits, Answered()), "");
  record.Try(Move("d", "--d", "1", "d"), {Standing::kWin, 110, 0.1}, LaunchBound());
  EXPECT_NE(WhyNotStop(record.s, kAdmits, Answered()), "") << "a win begins the row again";
  record.Try(Move("e", "--e", "1", "e"), {Standing::kTie, 110, 0.0});
  EXPECT_EQ(WhyNotStop(record.s, kAdmits, Answered()), "") << "five launches";
}

TEST(WhyNotStop, WantsAWordForEachNamedClass) {
  Record record(Megatron());
  record.Calibrate(2, 100, LaunchBound());
  for (const char* name : {"a", "b", "c"}) {
    record.Try(Move(name, std::string("--") + name, "1", name), {Standing::kTie, 100, 0.0});
  }
  EXPECT_EQ(NamedClasses(record.s), std::vector<std::string>{"launch_bound"});
  EXPECT_NE(WhyNotStop(record.s, kAdmits, {"done", {}}).find("launch_bound"), std::string::npos);
  EXPECT_NE(WhyNotStop(record.s, kAdmits, {"done", {{"launch_bound", " "}}}), "");
  EXPECT_EQ(WhyNotStop(record.s, kAdmits, {"done", {{"launch_bound", "nothing fits"}}}), "");
}

TEST(WhyNotStop, ADeclaredSpaceThatIsUsedUpEndsAtOnce) {
  Recipe recipe;
  recipe.base.args = ParseArguments(std::vector<std::string>{"--mbs", "1"});
  recipe.declared = {{"mbs", "--mbs", "", {"1", "2"}, LeverClass::kBatching, {}, {}, {}, ""}};
  Record record(recipe);
  record.Calibrate(2, 100, {});
  const Vet refuses = [](const Change&) { return GateVerdict{}; };
  EXPECT_NE(WhyNotStop(record.s, kAdmits, {"done", {}}), "");
  EXPECT_EQ(WhyNotStop(record.s, refuses, {"done", {}}), "");
}

}  // namespace
}  // namespace attune
