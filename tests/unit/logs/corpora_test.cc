// The reference corpora of logs and failures, where they are at hand (ATTUNE_CORPORA): classes, and
// news that don't depend on the cuts. attune_corpus compares the rest of their columns.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "attune/base/text.h"
#include "news_text.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::optional<fs::path> Corpus(const char* name) {
  const char* root = std::getenv("ATTUNE_CORPORA");
  return root == nullptr ? std::nullopt : std::optional(fs::path(root) / name);
}

// File name -> second column.
std::map<std::string, std::string> Expected(const fs::path& folder) {
  std::map<std::string, std::string> rows;
  const std::string table = Contents(folder / "expected.tsv");
  for (const std::string_view line : SplitLines(table)) {
    const std::vector<std::string_view> cells = Split(line, '\t');
    if (cells.size() > 1 && cells[0] != "file") {
      rows.emplace(cells[0], cells[1]);
    }
  }
  return rows;
}

TEST(Corpora, EveryFailureHasItsClassAndItsLine) {
  const std::optional<fs::path> folder = Corpus("facts/logs/failures");
  if (!folder) GTEST_SKIP() << "ATTUNE_CORPORA is not set";
  const auto rows = Expected(*folder);
  ASSERT_FALSE(rows.empty());
  for (const auto& [file, cls] : rows) {
    const LogNews news = testing_logs::NewsOf(testing_logs::Megatron(), Contents(*folder / file));
    EXPECT_EQ(news.failure ? news.failure->cls : "healthy_warning", cls) << file;
    if (news.failure) {
      EXPECT_FALSE(news.failure->line.empty()) << file;
      EXPECT_GE(news.failure->line_number, 1) << file;
    }
  }
}

TEST(Corpora, DialectsThatAreReadAreRecognised) {
  const std::optional<fs::path> folder = Corpus("facts/logs");
  if (!folder) GTEST_SKIP() << "ATTUNE_CORPORA is not set";
  const std::vector<std::string> dialects = LogDialects();
  const std::set<std::string> known(dialects.begin(), dialects.end());
  for (const auto& [file, dialect] : Expected(*folder)) {
    EXPECT_EQ(DetectDialect(Contents(*folder / file)), known.count(dialect) != 0 ? dialect : "")
        << file;
  }
}

TEST(Corpora, NewsDoNotDependOnWhereTheBytesWereCut) {
  const std::optional<fs::path> root = Corpus("facts/logs");
  if (!root) GTEST_SKIP() << "ATTUNE_CORPORA is not set";
  for (const fs::path& folder : {*root, *root / "failures"}) {
    for (const auto& [file, unused] : Expected(folder)) {
      const std::string log = Contents(folder / file);
      const std::string found = DetectDialect(log);
      const LogSpec spec{found.empty() ? "megatron-lm" : found, ""};
      const std::string whole = testing_logs::ReadWhole(spec, log);
      for (const std::size_t piece : {1, 2, 3, 7, 64, 333}) {
        std::vector<std::string_view> pieces;
        for (std::size_t at = 0; at < log.size(); at += piece) {
          pieces.push_back(std::string_view(log).substr(at, piece));
        }
        EXPECT_EQ(testing_logs::ReadPieces(spec, pieces), whole) << file << " in " << piece;
      }
    }
  }
}

}  // namespace
}  // namespace attune
