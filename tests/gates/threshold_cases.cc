#include "threshold_cases.h"

#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "attune/base/text.h"
#include "attune/gates/calibration.h"
#include "attune/gates/comparison.h"
#include "attune/gates/loss_check.h"
#include "attune/gates/measurement_check.h"
#include "attune/gates/ship_check.h"
#include "attune/gates/step0_check.h"

namespace attune {
namespace {

constexpr double kHour = 3'600'000;

// The keys of one case. Reading a key marks it as known; a value that is no number is an error of
// the case, kept until the answer is compared.
class Case {
 public:
  std::string name, check, expect;

  void Add(std::string key, std::string value) { values_[std::move(key)] = std::move(value); }
  bool Has(const std::string& key) {
    read_.insert(key);
    return values_.contains(key);
  }
  std::string Text(const std::string& key) { return Has(key) ? values_[key] : std::string(); }
  double Number(const std::string& key, double otherwise) {
    return Has(key) ? ParseNumber(values_[key]) : otherwise;
  }
  int Whole(const std::string& key, int otherwise) {
    return static_cast<int>(Number(key, otherwise));
  }
  bool Flag(const std::string& key) { return Text(key) == "yes"; }
  std::vector<std::string> Words(const std::string& key) {
    std::vector<std::string> words;
    const std::string text = Text(key);
    for (const std::string_view word : Split(text, ' ')) {
      if (!word.empty()) {
        words.emplace_back(word);
      }
    }
    return words;
  }
  // "3 4x5.5" is 3, 5.5, 5.5, 5.5, 5.5.
  std::vector<double> Numbers(const std::string& key) {
    std::vector<double> numbers;
    for (const std::string& word : Words(key)) {
      const std::size_t x = word.find('x');
      const double count = x == std::string::npos ? 1 : ParseNumber(word.substr(0, x));
      const double value = ParseNumber(x == std::string::npos ? word : word.substr(x + 1));
      numbers.insert(numbers.end(), static_cast<std::size_t>(count), value);
    }
    return numbers;
  }
  std::string Problem() const {
    for (const auto& [key, value] : values_) {
      if (!read_.contains(key)) {
        return "unknown key " + key;
      }
    }
    return problem_;
  }

