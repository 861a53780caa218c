// attune_corpus KIND PATH... [--answers]: feeds a file of known cases through the code a campaign
// uses and compares. Prints `ID<TAB>ANSWER` a row, then `N passed, N failed, N skipped`; exit 1
// unless nothing failed and nothing was skipped. `--answers` prints the answers alone, one a row in
// an order that depends on the rows' inputs only.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/text.h"
#include "corpus.h"

namespace attune::corpus {

namespace {

struct Kind {
  std::string_view name;
  Reader read;
};
// One line a kind.
// clang-format off
const std::vector<Kind> kKinds = {
    {"proposals", &ReadProposals},
    {"statistics", &ReadStatistics},
    {"failures", &ReadFailures},
    {"logs", &ReadLogs},
    {"traces", &ReadTraceFolders},
    {"throughput", &ReadThroughput},
};
// clang-format on

std::string OneLine(std::string_view s) { return EscapeForDisplay(s, 4000); }

int Usage() {
  std::string names;
  for (const Kind& k : kKinds) names += " " + std::string(k.name);
  std::fprintf(stderr, "usage: attune_corpus KIND PATH... [--answers]\nkinds:%s\n", names.c_str());
  return 2;
}

int PrintAnswers(const std::vector<Row>& rows) {
  std::vector<std::pair<std::string, std::string>> lines;
  lines.reserve(rows.size());
  for (const Row& row : rows) {
    if (!row.closing) lines.emplace_back(Sha256Hex(row.input), OneLine(row.answer));
  }
  std::sort(lines.begin(), lines.end());
  for (const auto& [key, answer] : lines) std::printf("%s\n", answer.c_str());
  return 0;
}

int PrintComparison(const std::vector<Row>& rows) {
  int passed = 0, failed = 0, skipped = 0;
  for (const Row& row : rows) {
    if (row.closing) {
      std::printf("%s\n", OneLine(row.id).c_str());
      if (!row.bar) continue;
    } else {
      const std::string note = row.note.empty() ? "" : "\t" + OneLine(row.note);
      std::printf("%s\t%s%s\n", OneLine(row.id).c_str(), OneLine(row.answer).c_str(), note.c_str());
    }
    switch (row.outcome) {
      case Outcome::kPassed:
        ++passed;
        break;
      case Outcome::kFailed:
        ++failed;
        std::fprintf(stderr, "FAILED %s: expected %s, got %s\n", OneLine(row.id).c_str(),
                     OneLine(row.expected).c_str(), OneLine(row.answer).c_str());
        break;
      case Outcome::kSkipped:
        ++skipped;
        std::fprintf(stderr, "SKIPPED %s: %s\n", OneLine(row.id).c_str(), OneLine(row.why).c_str());
        break;
    }
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 && skipped == 0 && passed > 0 ? 0 : 1;
}

int Main(const std::vector<std::string>& args) {
  std::vector<std::string> words;
  bool answers = false;
  for (const std::string& a : args) {
    if (a == "--answers") {
      answers = true;
    } else if (a.rfind("--", 0) == 0) {
      return Usage();
    } else {
      words.push_back(a);
    }
  }
  if (words.size() < 2) return Usage();
  for (const Kind& kind : kKinds) {
    if (kind.name != words[0]) continue;
    auto rows = kind.read({words.begin() + 1, words.end()});
    if (!rows) {
      std::fprintf(stderr, "attune_corpus: %s\n", rows.error().message.c_str());
      return 2;
    }
    return answers ? PrintAnswers(*rows) : PrintComparison(*rows);
  }
  return Usage();
}

}  // namespace
}  // namespace attune::corpus

int main(int argc, char** argv) {
  return attune::corpus::Main(std::vector<std::string>(argv + 1, argv + argc));
}
