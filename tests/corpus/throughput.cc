// Kind `throughput`: published training rates (format of facts/published_throughput.csv) through
// the step model. A row's answer is the predicted tokens/s/GPU, `oom`, or `not modelled: why`, made
// from its input columns alone. A row with an answer has passed; whether the answers are any good
// is what the bars decide: closing lines that pass or fail by themselves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "corpus.h"
#include "throughput_score.h"

namespace attune::corpus {
namespace {

// Bars of the model, over all rows with a stated layout.
constexpr double kMedian = 0.06, kP90 = 0.25, kSigns = 0.90, kRanWrong = 0.03, kRanks = 0.90,
                 kNotModelled = 0.10;

std::string Percent(double x) { return fmt::format("{:.1f}%", 100 * x); }

Row Line(std::string text) {
  Row row;
  row.id = std::move(text);
  row.closing = true;
  row.outcome = Outcome::kPassed;
  return row;
}
Row Bar(std::string text, bool met, std::string wanted) {
  Row row = Line(std::move(text));
  row.outcome = met ? Outcome::kPassed : Outcome::kFailed;
  row.bar = true;
  row.expected = std::move(wanted);
  row.answer = row.id;
  return row;
}

bool Mixture(const ThroughputRow& row) { return row.job.shape.experts > 0; }

std::string Family(const ThroughputRow& row) {
  const char* const generation[] = {"Ampere", "Hopper", "Blackwell", "Instinct"};
  return row.framework + (Mixture(row) ? " MoE " : " dense ") +
         generation[static_cast<int>(row.machine.architecture)];
}

void Families(const std::vector<ThroughputRow>& rows, const std::vector<Prediction>& predictions,
              std::vector<Row>& out) {
  std::map<std::string, std::vector<double>> errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (const std::optional<double> e = ErrorOf(rows[i], predictions[i])) {
      errors[Family(rows[i])].push_back(std::fabs(*e));
    }
  }
  for (const auto& [family, list] : errors) {
    out.push_back(Line(fmt::format("family {}: {} rows, median {}", family, list.size(),
                                   Percent(MedianOf(list)))));
  }
}

void Accuracy(const Score& s, const char* how, bool decides, std::vector<Row>& out) {
  const std::string with = std::string(" (") + how + ")";
  const auto add = [&](std::string text, bool met, const char* wanted) {
    out.push_back(decides ? Bar(std::move(text), met, wanted) : Line(std::move(text)));
  };
  add(fmt::format("p90 {} over {} rows{}", Percent(s.p90), s.compared, with), s.p90 <= kP90,
      "p90 <= 25%");
  if (s.pairs > 0) {
    add(fmt::format("sign right in {} of {} pairs{}", s.pairs_right, s.pairs, with),
        s.pairs_right >= kSigns * s.pairs, "right in 90% of the pairs");
  }
}

// Of the pairs of Accuracy, those where both rows state what differs.
void StatedPairs(const Score& s, const char* how, std::vector<Row>& out) {
  if (s.stated_pairs == 0) return;
  out.push_back(Line(fmt::format("sign right in {} of {} pairs that state what differs ({})",
                                 s.stated_right, s.stated_pairs, how)));
}

// GLM-4.5 as measured: the two rows whose layouts the paper only estimates are left out by their
// ids, which bear on this line alone.
void RankLine(const std::vector<ThroughputRow>& rows, const std::vector<Prediction>& predictions,
              std::vector<Row>& out) {
  std::vector<double> predicted, published;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].model != "GLM-4.5" || rows[i].id == "T574" || rows[i].id == "T575") continue;
    if (!ErrorOf(rows[i], predictions[i])) continue;
    predicted.push_back(predictions[i].tokens);
    published.push_back(*rows[i].published);
  }
  if (published.size() < 3) return;
  const double rho = Spearman(predicted, published);
  out.push_back(Bar(fmt::format("Spearman {:.3f} over {} GLM-4.5 rows", rho, published.size()),
                    rho >= kRanks, "Spearman >= 0.9"));
}

void MemoryLines(const Score& s, std::vector<Row>& out) {
  if (s.ooms > 0) {
    out.push_back(
        Bar(fmt::format("predicted out of memory: {} of {} that were", s.ooms_right, s.ooms),
            s.ooms_right == s.ooms, "all of them"));
  }
  if (s.ran > 0) {
    out.push_back(Bar(fmt::format("predicted out of memory but ran: {} of {}", s.ran_wrong, s.ran),
                      s.ran_wrong <= kRanWrong * s.ran, "at most 3%"));
  }
}

Row AnswerOf(const ThroughputRow& row, const Prediction& p) {
  Row out;
  out.id = row.id;
  out.input = row.input;
  out.outcome = Outcome::kPassed;
  if (!p.modelled) {
    out.answer = "not modelled: " + row.not_modelled;
  } else if (!p.fits) {
    out.answer = "oom";
  } else {
    out.answer = fmt::format("{:.1f}", p.tokens);
  }
  if (!row.bad_result.empty()) {
    out.outcome = Outcome::kSkipped;
    out.why = row.bad_result;
  } else if (row.outcome == "oom") {
    out.note = "published oom";
  } else if (row.published) {
    out.note = fmt::format("published {:.1f}", *row.published);
    if (const std::optional<double> e = ErrorOf(row, p)) {
      out.note +=
          fmt::format("  error {:+.1f}%{}", 100 * *e, p.fits ? "" : "  (of the time alone)");
    }
  }
  return out;
}

}  // namespace

Result<std::vector<Row>> ReadThroughput(const std::vector<std::string>& paths) {
  std::vector<ThroughputRow> rows;
  for (const std::string& path : paths) {
    ATTUNE_TRY(std::vector<ThroughputRow> more, ReadThroughputRows(path));
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  const sim::Coefficients c = sim::BuiltInCoefficients();
  const std::vector<Prediction> by_version =
      Predict(rows, c, [](const ThroughputRow& r) { return StackOf(r, true); });
  const std::vector<Prediction> by_framework =
      Predict(rows, c, [](const ThroughputRow& r) { return StackOf(r, false); });
  std::vector<Row> out;
  int with_layout = 0, not_modelled = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.push_back(AnswerOf(rows[i], by_version[i]));
    if (!rows[i].states_layout) continue;
    ++with_layout;
    not_modelled += by_version[i].modelled ? 0 : 1;
  }
  Families(rows, by_version, out);
  out.push_back(
      Bar(fmt::format("not modelled: {} of {} rows that state a layout", not_modelled, with_layout),
          not_modelled <= kNotModelled * with_layout, "at most 10%"));
  const Score versions = ScoreOf(rows, by_version), frameworks = ScoreOf(rows, by_framework);
  // Without published values (a blanked file) there is nothing to compare: the answers stand alone.
  if (versions.compared == 0) return out;
  out.push_back(
      Line(fmt::format("one profile a framework: median error {}", Percent(frameworks.median))));
  Accuracy(frameworks, "one profile a framework", false, out);
  StatedPairs(frameworks, "one profile a framework", out);
  Accuracy(versions, "stack profiles", true, out);
  StatedPairs(versions, "stack profiles", out);
  MemoryLines(versions, out);
  RankLine(rows, by_version, out);
  out.push_back(Bar("median error " + Percent(versions.median), versions.median <= kMedian,
                    "median error <= 6%"));
  return out;
}

}  // namespace attune::corpus
