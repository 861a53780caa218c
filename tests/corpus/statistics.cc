// Kind `statistics`: {"cases": [{id, kind, input, expected}]}. Each answer comes from the function
// that a campaign or a report uses; nothing is computed here.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attune/gates/calibration.h"
#include "attune/gates/step0_check.h"
#include "attune/stats/stats.h"
#include "corpus.h"

namespace attune::corpus {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::vector<double>;

constexpr double kTolerance = 1e-8;  // relative: t, beta and normal quantities
constexpr double kZero = 1e-12;

Numbers Take(const Json& input, const char* name) { return input.at(name).get<Numbers>(); }

// What the functions' contracts exclude is checked here: a file is no reason to abort.
Json Unanswerable(const char* why) { return Json{{"error", why}}; }

Json ExactAnswer(const std::optional<ExactTest>& test) {
  if (!test) return Json{{"error", "too many assignments"}};
  return Json{{"count", test->count},
              {"total", test->total},
              {"p", test->P()},
              {"min_possible_p", test->Floor()}};
}

Json PermTwoSample(const Json& in) {
  const Numbers a = Take(in, "a"), b = Take(in, "b");
  if (a.empty() || b.empty()) return Unanswerable("an empty group");
  Json answer = ExactAnswer(PermutationTest(a, b));
  answer["mean_a"] = Mean(a);
  answer["mean_b"] = Mean(b);
  return answer;
}

Json PermBlock(const Json& in) {
  std::vector<SampleBlock> blocks;
  for (const Json& block : in.at("blocks")) {
    blocks.push_back({Take(block, "a"), Take(block, "b")});
  }
  return ExactAnswer(BlockPermutationTest(blocks));
}

Json SignFlip(const Json& in) {
  const Numbers x = Take(in, "x");
  return x.empty() ? Unanswerable("no values") : ExactAnswer(SignFlipTest(x));
}

Json TotalAnswer(const std::optional<std::uint64_t>& total) {
  if (!total) return Json{{"error", "too many assignments"}};
  return Json{{"total", *total}, {"p", 1.0 / static_cast<double>(*total)}};
}

Json LowestTwoSample(const Json& in) {
  return TotalAnswer(
      AssignmentsTwoSample(in.at("n").get<std::uint64_t>(), in.at("m").get<std::uint64_t>()));
}

Json LowestBlock(const Json& in) {
  return TotalAnswer(AssignmentsInBlocks(
      in.at("blocks").get<std::vector<std::pair<std::uint64_t, std::uint64_t>>>()));
}

Json MeanRuleAnswer(const Json& in) {
  const Numbers a = Take(in, "throughput_a"), b = Take(in, "throughput_b");
  if (a.empty() || b.empty() || Sum(a).Sign() <= 0 || Sum(b).Sign() <= 0) {
    return Unanswerable("throughputs are positive");
  }
  const char* verdict = "tie";
  switch (MeanRule(a, b, in.at("band").get<double>())) {
    case MeanVerdict::kBeats:
      verdict = "beats";
      break;
    case MeanVerdict::kLoses:
      verdict = "loses";
      break;
    case MeanVerdict::kTie:
      break;
  }
  return Json{{"ratio_minus_1", Mean(a) / Mean(b) - 1}, {"verdict", verdict}};
}

// The plain rule: 3 sigma of the sample, complete from 5 runs. `custom` adds no prior.
Json CalibrationAnswer(const Json& in) {
  const Numbers runs = Take(in, "throughput");
  if (runs.empty() || Sum(runs).Sign() <= 0) return Unanswerable("throughputs are positive");
  const Thresholds limits;
  const Noise noise = NoiseOf(runs, MeasureSpec{}, Framework::kCustom, limits);
  return Json{{"mean", noise.mean},
              {"sigma_rel", noise.sigma},
              {"band", BandOf(noise.sigma, limits)},
              {"ok", static_cast<double>(runs.size()) >= limits.full_runs}};
}

Json BandAnswer(const Json& in) {
  const double pct = 100 * BandOf(in.at("sigma_rel_pct").get<double>() / 100, Thresholds{});
  return Json{{"band_pct", pct}, {"printed_pct", pct}};
}

Json BudgetAnswer(const Json& in) {
  Thresholds limits;
  limits.budget_launches = in.at("multiple").get<double>();
  limits.budget_step_gpu_hours = in.at("round_up_to").get<double>();
  const GpuMillis budget =
      AutoBudget(FromGpuHours(in.at("unprofiled_launch_gpu_h").get<double>()), limits);
  return Json{{"budget", budget.Hours()}};
}

Json GainAnswer(const Json& in) {
  const double pct = 100 * (in.at("shipped").get<double>() / in.at("baseline").get<double>() - 1);
  return Json{{"gain_pct", pct}, {"printed_pct", pct}};
}

Json GeomeanAnswer(const Json& in) {
  const Numbers x = Take(in, "x");
  if (x.empty() || *std::min_element(x.begin(), x.end()) <= 0) {
    return Unanswerable("values are positive");
  }
  const double mean = GeometricMean(x);
  return Json{{"geomean", mean}, {"printed", mean}};
}

// Through the gate itself; a loss that is no number stands for one that was printed as nan.
Json Step0Answer(const Json& in) {
  Calibration calibration;
  calibration.losses.push_back({{"lm loss", {.mean = in.at("baseline_loss").get<double>()}}});
  Step step;
  step.losses["lm loss"] = in.at("loss").is_number() ? in.at("loss").get<double>() : std::nan("");
  Thresholds limits;
  limits.step0_shift = in.at("threshold").get<double>();
  Step0Input question;
  question.calibration = &calibration;
  question.step = &step;
  question.recipe_limit = limits.step0_shift;
  const Step0Verdict verdict = CheckStep0(question, limits);
  return Json{{"verdict", verdict.verdict.admitted ? "pass" : "reject"},
              {"shift_pct", 100 * verdict.shift}};
}

Json BinomialAnswer(const Json& in) {
  const auto k = in.at("k").get<std::int64_t>(), n = in.at("n").get<std::int64_t>();
  const double confidence = in.at("confidence").get<double>();
  if (n < 1 || k < 0 || k > n || confidence <= 0 || confidence >= 1) return Unanswerable("k of n");
  const Interval interval = BinomialInterval(k, n, confidence);
  Json answer{{"clopper_pearson", {interval.low, interval.high}},
              {"one_sided_upper_if_zero", nullptr}};
  if (k == 0) answer["one_sided_upper_if_zero"] = UpperRateIfNone(n, confidence);
  return answer;
}

Json FisherAnswer(const Json& in) {
  const auto t = in.at("table").get<std::vector<std::vector<std::int64_t>>>();
  if (t.size() != 2 || t[0].size() != 2 || t[1].size() != 2) return Unanswerable("not 2 x 2");
  if (std::min({t[0][0], t[0][1], t[1][0], t[1][1]}) < 0) return Unanswerable("counts");
  return Json{{"p", FisherGreater(t[0][0], t[0][1], t[1][0], t[1][1])}};
}

Json OneSampleAnswer(const Json& in) {
  const Numbers x = Take(in, "x");
  if (x.size() < 2) return Unanswerable("fewer than two values");
  const TTest test = OneSampleLess(x, in.at("mu").get<double>());
  return Json{{"t", test.t}, {"p", test.p}, {"accept", test.p < in.at("alpha").get<double>()}};
}

Json WelchAnswer(const Json& in) {
  const Numbers a = Take(in, "a"), b = Take(in, "b");
  if (a.size() < 2 || b.size() < 2) return Unanswerable("fewer than two values");
  const TTest test = WelchLess(a, b);
  return Json{{"t", test.t}, {"df", test.df}, {"p", test.p}};
}

Json PredictionAnswer(const Json& in) {
  const Numbers replicas = Take(in, "replicas");
  if (replicas.size() < 2) return Unanswerable("fewer than two replicas");
  const PredictionBand band = MakePredictionBand(replicas, in.at("alpha_two_sided").get<double>());
  return Json{{"low", band.band.low},
              {"high", band.band.high},
              {"t_quantile", band.t},
              {"inside", band.Inside(in.at("new").get<double>())}};
}

Json KnownSigmaAnswer(const Json& in) {
  const KnownSigma rule =
      KnownSigmaRule(Take(in, "x"), in.at("target").get<double>(), in.at("constant").get<double>());
  return Json{{"value", rule.value}, {"accept", rule.accept}};
}

Json ExpectedMaxAnswer(const Json& in) {
  return Json{{"sd_units", ExpectedMaxNormal(in.at("k").get<int>())}};
}

Json FalsePromotionAnswer(const Json& in) {
  const FalsePromotion rate = FalsePromotionRate(
      in.at("sigma_rel").get<double>(), in.at("band").get<double>(), in.at("leader_n").get<int>());
  return Json{{"z", rate.z}, {"p", rate.p}};
}

const std::map<std::string, std::function<Json(const Json&)>>& Kinds() {
  static const auto* kinds = new std::map<std::string, std::function<Json(const Json&)>>{
      {"band", BandAnswer},
      {"binomial_interval", BinomialAnswer},
      {"budget", BudgetAnswer},
      {"calibration", CalibrationAnswer},
      {"expected_max_normal", ExpectedMaxAnswer},
      {"false_promotion", FalsePromotionAnswer},
      {"fisher_exact_greater", FisherAnswer},
      {"gain", GainAnswer},
      {"geomean", GeomeanAnswer},
      {"known_sigma_rule", KnownSigmaAnswer},
      {"lowest_p_block", LowestBlock},
      {"lowest_p_two_sample", LowestTwoSample},
      {"mean_rule", MeanRuleAnswer},
      {"one_sample_t_less", OneSampleAnswer},
      {"perm_block_stratified", PermBlock},
      {"perm_two_sample", PermTwoSample},
      {"prediction_band", PredictionAnswer},
      {"sign_flip_one_sample", SignFlip},
      {"step0_gate", Step0Answer},
      {"welch_t_less", WelchAnswer},
  };
  return *kinds;
}

bool Near(double got, double wanted, double tolerance) {
  return std::abs(got - wanted) <= tolerance * std::max(std::abs(got), std::abs(wanted)) + kZero;
}

// Half a unit of the last digit that `wanted` is written with.
double PrintedTolerance(const Json& wanted) {
  const std::string text = wanted.dump();
  const std::size_t point = text.find('.');
  const int places = point == std::string::npos ? 0 : static_cast<int>(text.size() - point) - 1;
  return 0.5 * std::pow(10.0, -places) + kTolerance;
}

bool Matches(const Json& got, const Json& wanted) {
  if (wanted.is_array()) {
    if (!got.is_array() || got.size() != wanted.size()) return false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!Matches(got[i], wanted[i])) return false;
    }
    return true;
  }
  if (wanted.is_number() && got.is_number()) {
    if (got.is_number_integer() && wanted.is_number_integer()) {
      return got.get<std::int64_t>() == wanted.get<std::int64_t>();
    }
    return Near(got.get<double>(), wanted.get<double>(), kTolerance);
  }
  return got == wanted;
}

