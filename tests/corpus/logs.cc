// `logs DIR`: training logs; the answer is what their steps say. Columns as in expected.tsv; one
// that a log cannot give is `-`.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "attune/base/text.h"
#include "corpus.h"
#include "log_rows.h"

namespace attune::corpus {
namespace {

constexpr std::string_view kNothing = "-";

std::string Shown(std::optional<double> value) {
  return value ? fmt::format("{}", *value) : std::string(kNothing);
}

// The main loss; side losses (balancing, z) are none.
std::optional<double> LossOf(const Step& step) {
  for (const std::string_view name : {"lm loss", "loss", "train/loss", "actor/pg_loss"}) {
    if (const auto found = step.losses.find(std::string(name)); found != step.losses.end()) {
      return found->second;
    }
  }
  return std::nullopt;
}

std::optional<double> MedianMs(const std::vector<Step>& steps,
                               const std::vector<ProgressSeen>& bars) {
  std::vector<double> ms;
  for (const ProgressSeen& bar : bars) {
    if (bar.ms > 0) ms.push_back(bar.ms);
  }
  for (const Step& s : steps) {
    if (s.printed_ms > 0) ms.push_back(s.printed_ms);
  }
  if (ms.empty()) return std::nullopt;
  std::sort(ms.begin(), ms.end());
  const std::size_t half = ms.size() / 2;
  return ms.size() % 2 == 1 ? ms[half] : (ms[half - 1] + ms[half]) / 2;
}

struct Column {
  std::string name, value;
};

std::vector<Column> ColumnsOf(const WholeLog& log) {
  const std::vector<Step>& steps = log.news.steps;
  std::optional<double> first_loss, last_loss;
  int skipped = 0, nan = 0;
  for (const Step& s : steps) {
    if (const std::optional<double> loss = LossOf(s)) {
      first_loss = first_loss ? first_loss : loss;
      last_loss = loss;
    }
    skipped += s.skipped;
    nan += s.nan ? 1 : 0;
  }
  // Where a progress bar alone prints step numbers, they are the printed ones.
  const std::vector<ProgressSeen>& bars = log.news.progress;
  const auto number = [&](bool first) {
    if (steps.empty()) return std::string(kNothing);
    if (!bars.empty()) return std::to_string(first ? bars.front().number : bars.back().number);
    return std::to_string(first ? steps.front().iteration : steps.back().iteration);
  };
  const std::string& grad = log.news.last_grad_norm;
  return {{"dialect", log.dialect.empty() ? std::string(kNothing) : log.dialect},
          {"steps", std::to_string(steps.size())},
          {"first_step", number(true)},
          {"last_step", number(false)},
          {"first_loss", Shown(first_loss)},
          {"last_loss", Shown(last_loss)},
          {"median_step_ms", Shown(MedianMs(steps, bars))},
          {"last_grad_norm", grad.empty() ? std::string(kNothing) : grad},
          {"skipped_total", std::to_string(skipped)},
          {"nan_steps", std::to_string(nan)}};
}

// Numbers as decimals ("4.474437E+00" is 4.474437); an empty cell wants nothing, or zero of a
// count.
bool Agrees(const Column& column, const std::string& expected) {
  if (expected.empty()) {
    return column.value == kNothing || column.value == "0";
  }
  return column.value == expected || CompareDecimal(column.value, expected) == 0;
}

}  // namespace

Result<std::vector<Row>> ReadLogs(const std::vector<std::string>& paths) {
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    ATTUNE_TRY(const Folder folder, ReadFolder(path));
    for (const Folder::File& file : folder.files) {
      Row row;
      row.id = file.name;
      row.input = file.bytes;
      const WholeLog log = ReadWholeLog(file.bytes);
      const std::vector<Column> columns = ColumnsOf(log);
      bool agrees = true;
      for (const Column& c : columns) {
        row.answer += (row.answer.empty() ? "" : " ") + c.name + "=" + c.value;
        const auto cell = file.cells.find(c.name);
        const std::string expected = cell == file.cells.end() ? "" : cell->second;
        if (!Agrees(c, expected)) {
          agrees = false;
          row.expected += (row.expected.empty() ? "" : " ") + c.name + "=" + expected;
        }
      }
      const auto dialect = file.cells.find("dialect");
      const std::vector<std::string> known = LogDialects();
      if (dialect == file.cells.end()) {
        row.why = "no expected row";
      } else if (std::find(known.begin(), known.end(), dialect->second) == known.end()) {
        row.why = "dialect " + dialect->second + " is not read yet";
      } else {
        row.outcome = agrees ? Outcome::kPassed : Outcome::kFailed;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace attune::corpus
