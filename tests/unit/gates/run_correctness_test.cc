// Step 0, readback, loss terms and trajectory.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "attune/gates/loss_check.h"
#include "attune/gates/readback_check.h"
#include "attune/gates/step0_check.h"

namespace attune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Calibration WithLosses(int steps, const std::map<std::string, double>& means) {
  Calibration calibration;
  for (int n = 0; n < steps; ++n) {
    auto& at = calibration.losses.emplace_back();
    for (const auto& [name, mean] : means) {
      at[name].mean = mean;
      at[name].n = 5;
    }
  }
  return calibration;
}

std::vector<Step> StepsWith(int steps, const std::map<std::string, double>& losses) {
  std::vector<Step> made(static_cast<std::size_t>(steps));
  for (int n = 0; n < steps; ++n) {
    made[static_cast<std::size_t>(n)].iteration = n + 1;
    made[static_cast<std::size_t>(n)].losses = losses;
  }
  return made;
}

std::string FirstRule(const GateVerdict& verdict) {
  return verdict.admitted ? "" : verdict.FirstRefusal()->rule;
}

// ----- step 0

struct Step0Case {
  Calibration calibration = WithLosses(1, {{"lm loss", 10}});
  Step step;
  std::vector<LeverClass> classes = {LeverClass::kBatching};
  Step0Input input;

  Step0Verdict Verdict() {
    input.calibration = &calibration;
    input.step = &step;
    input.classes = classes;
    return CheckStep0(input, Thresholds{});
  }
};

TEST(CheckStep0, RefusesWhatIsNotFiniteOrNotThere) {
  for (const double loss : {kNan, kInfinity, -kInfinity}) {
    Step0Case c;
    c.step.losses["lm loss"] = loss;
    EXPECT_EQ(FirstRule(c.Verdict().verdict), "step0.loss");
  }
  Step0Case missing;
  missing.step.losses["z_loss"] = 10;
  EXPECT_EQ(FirstRule(missing.Verdict().verdict), "step0.loss");
  Step0Case nan;
  nan.step.losses["lm loss"] = 10;
  nan.step.nan = true;
  EXPECT_EQ(FirstRule(nan.Verdict().verdict), "step0.loss");
}

TEST(CheckStep0, WithoutABaselineNothingPasses) {
  Step0Case c;
  c.step.losses["lm loss"] = 10;
  c.calibration.losses.clear();
  EXPECT_FALSE(c.Verdict().verdict.admitted);
  c.calibration.losses.emplace_back();
  EXPECT_FALSE(c.Verdict().verdict.admitted);
}

TEST(CheckStep0, ComparesTheMainLossByName) {
  Step0Case c;
  c.calibration = WithLosses(1, {{"lm loss", 10}, {"a_loss", 1}});
  c.step.losses = {{"lm loss", 10}, {"a_loss", 5}};
  EXPECT_TRUE(c.Verdict().verdict.admitted) << "other terms are C4's";
  EXPECT_EQ(MainLoss({{"loss", 1}, {"z_loss", 1}}), "loss");
  EXPECT_EQ(MainLoss({{"nll", 1}}), "nll");
  EXPECT_EQ(MainLoss({{"a", 1}, {"b", 1}}), "") << "two strangers: no main loss";
}

TEST(CheckStep0, ShowsWhatItCompared) {
  Step0Case c;
  c.step.losses["lm loss"] = 12;
  const Step0Verdict verdict = c.Verdict();
  EXPECT_NEAR(verdict.shift, 0.2, 1e-12);
  EXPECT_EQ(verdict.verdict.findings[0].was, "10");
  EXPECT_EQ(verdict.verdict.findings[0].now, "12");
  EXPECT_EQ(verdict.verdict.findings[0].key, "lm loss");
}

TEST(CheckStep0, ARecipeCannotRaiseTheLimit) {
  Step0Case c;
  c.step.losses["lm loss"] = 10.3;
  c.input.recipe_limit = 0.5;
  EXPECT_FALSE(c.Verdict().verdict.admitted);
}

TEST(CheckStep0, AClassThatIsNeverAChangeMayNotShiftAtAll) {
  Step0Case c;
  c.classes = {LeverClass::kObjective};
  c.step.losses["lm loss"] = 10.0001;
  EXPECT_TRUE(c.Verdict().alarm);
}

TEST(CheckStep0, IncomparableLayoutsAreSaidToBeWeak) {
  Step0Case c;
  c.step.losses["lm loss"] = 10;
  c.input.incomparable = true;
  const Step0Verdict verdict = c.Verdict();
  EXPECT_TRUE(verdict.weak);
  EXPECT_EQ(verdict.verdict.findings.back().rule, "step0.weak");
}

