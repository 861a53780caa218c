// Files and folders: names, links, pipes, ranks, files that change, files too large for the window.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "attune/traces/diagnose.h"
#include "kineto_text.h"

namespace attune::traces {
namespace {

class TraceFiles : public ::testing::Test {
 protected:
  TraceFiles() {
    std::string pattern = std::filesystem::temp_directory_path() / "traces.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~TraceFiles() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, std::string_view text) {
    const std::string path = folder_ + "/" + name;
    std::FILE* f = std::fopen(path.c_str(), "wb");
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), f), text.size());
    std::fclose(f);
    return path;
  }
  static std::string OfRank(int rank) {
    return Document(BusyEvents(3, 4),
                    fmt::format("\"distributedInfo\": {{\"rank\": {}, \"world_size\": 4}}", rank));
  }
  static bool Remarks(const TraceSet& set, std::string_view words) {
    for (const std::string& r : set.remarks) {
      if (r.find(words) != std::string::npos) return true;
    }
    return false;
  }

  std::string folder_;
};

TEST_F(TraceFiles, AFileIsInflatedByItsBytesNotByItsName) {
  const std::string text = OfRank(2);
  const auto plain = ReadTraceFile(Write("a.json.gz", text));
  const auto packed = ReadTraceFile(Write("b.json", Gzip(text, 3)));
  ASSERT_TRUE(plain.has_value() && packed.has_value());
  EXPECT_EQ(Figures(*plain), Figures(*packed));
  EXPECT_EQ(packed->text_bytes, static_cast<std::int64_t>(text.size()));
}

TEST_F(TraceFiles, ATruncatedMemberIsNotWhole) {
  const std::string packed = Gzip(OfRank(0));
  const auto read = ReadTraceFile(Write("a.json.gz", packed.substr(0, packed.size() - 100)));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->whole);
  EXPECT_EQ(NoteCount(*read, "truncated"), 1);
  EXPECT_GT(read->events, 0);
}

TEST_F(TraceFiles, ACompleteDocumentInACutContainerIsNotWhole) {
  const std::string packed = Gzip(OfRank(0));
  const auto read = ReadTraceFile(Write("a.json.gz", packed.substr(0, packed.size() - 4)));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->whole);
}

TEST_F(TraceFiles, ADamagedChecksumIsNotWhole) {
  std::string packed = Gzip(OfRank(0));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);
  const auto read = ReadTraceFile(Write("a.json.gz", packed));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->whole);
  EXPECT_EQ(NoteCount(*read, "corrupt_gzip"), 1);
}

TEST_F(TraceFiles, WhatIsNoRegularFileIsRefusedAndNeverWaitedFor) {
  const std::string pipe = folder_ + "/pipe.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto of_pipe = ReadTraceFile(pipe);
  ASSERT_FALSE(of_pipe.has_value());
  EXPECT_NE(of_pipe.error().message.find("no regular file"), std::string::npos);
  const auto of_folder = ReadTraceFile(folder_);
  ASSERT_FALSE(of_folder.has_value());
  EXPECT_NE(of_folder.error().message.find("folder"), std::string::npos);
  EXPECT_EQ(ReadTraceFile(folder_ + "/none.json").error().code, ErrorCode::kNotFound);
}

TEST_F(TraceFiles, AFolderGivesItsTracesAndNothingElse) {
  Write("rank0.json", OfRank(0));
  Write("rank1.json", OfRank(1));
  Write("notes.txt", "hello");
  Write("config.json", "{\"lr\": 1}");
  ASSERT_EQ(mkfifo((folder_ + "/pipe.json").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/nowhere", (folder_ + "/gone.json").c_str()), 0);
  ASSERT_EQ(mkdir((folder_ + "/deep.json").c_str(), 0700), 0);
  const auto set = ReadTraces({folder_});
  ASSERT_TRUE(set.has_value());
  ASSERT_EQ(set->ranks.size(), 2u);
  EXPECT_EQ(set->ranks[0].rank, 0);
  EXPECT_EQ(set->ranks[1].rank, 1);
  EXPECT_TRUE(Remarks(*set, "config.json: a JSON object without traceEvents"));
}

TEST_F(TraceFiles, OfAFolderWithoutTracesTheSubfoldersAreSearched) {
  const std::string deep = folder_ + "/r007/traces";
  std::filesystem::create_directories(deep);
  std::filesystem::create_directory_symlink("..", folder_ + "/r007/loop");
  Write("r007/traces/rank1.json", OfRank(1));
  const auto set = ReadTraces({folder_});
  ASSERT_TRUE(set.has_value());
  ASSERT_EQ(set->ranks.size(), 1u);
  Write("rank0.json", OfRank(0));
  EXPECT_EQ(ReadTraces({folder_})->ranks[0].rank, 0);
  EXPECT_EQ(ReadTraces({folder_})->ranks.size(), 1u);
}

TEST_F(TraceFiles, ALogIsNoTrace) {
  EXPECT_TRUE(IsTraceFile(Write("a", OfRank(0))));
  EXPECT_TRUE(IsTraceFile(Write("b", Gzip("[\n{}]"))));
  for (const char* log : {"[rank0]: hello", "[2026-11-30 10:00:00] iteration 1", "iteration 1", "",
                          " ", "{loss: 1}"}) {
    EXPECT_FALSE(IsTraceFile(Write("c", log))) << log;
  }
  EXPECT_FALSE(IsTraceFile(folder_));
}

TEST_F(TraceFiles, ALinkIsFollowedAndTheSameFileReadOnce) {
  const std::string file = Write("rank0.json", OfRank(0));
  const std::string link = folder_ + "/latest.json";
  ASSERT_EQ(symlink("rank0.json", link.c_str()), 0);
  EXPECT_TRUE(ReadTraceFile(link).has_value());
  const auto set = ReadTraces({folder_});
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->ranks.size(), 1u);
  EXPECT_TRUE(Remarks(*set, "the same file"));
}

TEST_F(TraceFiles, TwoFilesThatClaimOneRankAreNotCompared) {
  const std::string a = Write("a.json", OfRank(3));
  const std::string b = Write("b.json", OfRank(3) + " ");
  const auto set = ReadTraces({a, b});
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->ranks.size(), 2u);
  EXPECT_TRUE(set->across.collectives.empty());
  EXPECT_NE(set->across.why_empty.find("claim rank 3"), std::string::npos);
  EXPECT_TRUE(Remarks(*set, "claim rank 3"));
}

