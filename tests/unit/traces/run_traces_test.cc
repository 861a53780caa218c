// The traces of one run: what is found, what is removed, and that nothing outside is touched.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "attune/traces/trace_reader.h"
#include "kineto_text.h"

namespace attune::traces {
namespace {

namespace fs = std::filesystem;

class RunTracesTest : public ::testing::Test {
 protected:
  RunTracesTest() {
    std::string pattern = fs::temp_directory_path() / "attune-run-traces.XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~RunTracesTest() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, std::size_t bytes = 10) const {
    const std::string path = root_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << std::string(bytes, ' ');
    return path;
  }

  std::string root_;
};

TEST_F(RunTracesTest, AreFoundBelowTheRunsFolderOnly) {
  const std::string mine = Write("run/a/b/rank0.json");
  Write("other/rank0.json");
  Write("run/notes.txt");
  const RunTraces found = FindRunTraces(root_, "run", {0});
  EXPECT_EQ(found.files, std::vector<std::string>{mine});
  EXPECT_EQ(found.folder, root_ + "/run");
  EXPECT_TRUE(found.notes.empty());
}

TEST_F(RunTracesTest, OfOtherRanksAreRemovedAndThoseWithoutARankKept) {
  const std::string kept = Write("run/rank2.pt.trace.json");
  const std::string unknown = Write("run/host_123.pt.trace.json");
  const std::string other = Write("run/rank5.pt.trace.json");
  const RunTraces found = FindRunTraces(root_, "run", {2, 3});
  EXPECT_EQ(found.files, (std::vector<std::string>{unknown, kept}));
  EXPECT_FALSE(fs::exists(other));
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("1 trace files of ranks"), std::string::npos);
}

TEST_F(RunTracesTest, ALinkIsNeitherFollowedNorRemovedThrough) {
  const std::string outside = Write("outside/rank5.json");
  const std::string file = Write("outside/rank0.json");
  fs::create_directories(root_ + "/run");
  fs::create_symlink(root_ + "/outside", root_ + "/run/folder");
  fs::create_symlink(file, root_ + "/run/rank0.json");
  fs::create_symlink(root_ + "/outside", root_ + "/linked");
  EXPECT_TRUE(FindRunTraces(root_, "run", {0}).files.empty());
  EXPECT_TRUE(FindRunTraces(root_, "linked", {0}).files.empty());
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(RunTracesTest, NoFolderIsNoTrace) {
  EXPECT_TRUE(FindRunTraces(root_, "nothing/here", {0}).files.empty());
}

TEST_F(RunTracesTest, BeyondTheMostThatAreReadTheRestIsNamed) {
  for (std::size_t i = 0; i < kMaxRunTraces + 3; ++i) {
    Write("run/host_" + std::to_string(i) + ".json");
  }
  const RunTraces found = FindRunTraces(root_, "run", {0});
  EXPECT_EQ(found.files.size(), kMaxRunTraces);
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("3 trace files beyond"), std::string::npos);
}

TEST_F(RunTracesTest, TheLargestGoUntilTheRestFits) {
  const std::string small = Write("run/rank0.json", 400);
  const std::string large = Write("run/rank1.json", 4'000);
  const std::string middle = Write("run/rank2.json", 600);
  RunTraces found = FindRunTraces(root_, "run", {0, 1, 2});
  CapRunTraces(found, root_, 1'000);
  EXPECT_EQ(found.files, (std::vector<std::string>{small, middle}));
  EXPECT_FALSE(fs::exists(large));
  ASSERT_EQ(found.notes.size(), 1u);
  CapRunTraces(found, root_, 1'000);
  EXPECT_EQ(found.notes.size(), 1u);
}

TEST_F(RunTracesTest, OfALongFileOnlyTheTextThatIsAllowedIsRead) {
  const std::string text = Document(BusyEvents(6, 20));
  for (const std::string& bytes : {text, Gzip(text)}) {
    const std::string path = Write("rank0.json");
    std::ofstream(path, std::ios::binary) << bytes;
    TraceOptions options;
    options.max_text_bytes = static_cast<std::int64_t>(text.size() / 2);
    const auto part = ReadTraceFile(path, options);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_FALSE(part->whole);
    EXPECT_EQ(NoteCount(*part, "text_limit"), 1);
    options.max_text_bytes = static_cast<std::int64_t>(text.size());
    const auto all = ReadTraceFile(path, options);
    ASSERT_TRUE(all);
    EXPECT_TRUE(all->whole);
    EXPECT_EQ(NoteCount(*all, "text_limit"), 0);
  }
}

}  // namespace
}  // namespace attune::traces