 private:
  double ParseNumber(const std::string& text) {
    const std::optional<double> number = ParseDouble(text);
    if (!number) {
      problem_ = "no number: " + text;
    }
    return number.value_or(0);
  }
  std::map<std::string, std::string> values_;
  std::set<std::string> read_;
  std::string problem_;
};

std::string YesNo(bool yes) { return yes ? "yes" : "no"; }
std::string Shown(double x) { return fmt::format("{:.6g}", x); }
GpuMillis Hours(double hours) { return {std::llround(hours * kHour)}; }

// ----- calibration

std::string AnswerNoise(const Thresholds& limits, Case& c) {
  MeasureSpec spec;
  const Framework framework =
      c.Text("framework") == "custom" ? Framework::kCustom : Framework::kMegatronLm;
  return Shown(NoiseOf(c.Numbers("scores"), spec, framework, limits).band);
}

std::string AnswerBand(const Thresholds& limits, Case& c) {
  return Shown(BandOf(c.Number("sigma", 0), limits));
}

std::string AnswerRuns(const Thresholds& limits, Case& c) {
  MeasureSpec spec;
  spec.calibration_runs = c.Whole("wanted", 5);
  return std::to_string(PlannedCalibrationRuns(spec, Hours(c.Number("launch_h", 1)),
                                               Hours(c.Number("budget_h", 1)), limits));
}

std::string AnswerMore(const Thresholds& limits, Case& c) {
  return YesNo(NeedMoreCalibration(c.Numbers("scores"), c.Whole("planned", 2),
                                   /*by_budget=*/true, limits));
}

std::string AnswerUnstable(const Thresholds& limits, Case& c) {
  std::vector<CalibrationAttempt> attempts;
  for (const std::string& word : c.Words("attempts")) {
    attempts.push_back({word == "valid", word});
  }
  return UnstableCluster(attempts, limits).empty() ? "steady" : "unstable";
}

std::string AnswerBudget(const Thresholds& limits, Case& c) {
  return Shown(AutoBudget(Hours(c.Number("launch_h", 0)), limits).Hours());
}

// ----- measurement

struct Job {
  MeasureSpec spec;
  Calibration calibration;
  std::vector<Step> steps;
  std::vector<GpuSeen> gpus;
  MeasureInput input;
};

// Steps with printed times; lines arrive `arrival` times as slowly.
void ReadJob(Case& c, Job& job) {
  job.spec.min_seconds = Millis{static_cast<std::int64_t>(c.Number("min_ms", 1))};
  job.spec.cv_max = c.Number("cv_max", 0.05);
  job.spec.half_drift_max = c.Number("half_drift_max", 0.02);
  job.spec.warmup_steps = c.Whole("warmup", 5);
  const double arrival = c.Number("arrival", 1);
  double clock = 1'000;
  for (const double ms : c.Numbers("steps")) {
    clock += ms * arrival;
    Step step;
    step.iteration = static_cast<std::int64_t>(job.steps.size()) + 1;
    step.printed_ms = ms;
    step.arrival_ms = std::llround(clock);
    step.global_batch = 8;
    step.losses["lm loss"] = 2;
    job.steps.push_back(step);
  }
  job.calibration.step_ms = c.Number("baseline_ms", 0);
  job.calibration.own_cv = c.Number("own_cv", 0);
  job.calibration.own_drift = c.Number("own_drift", 0);
  job.calibration.own_half_drift = c.Number("own_half_drift", 0);
  job.calibration.own_mean_over_median = c.Number("own_mean_median", 0);
  std::vector<double> gpu_ms = c.Numbers("gpu_ms"), gpu_mhz = c.Numbers("gpu_mhz");
  for (std::size_t i = 0; i < std::max(gpu_ms.size(), gpu_mhz.size()); ++i) {
    GpuSeen gpu;
    gpu.id = std::to_string(i);
    if (i < gpu_ms.size()) {
      gpu.step_ms = gpu_ms[i];
    }
    if (i < gpu_mhz.size()) {
      gpu.clock_mhz = gpu_mhz[i];
    }
    job.gpus.push_back(gpu);
  }
  job.input.steps = job.steps;
  job.input.spec = &job.spec;
  job.input.calibration = &job.calibration;
  job.input.slots = 1;
  job.input.global_batch = 8;
  job.input.seq_length = 100;
  job.input.gpus = job.gpus;
  if (c.Has("straggler")) {
    job.input.calibration_straggler = c.Number("straggler", 1);
  }
  if (c.Has("mfu")) {  // FLOPs a token that give this utilisation at 800 tokens a second
    job.input.peak_flops = 800;
    job.input.flops_per_token = c.Number("mfu", 0);
  }
}

std::string AnswerMeasure(const Thresholds& limits, Case& c) {
  Job job;
  ReadJob(c, job);
  const MeasuredRun run = Measure(job.input, limits);
  std::string answer(Word(run.validity));
  for (const Finding& finding : run.findings) {
    if (finding.severity == Severity::kRefuse) {
      answer += " " + finding.rule.substr(finding.rule.find('.') + 1);
    }
  }
  return answer;
}

std::string AnswerWindow(const Thresholds& limits, Case& c) {
  Job job;
  ReadJob(c, job);
  const WindowNeed need = LookAtWindow(job.input, limits);
  const char* state = need.full ? "full" : (need.look ? "look" : "open");
  return fmt::format("{} after {}", state, need.warmup);
}

std::string AnswerWanted(const Thresholds& limits, Case& c) {
  MeasureSpec spec;
  spec.min_seconds = Millis{static_cast<std::int64_t>(c.Number("min_ms", 1))};
  return std::to_string(WindowSteps(spec, c.Number("step_ms", 1), limits));
}

// ----- comparison

Calibration CalibrationOf(Case& c) {
  Calibration calibration;
  calibration.runs.resize(static_cast<std::size_t>(c.Whole("runs", 5)));
  calibration.band = c.Number("band", 0.03);
  calibration.sigma = c.Number("sigma", 0);
  calibration.step_sd = c.Number("step_sd", 0);
  calibration.step_lag1 = c.Number("rho", 0);
  calibration.window_steps = c.Whole("window", 10);
  calibration.short_window_bias = c.Number("bias", 0);
  return calibration;
}

std::string AnswerLook(const Thresholds& limits, Case& c) {
  const Calibration calibration = CalibrationOf(c);
  const std::vector<double> leader = c.Numbers("leader");
  const EarlyLook look =
      LookEarly(c.Number("candidate", 0), c.Whole("timed", 5), leader, calibration, limits);
  switch (look.verdict) {
    case EarlyVerdict::kGoOn:
      return "go on";
    case EarlyVerdict::kWin:
      return "win";
    case EarlyVerdict::kStop:
      return "stop";
  }
  return "?";
}

std::string AnswerCompare(const Thresholds& limits, Case& c) {
  const Calibration calibration = CalibrationOf(c);
  const std::vector<double> candidate = c.Numbers("candidate"), leader = c.Numbers("leader");
  const Comparison comparison = Compare(candidate, leader, calibration, limits);
  return std::string(Word(comparison.standing)) + (comparison.near_band ? " near" : "");
}

// ----- correctness

std::string AnswerStep0(const Thresholds& limits, Case& c) {
  Calibration calibration;
  Calibration::Reference reference;
  reference.mean = c.Number("baseline", 10);
  reference.sd = c.Number("spread", 0);
  calibration.losses.push_back({{"lm loss", reference}});
  Step step;
  step.losses["lm loss"] = c.Number("loss", 10);
  std::vector<LeverClass> classes;
  for (const std::string& word : c.Words("class")) {
    classes.push_back(ParseLeverClass(word).value_or(LeverClass::kUnknown));
  }
  Step0Input input;
  input.calibration = &calibration;
  input.step = &step;
  input.classes = classes;
  input.experts = c.Flag("experts");
  input.recipe_limit = c.Number("recipe_limit", 1);
  const Step0Verdict verdict = CheckStep0(input, limits);
  return std::string(verdict.verdict.admitted ? "admitted" : "refused") +
         (verdict.alarm ? " alarm" : "");
}

std::string AnswerLosses(const Thresholds& limits, Case& c) {
  Calibration calibration;
  for (const double loss : c.Numbers("baseline")) {
    Calibration::Reference reference;
    reference.mean = loss;
    reference.e_sd = c.Number("e_sd", 0);
    calibration.losses.push_back({{"lm loss", reference}});
  }
  std::vector<Step> steps;
  for (const double loss : c.Numbers("loss")) {
    steps.emplace_back().losses["lm loss"] = loss;
  }
  const LossLevel level = c.Flag("final") ? LossLevel::kFinal : LossLevel::kLeading;
  const GateVerdict verdict =
      CheckLosses(steps, calibration, c.Flag("same_composition"), level, limits);
  return verdict.admitted ? "admitted" : verdict.FirstRefusal()->rule;
}

// ----- final stage

std::string AnswerBlocks(const Thresholds& limits, Case& c) {
  std::vector<FinalBlock> blocks;
  for (const double ratio : c.Numbers("ratios")) {
    FinalBlock& block = blocks.emplace_back();
    block.baseline = 1;
    block.winner = ratio;
  }
  return YesNo(
      NeedMoreBlocks(blocks, c.Number("band", 0.03), /*asked=*/0, c.Flag("short"), limits));
}

std::string AnswerHeadroom(const Thresholds& limits, Case& c) {
  return Shown(HeadroomLimit(c.Number("recipe", 0), c.Flag("tight"), limits));
}

std::string AnswerFall(const Thresholds& limits, Case& c) {
  return YesNo(MayFallBack(c.Whole("falls", 0), limits));
}

std::string AnswerRehearsal(const Thresholds& limits, Case& c) {
  return std::to_string(RehearsalSteps(c.Whole("shortest", 10), c.Flag("graphs"),
                                       Hours(c.Number("step_h", 0)), Hours(c.Number("budget_h", 1)),
                                       limits));
}

using Answer = std::function<std::string(const Thresholds&, Case&)>;
const std::map<std::string, Answer>& Kinds() {
  static const auto* kinds = new std::map<std::string, Answer>{
      {"band", AnswerBand},       {"blocks", AnswerBlocks}, {"budget", AnswerBudget},
      {"compare", AnswerCompare}, {"fall", AnswerFall},     {"headroom", AnswerHeadroom},
      {"look", AnswerLook},       {"losses", AnswerLosses}, {"measure", AnswerMeasure},
      {"more", AnswerMore},       {"noise", AnswerNoise},   {"rehearsal", AnswerRehearsal},
      {"runs", AnswerRuns},       {"step0", AnswerStep0},   {"unstable", AnswerUnstable},
      {"wanted", AnswerWanted},   {"window", AnswerWindow},
  };
  return *kinds;
}

std::vector<Case> ReadCases(std::string_view text) {
  std::vector<Case> cases;
  bool open = false;
  for (std::string_view line : SplitLines(text)) {
    line = Trim(line);
    if (line.empty()) {
      open = false;
      continue;
    }
    if (line.front() == '#') {
      continue;
    }
    if (!open) {
      cases.emplace_back();
      open = true;
    }
    const std::size_t space = line.find(' ');
    std::string key(line.substr(0, space));
    std::string value(space == std::string_view::npos ? "" : Trim(line.substr(space)));
    Case& c = cases.back();
    if (key == "case") {
      c.name = std::move(value);
    } else if (key == "check") {
      c.check = std::move(value);
    } else if (key == "expect") {
      c.expect = std::move(value);
    } else {
      c.Add(std::move(key), std::move(value));
    }
  }
  return cases;
}

double Moved(double value, bool up) {
  if (value >= 2 && value == std::floor(value)) {
    return value + (up ? 1 : -1);
  }
  if (value > 1) {
    return 1 + (value - 1) * (up ? 1.25 : 0.8);
  }
  if (value > 0.5) {
    return 1 - (1 - value) * (up ? 0.8 : 1.25);
  }
  return value * (up ? 1.25 : 0.8);
}

}  // namespace

std::vector<std::string> RunThresholdCases(const Thresholds& limits, std::string_view text) {
  std::vector<std::string> failures;
  std::vector<Case> cases = ReadCases(text);
  if (cases.empty()) {
    failures.emplace_back("no cases");
  }
  for (Case& c : cases) {
    const auto kind = Kinds().find(c.check);
    if (c.name.empty() || c.expect.empty() || kind == Kinds().end()) {
      failures.push_back(
          fmt::format("{}: no name, no expected answer, or unknown check \"{}\"", c.name, c.check));
      continue;
    }
    const std::string answer = kind->second(limits, c);
    if (const std::string problem = c.Problem(); !problem.empty()) {
      failures.push_back(c.name + ": " + problem);
    } else if (answer != c.expect) {
      failures.push_back(fmt::format("{}: expected {}, got {}", c.name, c.expect, answer));
    }
  }
  return failures;
}

std::vector<ThresholdMutant> ThresholdMutants() {
  std::vector<ThresholdMutant> mutants;
  for (const ThresholdField& field : ThresholdFields()) {
    for (const bool up : {true, false}) {
      ThresholdMutant& mutant = mutants.emplace_back();
      mutant.name = std::string(field.name) + (up ? " up" : " down");
      mutant.limits.*field.value = Moved(mutant.limits.*field.value, up);
    }
  }
  return mutants;
}

}  // namespace attune
