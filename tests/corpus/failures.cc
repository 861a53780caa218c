// `failures DIR`: texts of failed (and healthy) runs; the answer is the failure class.
#include "attune/base/text.h"
#include "corpus.h"
#include "log_rows.h"

namespace attune::corpus {

Result<std::vector<Row>> ReadFailures(const std::vector<std::string>& paths) {
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    ATTUNE_TRY(const Folder folder, ReadFolder(path));
    for (const Folder::File& file : folder.files) {
      Row row;
      row.id = file.name;
      row.input = file.bytes;
      const WholeLog log = ReadWholeLog(file.bytes);
      const std::optional<FailureSign>& failure = log.news.failure;
      row.answer = failure ? failure->cls : "healthy_warning";
      const auto expected = file.cells.find("expected_class");
      if (expected == file.cells.end() || expected->second.empty()) {
        row.why = "no expected_class";
      } else {
        row.expected = expected->second;
        row.outcome = row.answer == row.expected ? Outcome::kPassed : Outcome::kFailed;
        // A class without the line that decided it is a guess.
        if (failure && (failure->line.empty() || failure->line_number < 1)) {
          row.outcome = Outcome::kFailed;
          row.expected += " with a line of evidence";
        }
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace attune::corpus