TEST_F(TraceFiles, TheRankComesFromTheNameWhenTheFileHasNone) {
  const auto read = ReadTraceFile(Write("rank-34.Jul.pt.trace.json", Document(BusyEvents(1, 2))));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->rank, 34);
  EXPECT_EQ(NoteCount(*read, "rank_from_name"), 1);
}

TEST(RankFromName, KnowsTheUsualNames) {
  EXPECT_EQ(RankFromName("/x/rank-34.Jul_15.pt.trace.json.gz"), 34);
  EXPECT_EQ(RankFromName("rank0_trace.json"), 0);
  EXPECT_EQ(RankFromName("worker3_step_12.169.pt.trace.json"), 3);
  EXPECT_EQ(RankFromName("profile_trace_rank_7.json.gz"), 7);
  EXPECT_EQ(RankFromName("/rank5/trace.json"), -1);  // the folder's name is not the file's
  EXPECT_EQ(RankFromName("ranking.json"), -1);
  EXPECT_EQ(RankFromName("rank99999999999999999999.json"), -1);
}

TEST_F(TraceFiles, AFileThatGrowsWhileItIsReadIsNotWhole) {
  const std::string path = Write("a.json", OfRank(0));
  auto file = OpenFile(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_FALSE(file->source->Changed());
  std::FILE* f = std::fopen(path.c_str(), "ab");
  std::fputs(" ", f);
  std::fclose(f);
  EXPECT_TRUE(file->source->Changed());
}

TEST_F(TraceFiles, MoreEventsThanTheWindowHoldsAreReadInPartAndSaidSo) {
  const std::string path = Write("a.json", Document(BusyEvents(60, 200)));
  TraceOptions options;
  const auto all = ReadTraceFile(path, options);
  options.max_record_bytes = 400'000;
  const auto part = ReadTraceFile(path, options);
  ASSERT_TRUE(all.has_value() && part.has_value());
  EXPECT_EQ(NoteCount(*all, "windowed"), 0);
  EXPECT_EQ(NoteCount(*part, "windowed"), 1);
  EXPECT_LT(part->whole_file.counts.events, all->whole_file.counts.events / 2);
  EXPECT_GT(part->whole_file.counts.events, 0);
  // Whole steps, each with the figures it has when everything is read.
  ASSERT_GE(part->steps.size(), 3u);
  const StepFigures& mine = part->steps[2];
  bool found = false;
  for (const StepFigures& s : all->steps) {
    if (s.name != mine.name) continue;
    found = true;
    EXPECT_EQ(s.begin, mine.begin);
    EXPECT_EQ(s.time.busy, mine.time.busy);
    EXPECT_EQ(s.time.exposed, mine.time.exposed);
    EXPECT_EQ(s.idle.host_wait, mine.idle.host_wait);
  }
  EXPECT_TRUE(found);
}

TEST_F(TraceFiles, ThreadsDoNotChangeTheFigures) {
  for (int r = 0; r < 5; ++r) Write(fmt::format("rank{}.json", r), OfRank(r));
  TraceOptions options;
  options.threads = 1;
  const auto one = ReadTraces({folder_}, options);
  options.threads = 3;
  const auto three = ReadTraces({folder_}, options);
  ASSERT_TRUE(one.has_value() && three.has_value());
  EXPECT_EQ(TracesJson(*one, DiagnoseTraces(*one)), TracesJson(*three, DiagnoseTraces(*three)));
}

TEST_F(TraceFiles, NothingToReadIsAnError) {
  EXPECT_FALSE(ReadTraces({folder_}).has_value());
  EXPECT_FALSE(ReadTraces({}).has_value());
  EXPECT_FALSE(ReadTraces({folder_ + "/none"}).has_value());
}

}  // namespace
}  // namespace attune::traces