// ----- C4

TEST(CheckLossTerms, EveryTermOfTheBaselineIsLogged) {
  const Calibration calibration = WithLosses(8, {{"lm loss", 2}, {"load_balancing_loss", 0.01}});
  const Thresholds limits;
  EXPECT_TRUE(CheckLossTerms(StepsWith(8, {{"lm loss", 2}, {"load_balancing_loss", 0.0115}}),
                             calibration, false, limits)
                  .admitted);
  EXPECT_EQ(FirstRule(CheckLossTerms(StepsWith(8, {{"lm loss", 2}}), calibration, false, limits)),
            "loss.term_missing");
  EXPECT_EQ(FirstRule(CheckLossTerms(StepsWith(8, {{"lm loss", 2}, {"load_balancing_loss", 0}}),
                                     calibration, false, limits)),
            "loss.term_zero");
  EXPECT_EQ(FirstRule(CheckLossTerms(StepsWith(8, {{"lm loss", 2}, {"load_balancing_loss", 0.005}}),
                                     calibration, false, limits)),
            "loss.term_shift")
      << "the halved balancing loss";
  EXPECT_EQ(FirstRule(CheckLossTerms(StepsWith(8, {{"lm loss", 2}, {"load_balancing_loss", kNan}}),
                                     calibration, false, limits)),
            "loss.term_missing");
}

TEST(CheckLossTerms, ATermThatTheBaselineHasAtZeroStaysZero) {
  const Calibration calibration = WithLosses(8, {{"lm loss", 2}, {"z_loss", 0}});
  const Thresholds limits;
  EXPECT_TRUE(
      CheckLossTerms(StepsWith(8, {{"lm loss", 2}, {"z_loss", 0}}), calibration, false, limits)
          .admitted);
  EXPECT_EQ(FirstRule(CheckLossTerms(StepsWith(8, {{"lm loss", 2}, {"z_loss", 0.1}}), calibration,
                                     false, limits)),
            "loss.term_shift");
}

TEST(CheckLossTerms, WithoutReferencesOrStepsNothingPasses) {
  const Thresholds limits;
  EXPECT_FALSE(
      CheckLossTerms(StepsWith(8, {{"lm loss", 2}}), Calibration{}, false, limits).admitted);
  EXPECT_FALSE(
      CheckLossTerms(StepsWith(2, {{"lm loss", 2}}), WithLosses(8, {{"lm loss", 2}}), false, limits)
          .admitted);
}

// ----- C6

TEST(CheckTrajectory, ALossThatDisappearsOrExplodesIsRefused) {
  const Calibration calibration = WithLosses(8, {{"lm loss", 2}});
  const Thresholds limits;
  std::vector<Step> steps = StepsWith(8, {{"lm loss", 2}});
  EXPECT_TRUE(CheckTrajectory(steps, calibration, 8, limits).admitted);
  steps[5].losses["lm loss"] = kNan;
  EXPECT_EQ(FirstRule(CheckTrajectory(steps, calibration, 8, limits)), "loss.not_finite");
  steps[5].losses.clear();
  EXPECT_EQ(FirstRule(CheckTrajectory(steps, calibration, 8, limits)), "loss.missing");
  steps[5].losses["lm loss"] = 2;
  steps[5].nan = true;
  EXPECT_EQ(FirstRule(CheckTrajectory(steps, calibration, 8, limits)), "loss.missing");
}

TEST(CheckTrajectory, JudgesNoFurtherThanTheBaselineWent) {
  const Calibration calibration = WithLosses(8, {{"lm loss", 2}});
  std::vector<Step> steps = StepsWith(12, {{"lm loss", 2}});
  steps[10].losses["lm loss"] = 5;
  EXPECT_TRUE(CheckTrajectory(steps, calibration, 8, Thresholds{}).admitted);
}

TEST(CheckTrajectory, NamesTheIteration) {
  const Calibration calibration = WithLosses(8, {{"lm loss", 2}});
  std::vector<Step> steps = StepsWith(8, {{"lm loss", 2}});
  steps[6].losses["lm loss"] = 2.1;
  const GateVerdict verdict = CheckTrajectory(steps, calibration, 8, Thresholds{});
  EXPECT_NE(verdict.findings[0].why.find("iteration 7"), std::string::npos)
      << verdict.findings[0].why;
}

TEST(CheckTrajectory, WithoutReferencesNothingPasses) {
  EXPECT_FALSE(CheckTrajectory({}, Calibration{}, 0, Thresholds{}).admitted);
}

