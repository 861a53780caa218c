// What one kind of corpus gives to the program `attune_corpus`: rows with answers. A kind lives in
// a file of its own (<kind>.cc) and stands in the table of main.cc.
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"

namespace attune::corpus {

enum class Outcome { kPassed, kFailed, kSkipped };

struct Row {
  std::string id;  // as in the file; never part of an answer
  // What the answer depends on, in a canonical form: no id, name, source, note or expected field.
  // `--answers` orders rows by its hash, so that shuffled or renamed rows give the same text.
  std::string input;
  std::string answer;    // one line; made without looking at what the file expects
  std::string expected;  // for the message of a failed row
  Outcome outcome = Outcome::kSkipped;
  std::string why;   // of a skipped row
  std::string note;  // what the file says, printed behind the answer; no part of --answers
  // A line about all rows, printed as `id` alone and left out of --answers. It counts as passed or
  // failed when it is a bar.
  bool closing = false, bar = false;
};

// Error: a path cannot be read or is not of this kind. A row that merely lacks its expected field
// is kSkipped and still has its answer.
using Reader = Result<std::vector<Row>> (*)(const std::vector<std::string>& paths);

// Whole file as bytes.
Result<std::string> ReadFile(const std::string& path);

Result<std::vector<Row>> ReadFailures(const std::vector<std::string>& paths);
Result<std::vector<Row>> ReadLogs(const std::vector<std::string>& paths);
Result<std::vector<Row>> ReadProposals(const std::vector<std::string>& paths);
Result<std::vector<Row>> ReadStatistics(const std::vector<std::string>& paths);
Result<std::vector<Row>> ReadThroughput(const std::vector<std::string>& paths);
Result<std::vector<Row>> ReadTraceFolders(const std::vector<std::string>& paths);

}  // namespace attune::corpus
