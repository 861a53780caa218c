#include "gate_loss.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "attune/base/text.h"
#include "attune/gates/loss_check.h"
#include "attune/gates/step0_check.h"
#include "attune/logs/log_parser.h"

namespace attune::cli {
namespace {

constexpr std::size_t kHead = std::size_t{256} << 10;

Calibration OfOneRun(const std::vector<Step>& steps) {
  Calibration c;
  for (const Step& step : steps) {
    std::map<std::string, Calibration::Reference> losses;
    for (const auto& [name, value] : step.losses) {
      losses[name] = {.mean = value, .sd = 0, .n = 1, .e_sd = 0};
    }
    c.losses.push_back(std::move(losses));
    c.steps.emplace_back();
  }
  return c;
}

}  // namespace

Result<std::vector<Step>> ReadStepsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string piece(kHead, '\0');
  in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  piece.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  if (piece.empty()) {
    return Fail(ErrorCode::kNotFound, EscapeForDisplay(path) + " is empty or can't be read");
  }
  const std::string dialect = DetectDialect(piece);
  if (dialect.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                EscapeForDisplay(path) + ": no log in a form that attune knows");
  }
  ATTUNE_TRY(const auto parser, MakeLogParser({dialect, ""}));
  std::vector<Step> steps;
  const auto take = [&] {
    LogNews news = parser->Take();
    std::move(news.steps.begin(), news.steps.end(), std::back_inserter(steps));
  };
  for (;;) {
    parser->Feed(piece, -1);
    take();
    if (!in) break;
    piece.resize(kHead);
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    piece.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  }
  parser->Finish();
  take();
  if (steps.empty()) {
    return Fail(ErrorCode::kInvalidInput, EscapeForDisplay(path) + " holds no training step");
  }
  return steps;
}

LossComparison CompareLosses(const std::vector<Step>& baseline,
                             const std::vector<Step>& candidate) {
  constexpr Thresholds kLimits{};
  LossComparison result;
  const Calibration calibration = OfOneRun(baseline);
  std::vector<Finding> findings;
  if (baseline.front().iteration != candidate.front().iteration) {
    findings.push_back({Severity::kRefuse, "loss.other_start", "",
                        std::to_string(baseline.front().iteration),
                        std::to_string(candidate.front().iteration),
                        "the two runs do not begin with the same iteration"});
  }
  Step0Input first;
  first.calibration = &calibration;
  first.step = &candidate.front();
  const Step0Verdict step0 = CheckStep0(first, kLimits);
  result.shift = step0.shift;
  findings.insert(findings.end(), step0.verdict.findings.begin(), step0.verdict.findings.end());
  const GateVerdict losses =
      CheckLosses(candidate, calibration, false, LossLevel::kLeading, kLimits);
  findings.insert(findings.end(), losses.findings.begin(), losses.findings.end());
  result.compared = std::min(baseline.size(), candidate.size());
  result.verdict = VerdictOf(std::move(findings));
  return result;
}

}  // namespace attune::cli