TEST(CheckLosses, AFinalRunThatEndedSoonerSaysSo) {
  const Calibration calibration = WithLosses(10, {{"lm loss", 2}});
  const std::vector<Step> steps = StepsWith(9, {{"lm loss", 2}});
  const GateVerdict final = CheckLosses(steps, calibration, false, LossLevel::kFinal, Thresholds{});
  ASSERT_EQ(final.findings.size(), 1U);
  EXPECT_EQ(final.findings[0].rule, "loss.fewer_steps");
  EXPECT_TRUE(final.admitted);
  EXPECT_TRUE(
      CheckLosses(steps, calibration, false, LossLevel::kLeading, Thresholds{}).findings.empty());
  EXPECT_FALSE(
      CheckLosses(std::span(steps).first(7), calibration, false, LossLevel::kFinal, Thresholds{})
          .admitted);
}

// ----- C7

struct Blocks {
  ArgumentBlock baseline = {{"lr", "0.0001"}, {"micro_batch_size", "1"}, {"rank", "0"}};
  ArgumentBlock candidate = baseline;
  ReadbackInput input;

  ReadbackVerdict Verdict() {
    input.baseline = &baseline;
    input.candidate = &candidate;
    return CheckReadback(input, Thresholds{});
  }
  std::string Rule() { return FirstRule(Verdict().verdict); }
};

TEST(CheckReadback, EqualBlocksPass) {
  Blocks b;
  EXPECT_TRUE(b.Verdict().available);
  EXPECT_EQ(b.Rule(), "");
  b.candidate["lr"] = "1e-4";
  EXPECT_EQ(b.Rule(), "") << "another spelling of the same number";
}

TEST(CheckReadback, ADifferenceThatNothingAccountsForIsRefusedByName) {
  Blocks b;
  b.candidate["lr"] = "0.001";
  EXPECT_EQ(b.Rule(), "readback.unexplained");
  EXPECT_EQ(b.Verdict().verdict.findings[0].key, "lr");
  EXPECT_EQ(b.Verdict().verdict.findings[0].was, "0.0001");
  EXPECT_EQ(b.Verdict().verdict.findings[0].now, "0.001");
}

TEST(CheckReadback, AKeyOnOneSideOnlyIsRefused) {
  Blocks more;
  more.candidate["clip_grad"] = "0";
  EXPECT_EQ(more.Rule(), "readback.added");
  Blocks less;
  less.candidate.erase("lr");
  EXPECT_EQ(less.Rule(), "readback.missing");
}

TEST(CheckReadback, TheLeverMustArriveWithItsValue) {
  Blocks b;
  b.input.intended["micro_batch_size"] = "2";
  EXPECT_EQ(b.Rule(), "readback.value") << "still 1: the flag was ignored";
  b.candidate["micro_batch_size"] = "2";
  EXPECT_EQ(b.Rule(), "");
  b.candidate["micro_batch_size"] = "4";
  EXPECT_EQ(b.Rule(), "readback.value");
  b.candidate.erase("micro_batch_size");
  EXPECT_EQ(b.Rule(), "readback.missing");
}

TEST(CheckReadback, AnUnsetLeverHasAnyDefaultAndIsNoted) {
  Blocks b;
  b.input.intended["micro_batch_size"] = std::nullopt;
  b.candidate["micro_batch_size"] = "7";
  const ReadbackVerdict verdict = b.Verdict();
  EXPECT_TRUE(verdict.verdict.admitted);
  EXPECT_EQ(verdict.verdict.findings[0].rule, "readback.default");
}

TEST(CheckReadback, InstrumentedAndDerivedKeysHaveTheValuesOfOurRules) {
  Blocks b;
  b.baseline["exit_interval"] = "100";
  b.candidate["exit_interval"] = "40";
  b.input.instrumented["exit_interval"] = "40";
  b.baseline["data_parallel_size"] = "1";
  b.candidate["data_parallel_size"] = "2";
  b.input.derived["data_parallel_size"] = "2";
  EXPECT_EQ(b.Rule(), "");
  b.candidate["data_parallel_size"] = "4";
  EXPECT_EQ(b.Rule(), "readback.value");
  b.candidate["data_parallel_size"] = "2";
  b.candidate["exit_interval"] = "41";
  EXPECT_EQ(b.Rule(), "readback.value");
}

TEST(CheckReadback, ADerivedKeyThatNobodyPrintsIsNotMissed) {
  Blocks b;
  b.input.derived["padded_vocab_size"] = "50304";
  EXPECT_EQ(b.Rule(), "");
}

TEST(CheckReadback, PerLaunchKeysMayDiffer) {
  Blocks b;
  b.candidate["rank"] = "3";
  EXPECT_EQ(b.Rule(), "readback.unexplained");
  b.input.per_launch = PerLaunchKeys();
  EXPECT_EQ(b.Rule(), "");
}

