// tests/cases/logs/*.case: a log and the news it must give, whole and cut at every byte.
//   # comment
//   dialect: megatron-lm
//   pattern: ...                      (dialect custom)
//   newline: no                       (the log ends without one)
//   escapes: yes                      (\e, \r, \t, \xNN and \\ in the log are what they say)
//   --- log
//   --- expect
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "attune/base/text.h"
#include "news_text.h"

namespace attune {
namespace {

using testing_logs::NewsOf;
using testing_logs::ReadPieces;
using testing_logs::ReadWhole;
using testing_logs::ShowSteps;

struct Case {
  std::string name, log, expect;
  LogSpec spec;
};

std::string Unescape(std::string_view s) {
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      out += s[i];
      continue;
    }
    const char c = s[++i];
    if (c == 'x' && i + 2 < s.size()) {
      out += static_cast<char>(std::stoi(std::string(s.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += c == 'e' ? '\x1b' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
    }
  }
  return out;
}

Case ReadCase(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  constexpr std::string_view kLog = "--- log\n";
  constexpr std::string_view kExpect = "--- expect\n";
  Case c;
  c.name = path.filename().string();
  const std::size_t log = text.find(kLog);
  const std::size_t expect = text.find(kExpect);
  if (log == std::string::npos || expect == std::string::npos) {
    ADD_FAILURE() << c.name << " lacks a section";
    return c;
  }
  bool escapes = false, newline = true;
  for (const std::string_view line : SplitLines(std::string_view(text).substr(0, log))) {
    const std::size_t colon = line.find(": ");
    if (line.empty() || line.front() == '#') continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 2);
    if (key == "dialect") {
      c.spec.dialect = std::string(value);
    } else if (key == "pattern") {
      c.spec.pattern = std::string(value);
    } else if (key == "escapes") {
      escapes = value == "yes";
    } else if (key == "newline") {
      newline = value == "yes";
    } else {
      ADD_FAILURE() << c.name << ": unknown key " << key;
    }
  }
  c.log = text.substr(log + kLog.size(), expect - log - kLog.size());
  if (!newline) c.log.pop_back();
  if (escapes) c.log = Unescape(c.log);
  c.expect = text.substr(expect + kExpect.size());
  return c;
}

std::vector<Case> AllCases() {
  std::set<std::filesystem::path> paths;
  const std::filesystem::path folder =
      std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/cases/logs";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".case") paths.insert(entry.path());
  }
  std::vector<Case> cases;
  for (const auto& path : paths) cases.push_back(ReadCase(path));
  return cases;
}

TEST(LogCases, EachLogGivesItsNews) {
  const std::vector<Case> cases = AllCases();
  ASSERT_GE(cases.size(), 20U);
  for (const Case& c : cases) {
    EXPECT_EQ(ReadWhole(c.spec, c.log), c.expect) << c.name;
  }
}

TEST(LogCases, TheNewsDoNotDependOnWhereTheBytesWereCut) {
  for (const Case& c : AllCases()) {
    const std::string_view log = c.log;
    for (std::size_t at = 0; at <= log.size(); ++at) {
      ASSERT_EQ(ReadPieces(c.spec, {log.substr(0, at), log.substr(at)}), c.expect)
          << c.name << " cut at byte " << at;
    }
    std::vector<std::string_view> bytes;
    for (std::size_t at = 0; at < log.size(); ++at) bytes.push_back(log.substr(at, 1));
    EXPECT_EQ(ReadPieces(c.spec, bytes), c.expect) << c.name << " byte by byte";
  }
}

// A log that ends anywhere gives a prefix of its steps, and never one that is not in the whole.
TEST(LogCases, ALogThatStopsAtAnyByteGivesNoStepThatIsNotThere) {
  for (const Case& c : AllCases()) {
    const std::string whole = ShowSteps(NewsOf(c.spec, c.log).steps);
    for (std::size_t end = 0; end <= c.log.size(); ++end) {
      const LogNews part = NewsOf(c.spec, std::string_view(c.log).substr(0, end));
      if (c.spec.dialect == "slime") {
        // Two records make a step: at the log's end the first stands alone, without the other's time.
        for (const Step& s : part.steps) {
          ASSERT_NE(("\n" + whole).find(fmt::format("\nstep {}", s.iteration)), std::string::npos)
              << c.name << " ends at byte " << end;
        }
        continue;
      }
      ASSERT_TRUE(whole.starts_with(ShowSteps(part.steps))) << c.name << " ends at byte " << end;
    }
  }
}

}  // namespace
}  // namespace attune
