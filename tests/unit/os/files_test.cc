#include "attune/os/files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace attune::os {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path().string() + "/attune-os-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string At(const std::string& name) const { return root_ + "/" + name; }
  static void Put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::size_t Entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  std::string root_;
};

TEST_F(Files, AnAtomicWriteReplacesTheWholeFileAndLeavesNothingElse) {
  Put(At("f"), "old and long");
  ASSERT_TRUE(WriteFileAtomic(At("f"), std::string("n\0w", 3)).has_value());
  EXPECT_EQ(*ReadFileBounded(At("f"), 100), std::string("n\0w", 3));
  EXPECT_EQ(Entries(), 1U);
  struct stat st {};
  ASSERT_EQ(stat(At("f").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600U);
}

TEST_F(Files, AFailedWriteKeepsTheOldFileAndItsErrorSaysDiskFull) {
  Put(At("f"), "old");
  const pid_t child = fork();
  if (child == 0) {  // a file size limit is what a full disk looks like, without a disk to fill
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4, 4};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status s = WriteFileAtomic(At("f"), "longer than four bytes");
    _exit(!s && s.error().code == ErrorCode::kFull ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*ReadFileBounded(At("f"), 100), "old");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(Files, OnlyOneOfManyClaimersWins) {
  constexpr int kClaimers = 8;
  for (int i = 0; i < kClaimers; ++i) {
    if (fork() == 0) {
      const auto won = ClaimFile(At("claim"), std::to_string(i));
      _exit(won && *won ? 1 : won ? 0 : 2);
    }
  }
  int winners = 0;
  for (int i = 0; i < kClaimers; ++i) {
    int status = 0;
    wait(&status);
    ASSERT_LT(WEXITSTATUS(status), 2);
    winners += WEXITSTATUS(status);
  }
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(Files, ABoundedReadRefusesWhatIsLongerAndTakesWhatFits) {
  Put(At("f"), "12345");
  EXPECT_EQ(*ReadFileBounded(At("f"), 5), "12345");
  EXPECT_EQ(ReadFileBounded(At("f"), 4).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(ReadFileBounded(At("none"), 4).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*ReadRange(At("f"), 1, 3), "234");
  EXPECT_EQ(*ReadRange(At("f"), 9, 3), "");
  EXPECT_EQ(*ReadTail(At("f"), 2), "45");
  EXPECT_EQ(*ReadTail(At("f"), 99), "12345");
}

TEST_F(Files, ARangeIsWrittenInPlaceAndTwiceIsAsGoodAsOnce) {
  ASSERT_TRUE(WriteRange(At("f"), 0, "one two").has_value());
  ASSERT_TRUE(WriteRange(At("f"), 4, "TWO three").has_value());
  ASSERT_TRUE(WriteRange(At("f"), 4, "TWO three").has_value());
  EXPECT_EQ(*ReadFileBounded(At("f"), 100), "one TWO three");
  Put(At("secret"), "s");
  fs::create_symlink(At("secret"), At("link"));
  EXPECT_FALSE(WriteRange(At("link"), 0, "x").has_value());
  EXPECT_EQ(*ReadFileBounded(At("secret"), 100), "s");
}

TEST_F(Files, NoLinkFolderOrFifoIsReadAsAFile) {
  Put(At("secret"), "s");
  fs::create_symlink(At("secret"), At("link"));
  fs::create_directory(At("d"));
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
  for (const char* name : {"link", "d", "fifo"}) {
    EXPECT_EQ(ReadFileBounded(At(name), 10).error().code, ErrorCode::kInvalidInput) << name;
    EXPECT_EQ(StatFile(At(name)).error().code, ErrorCode::kInvalidInput) << name;
  }
}

TEST_F(Files, OpenBelowNeverLeavesItsFolder) {
  fs::create_directories(At("run/deep"));
  Put(At("outside"), "o");
  Put(At("run/deep/f"), "inside");
  fs::create_symlink(At("run/deep"), At("run/linked"));
  fs::create_symlink(At("outside"), At("run/out"));
  const auto read = [&](const std::string& relative) -> Result<std::string> {
    ATTUNE_TRY(const Fd fd, OpenBelow(At("run"), relative));
    return ReadFd(fd.get(), 0, 100);
  };
  EXPECT_EQ(*read("deep/f"), "inside");
  for (const std::string bad : {"../outside", "/etc/passwd", "linked/f", "out", "deep/../deep/f",
                                "", ".", "deep//f", "deep"}) {
    EXPECT_FALSE(read(bad).has_value()) << bad;
  }
  EXPECT_FALSE(read(std::string("deep/f\0x", 8)).has_value());
}

TEST_F(Files, MakeFolderRefusesALinkInItsPlace) {
  ASSERT_TRUE(MakeFolder(At("a/b/c")).has_value());
  struct stat st {};
  ASSERT_EQ(stat(At("a/b/c").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700U);
  EXPECT_TRUE(MakeFolder(At("a/b/c")).has_value());
  EXPECT_TRUE(*MakeFolderOnce(At("x")));
  EXPECT_FALSE(*MakeFolderOnce(At("x")));
  fs::create_symlink(At("x"), At("l"));
  EXPECT_EQ(MakeFolder(At("l")).error().code, ErrorCode::kInvalidInput);
  fs::create_symlink(At("nowhere"), At("dangling"));
  EXPECT_EQ(MakeFolder(At("dangling")).error().code, ErrorCode::kInvalidInput);
  Put(At("file"), "");
  EXPECT_EQ(MakeFolder(At("file")).error().code, ErrorCode::kInvalidInput);
}

TEST_F(Files, ALockIsHeldOnceAndByWhoeverInheritsIt) {
  auto first = FileLock::Try(At("lock"));
  ASSERT_TRUE(first.has_value() && first->has_value());
  EXPECT_FALSE(FileLock::Try(At("lock"))->has_value());
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(gate[1]);
    char c = 0;
    _exit(static_cast<int>(read(gate[0], &c, 1)));
  }
  close(gate[0]);
  first->reset();
  EXPECT_FALSE(FileLock::Try(At("lock"))->has_value());  // the child's copy holds it
  close(gate[1]);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::Try(At("lock"))->has_value());
}

TEST_F(Files, KnowsWhatItStandsOn) {
  const auto kind = FileSystemKind(root_);
  ASSERT_TRUE(kind.has_value());
  EXPECT_FALSE(kind->empty());
  EXPECT_EQ(*FileSystemKind("/proc"), "0x9fa0");
  EXPECT_GT(*FreeBytes(root_), 0);
  EXPECT_FALSE(IsNetworkFileSystem("ext4"));
  EXPECT_TRUE(IsNetworkFileSystem("lustre"));
  EXPECT_TRUE(IsNetworkFileSystem("0x9fa0"));  // unknown: careful
}

}  // namespace
}  // namespace attune::os