TEST(CheckReadback, WithoutABlockItIsNotAvailable) {
  Blocks b;
  b.candidate.clear();
  const ReadbackVerdict verdict = b.Verdict();
  EXPECT_FALSE(verdict.available);
  EXPECT_EQ(verdict.verdict.findings[0].rule, "readback.not_available");
}

TEST(SameBlockValue, NumbersByValueAndWordsByLetter) {
  EXPECT_TRUE(SameBlockValue("1e-05", "0.00001"));
  EXPECT_FALSE(SameBlockValue("True", "true"));
  EXPECT_FALSE(SameBlockValue("None", "0"));
  EXPECT_FALSE(SameBlockValue("", "0"));
}

TEST(IntendedKeys, AreWhatTheBlockMustShow) {
  const auto parse = [](const std::vector<std::string>& tokens) {
    return Effective{ParseArguments(tokens), {}};
  };
  const Effective baseline =
      parse({"--micro-batch-size", "1", "--recompute", "--lr", "1e-4", "--moe-list", "a"});
  const Effective candidate = parse({"--micro-batch-size", "2", "--lr", "1e-4", "--overlap",
                                     "--no-fusion", "--moe-list", "a", "b"});
  const auto intended = IntendedKeys(baseline, candidate,
                                     {{"--no-fusion", {.key = "fusion", .when_present = "False"}}});
  const std::map<std::string, std::optional<std::string>> wanted = {{"micro_batch_size", "2"},
                                                                    {"recompute", "False"},
                                                                    {"overlap", "True"},
                                                                    {"fusion", "False"},
                                                                    {"moe_list", "['a', 'b']"}};
  EXPECT_EQ(intended, wanted);
  const auto back = IntendedKeys(candidate, baseline,
                                 {{"--no-fusion", {.key = "fusion", .when_present = "False"}}});
  EXPECT_EQ(back.at("fusion"), std::nullopt) << "its default is the framework's";
  EXPECT_EQ(back.at("overlap"), "False");
}

TEST(IntendedKeys, AValueThatWasUnsetHasAnUnknownDefault) {
  const std::vector<std::string> with = {"--bucket-size", "4"};
  const auto intended = IntendedKeys({ParseArguments(with), {}}, {}, {});
  EXPECT_EQ(intended.at("bucket_size"), std::nullopt);
}

TEST(DerivedMegatronKeys, FollowTheLayout) {
  TrainingJob job;
  job.layout.tp = 1;
  job.layout.dp = 8;
  job.layout.vp = 4;
  job.layout.sequence_parallel = true;
  job.world = 16;
  job.batch.padded_vocab = 151552;
  auto keys = DerivedMegatronKeys(job);
  EXPECT_EQ(keys["data_parallel_size"], "8");
  EXPECT_EQ(keys["sequence_parallel"], "False") << "switched off at TP 1";
  EXPECT_EQ(keys["virtual_pipeline_model_parallel_size"], "4");
  EXPECT_EQ(keys["padded_vocab_size"], "151552");
  job.layout.vp = 1;
  EXPECT_EQ(DerivedMegatronKeys(job)["virtual_pipeline_model_parallel_size"], "None");
}

TEST(CheckPrintedSteps, LearningRateBatchAndSamplesAgree) {
  Calibration calibration;
  std::vector<Step> steps(3);
  for (std::size_t n = 0; n < 3; ++n) {
    auto& reference = calibration.steps.emplace_back();
    reference.learning_rate = 1e-4;
    reference.global_batch = 8;
    reference.consumed_samples = 8 * static_cast<std::int64_t>(n + 1);
    steps[n].learning_rate = reference.learning_rate;
    steps[n].global_batch = reference.global_batch;
    steps[n].consumed_samples = reference.consumed_samples;
  }
  EXPECT_TRUE(CheckPrintedSteps(steps, calibration).admitted);
  steps[2].learning_rate = 2e-4;
  EXPECT_EQ(FirstRule(CheckPrintedSteps(steps, calibration)), "readback.learning_rate");
  steps[2].learning_rate.reset();
  EXPECT_EQ(FirstRule(CheckPrintedSteps(steps, calibration)), "readback.learning_rate")
      << "a field that disappeared is a difference";
  steps[2].learning_rate = 1e-4;
  steps[1].global_batch = 16;
  EXPECT_EQ(FirstRule(CheckPrintedSteps(steps, calibration)), "readback.global_batch");
  steps[1].global_batch = 8;
  steps[0].consumed_samples = 9;
  EXPECT_EQ(FirstRule(CheckPrintedSteps(steps, calibration)), "readback.consumed_samples");
}

}  // namespace
}  // namespace attune
