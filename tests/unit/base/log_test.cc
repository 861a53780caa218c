#include "attune/base/log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace attune::log {
namespace {

// The length of "2026-11-30T20:00:00.000Z".
constexpr std::size_t kTimeBytes = 24;

class Log : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/attune-log-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/attune.log";
  }
  void TearDown() override {
    SetLevel(Level::kWarn);
    OpenFile("/dev/null");
    std::filesystem::remove_all(folder_);
  }
  std::string ReadFile() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }

  std::string folder_;
  std::string path_;
};

TEST_F(Log, WritesOneLineToStandardError) {
  testing::internal::CaptureStderr();
  Warn("job {} is {}", 4711, "gone\nand \x1b[2J");
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.substr(kTimeBytes), " warning job 4711 is gone\\x0aand \\x1b[2J\n");
}

TEST_F(Log, SaysNothingBelowItsLevel) {
  testing::internal::CaptureStderr();
  Debug("hidden {}", 1);
  SetLevel(Level::kDebug);
  Debug("shown {}", 2);
  SetLevel(Level::kOff);
  Write(Level::kError, "hidden 3");
  Write(Level::kOff, "hidden 4");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.substr(kTimeBytes), " debug shown 2\n");
}

TEST_F(Log, NoLineHoldsASecret) {
  ASSERT_TRUE(OpenFile(path_));
  Hide("A_KEY", "canary-7Q2m9XbT4w");
  testing::internal::CaptureStderr();
  Warn("the server says {} (Y2FuYXJ5LTdRMm05WGJUNHc=)", "canary-7Q2m9XbT4w");
  Warn("header {}", "Authorization: Bearer abcdefgh12345678ijkl");
  const std::string shown = testing::internal::GetCapturedStderr(), kept = ReadFile();
  for (const std::string& text : {shown, kept}) {
    EXPECT_NE(text.find("the server says [redacted:A_KEY] ([redacted:A_KEY])"), std::string::npos)
        << text;
    EXPECT_EQ(text.find("canary"), std::string::npos) << text;
    EXPECT_EQ(text.find("Y2FuYX"), std::string::npos) << text;
    EXPECT_EQ(text.find("12345678"), std::string::npos) << text;
  }
}

TEST_F(Log, TheFileHoldsOneJsonObjectALineAndIsCompleteAtOnce) {
  ASSERT_TRUE(OpenFile(path_));
  testing::internal::CaptureStderr();
  Warn("a \"quoted\" back\\slash {{}}");
  Write(Level::kError, "bad \xff byte\ttab");
  testing::internal::GetCapturedStderr();
  std::istringstream lines(ReadFile());
  std::string first;
  std::string second;
  std::string rest;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_FALSE(std::getline(lines, rest));
  const std::size_t start = std::string(R"({"at":")").size();
  EXPECT_EQ(first.substr(0, start), R"({"at":")");
  EXPECT_EQ(first.substr(start + kTimeBytes),
            R"(","level":"warning","message":"a \"quoted\" back\\slash {}"})");
  EXPECT_EQ(second.substr(start + kTimeBytes),
            "\",\"level\":\"error\",\"message\":\"bad \xef\xbf\xbd byte\\ttab\"}");
}

TEST_F(Log, AFileThatCannotBeOpenedIsSaidSo) {
  // The folder's name is taken by a file, which stops root as well.
  std::ofstream(path_).put('x');
  EXPECT_FALSE(OpenFile(path_ + "/deeper/attune.log"));
}

TEST_F(Log, AppendsToAnEarlierLog) {
  std::ofstream(path_) << "{}\n";
  ASSERT_TRUE(OpenFile(path_));
  testing::internal::CaptureStderr();
  Warn("second");
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(ReadFile().starts_with("{}\n{\"at\":"));
}

}  // namespace
}  // namespace attune::log