// The first field that disagrees; empty when none does.
std::string Disagreement(const Json& answer, const Json& expected) {
  for (const auto& [name, wanted] : expected.items()) {
    if (name == "tolerance_pct") continue;  // says how exact the printed value is
    if (!answer.contains(name)) return name;
    const bool printed = name.rfind("printed", 0) == 0;
    const bool same =
        printed && wanted.is_number() && answer[name].is_number()
            ? std::abs(answer[name].get<double>() - wanted.get<double>()) <=
                  (expected.contains("tolerance_pct") ? expected["tolerance_pct"].get<double>()
                                                      : PrintedTolerance(wanted))
            : Matches(answer[name], wanted);
    if (!same) return name;
  }
  return {};
}

// An id may be a number.
std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Row ReadCase(const Json& item) {
  Row row;
  const Json& kind_field = item.contains("kind") ? item["kind"] : Json();
  row.id = item.contains("id") ? TextOf(item["id"]) : "?";
  const std::string kind = kind_field.is_string() ? kind_field.get<std::string>() : "";
  const Json input = item.value("input", Json::object());
  row.input = kind + " " + nlohmann::json(input).dump();  // keys sorted
  const auto rule = Kinds().find(kind);
  if (rule == Kinds().end()) {
    row.why = "unknown kind " + kind;
    return row;
  }
  try {
    const Json answer = rule->second(input);
    row.answer = answer.dump();
    if (!item.contains("expected") || !item["expected"].is_object() || item["expected"].empty()) {
      row.why = "no expected answer";
      return row;
    }
    row.expected = item["expected"].dump();
    const std::string wrong = Disagreement(answer, item["expected"]);
    row.outcome = wrong.empty() ? Outcome::kPassed : Outcome::kFailed;
    if (!wrong.empty()) row.expected = wrong + " of " + row.expected;
  } catch (const nlohmann::json::exception& e) {
    row.answer = std::string("bad input: ") + e.what();
    row.outcome = Outcome::kFailed;
  }
  return row;
}

}  // namespace

Result<std::vector<Row>> ReadStatistics(const std::vector<std::string>& paths) {
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    ATTUNE_TRY(const std::string text, ReadFile(path));
    const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!file.is_object() || !file.contains("cases") || !file["cases"].is_array()) {
      return Fail(ErrorCode::kInvalidInput, path + ": no list \"cases\"");
    }
    for (const Json& item : file["cases"]) {
      if (!item.is_object()) {
        return Fail(ErrorCode::kInvalidInput, path + ": a case is not an object");
      }
      rows.push_back(ReadCase(item));
    }
  }
  return rows;
}

}  // namespace attune::corpus
