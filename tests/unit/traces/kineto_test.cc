// The reader of Kineto JSON: forms, tolerances with their notes, truncation, refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kineto_text.h"

namespace attune::traces {
namespace {

const std::vector<std::string> kTwo = {LaunchEvent(1000, 1), KernelEvent("k", 5000, 2000, 1)};

std::string ErrorOf(std::string_view text) {
  const auto read = ReadText(text);
  EXPECT_FALSE(read.has_value()) << text.substr(0, 60);
  return read ? "" : read.error().message;
}

TEST(ReadKineto, TakesMetadataFromBothSidesOfTheEvents) {
  const std::string text =
      "{\"traceEvents\": [" + kTwo[0] + "," + kTwo[1] +
      "], \"baseTimeNanoseconds\": 1700000000000000000, \"deviceProperties\": [{\"id\": 0, "
      "\"name\": \"NVIDIA H100\", \"numSms\": 132}], \"distributedInfo\": {\"backend\": \"nccl\", "
      "\"rank\": 5, \"world_size\": 16}}";
  const RankTrace t = MustRead(text);
  EXPECT_TRUE(t.whole);
  EXPECT_EQ(t.rank, 5);
  EXPECT_EQ(t.world_size, 16);
  EXPECT_EQ(t.base_time, 1700000000000000000);
  EXPECT_EQ(t.device, "NVIDIA H100");
  EXPECT_EQ(t.processors, 132);
  EXPECT_EQ(t.whole_file.time.busy, 2000);
}

TEST(ReadKineto, ReadsABareArray) {
  const std::string text = "[" + kTwo[0] + ",\n" + kTwo[1] + "]";
  const auto read = ReadText(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->result.array_form);
  EXPECT_TRUE(read->result.whole);
  EXPECT_EQ(read->trace.whole_file.counts.events, 1);
}

TEST(ReadKineto, AnArrayWithoutItsBracketIsNotWhole) {
  const RankTrace t = MustRead("[" + kTwo[0] + ",\n" + kTwo[1] + "\n");
  EXPECT_FALSE(t.whole);
  EXPECT_EQ(NoteCount(t, "unclosed_array"), 1);
  EXPECT_EQ(t.events, 2);
}

TEST(ReadKineto, ReadsTheOldNamesOfCategoriesAndStreams) {
  const RankTrace t = MustRead(
      "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":"
      "\"cudaLaunchKernel\",\"pid\":1,\"tid\":\"2\",\"ts\":10,\"dur\":1,\"args\":{\"correlation\":"
      "7}},{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":3,\"tid\":\"stream "
      "9\",\"ts\":20,"
      "\"dur\":5,\"args\":{\"correlation\":7,\"external id\":3}}]}");
  ASSERT_EQ(t.streams.size(), 1u);
  EXPECT_EQ(t.streams[0].device, 3);
  EXPECT_EQ(t.streams[0].stream, 9);
  EXPECT_EQ(t.whole_file.median_launch_delay, 10'000);
}

TEST(ReadKineto, DecidesByCategoryNotByStream) {
  // Triton operators and synchronisation rows carry a stream and are no GPU work.
  const RankTrace t = MustRead(Document(
      {kTwo[0], kTwo[1],
       R"({"ph":"X","cat":"cpu_op","name":"triton","pid":1,"tid":1,"ts":1,"dur":90,"args":{"stream":7}})",
       R"({"ph":"X","cat":"cuda_sync","name":"Event Sync","pid":0,"tid":7,"ts":1,"dur":99,"args":{"stream":4294967295}})"}));
  EXPECT_EQ(t.whole_file.counts.events, 1);
  EXPECT_EQ(t.whole_file.time.span, 2000);
}

struct Odd {
  const char* note;
  std::string event;
  bool kept;
};

TEST(ReadKineto, ToleratesOddEventsEachWithANote) {
  const std::string base =
      R"({"ph":"X","cat":"kernel","name":"odd","pid":0,"tid":7,"ts":20,"dur":5,"args":{"device":0,"stream":7,"correlation":9}})";
  const auto with = [&base](std::string_view from, std::string_view to) {
    std::string text = base;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const Odd odds[] = {
      {"bad_utf8", with("odd", "o\xff\xfe"), true},
      {"control_character", with("odd", "o\x01\n"), true},
      {"bad_escape", with("odd", "C:\\Users\\x"), true},
      {"not_a_number", with("\"device\":0", "\"occupancy\": NaN, \"device\":0"), true},
      {"not_a_number", with("\"device\":0", "\"occupancy\": -Infinity, \"device\":0"), true},
      {"not_a_number", with("\"device\":0", "\"occupancy\": inf, \"device\":0"), true},
      {"numeric_string", with("\"ts\":20", "\"ts\":\"20\""), true},
      {"numeric_string", with("\"dur\":5", "\"dur\":\"5.000\""), true},
      {"duplicate_key", with("\"ts\":20", "\"ts\":1,\"ts\":20"), true},
      {"missing_arguments", with(R"(,"args":{"device":0,"stream":7,"correlation":9})", ""), true},
      {"negative_duration", with("\"dur\":5", "\"dur\":-5"), false},
      {"absurd_duration", with("\"dur\":5", "\"dur\":7450000000000000"), false},
      {"bad_time", with("\"ts\":20", "\"ts\":NaN"), false},
      {"bad_time", with("\"ts\":20", "\"ts\":1e300"), false},
      {"bad_time", with("\"ts\":20,", ""), false},
      {"zero_time", with("\"ts\":20,\"dur\":5", "\"ts\":0,\"dur\":0"), false},
      {"unknown_category", with("\"cat\":\"kernel\"", "\"cat\":\"tpu_kernel\""), false},
      {"malformed_event", with("\"ts\":20,", "\"ts\" 20,"), false},
      {"malformed_event", "17", false},
      {"malformed_event", "[1, 2]", false},
      {"duration_pairs", with("\"ph\":\"X\"", "\"ph\":\"B\""), false},
  };
  for (const Odd& odd : odds) {
    const RankTrace t = MustRead(Document({kTwo[0], odd.event, kTwo[1]}));
    EXPECT_TRUE(t.whole) << odd.event;
    EXPECT_EQ(NoteCount(t, odd.note), 1) << odd.event << ": " << NoteNames(t);
    EXPECT_EQ(t.events, 3) << odd.event;
    EXPECT_EQ(t.whole_file.counts.events, odd.kept ? 2 : 1) << odd.event;
    EXPECT_EQ(t.whole_file.time.busy, odd.kept ? 7000 : 2000) << odd.event;
  }
}

TEST(ReadKineto, ACleanTraceHasNoNotesAboutItsText) {
  const RankTrace t = MustRead(Document(BusyEvents(3, 8)));
  for (const char* note : {"bad_utf8", "bad_escape", "control_character", "not_a_number",
                           "malformed_event", "duplicate_key", "trailing_bytes", "truncated"}) {
    EXPECT_EQ(NoteCount(t, note), 0) << note;
  }
}

TEST(ReadKineto, ListsAnUnknownCategoryWithItsTime) {
  const RankTrace t = MustRead(Document(
      {kTwo[1],
       R"({"ph":"X","cat":"tpu_kernel","name":"a","pid":0,"tid":7,"ts":20,"dur":5,"args":{}})",
       R"({"ph":"X","cat":"tpu_kernel","name":"b","pid":0,"tid":7,"ts":30,"dur":6,"args":{}})"}));
  ASSERT_EQ(t.unknown.size(), 1u);
  EXPECT_EQ(t.unknown[0].category, "tpu_kernel");
  EXPECT_EQ(t.unknown[0].count, 2);
  EXPECT_EQ(t.unknown[0].total, 11'000);
}

TEST(ReadKineto, AcceptsAByteOrderMarkAndPaddingAndSaysWhatTrails) {
  const std::string text = Document(kTwo);
  EXPECT_EQ(NoteCount(MustRead("\xef\xbb\xbf" + text), "byte_order_mark"), 1);
  const RankTrace padded = MustRead(text + std::string(300, '\0'));
  EXPECT_TRUE(padded.whole);
  EXPECT_EQ(NoteCount(padded, "trailing_bytes"), 0);
  const RankTrace twice = MustRead(text + text);
  EXPECT_TRUE(twice.whole);
  EXPECT_EQ(NoteCount(twice, "trailing_bytes"), 1);
  EXPECT_EQ(twice.whole_file.counts.events, 1);
}

TEST(ReadKineto, ACutAtAnyByteNeverPassesForWhole) {
  for (const bool array : {false, true}) {
    std::string text = Document({kTwo[0], OperatorEvent("aten::mm", 10, 20), kTwo[1]});
    if (array) text = "[" + kTwo[0] + "," + kTwo[1] + "]\n";
    const std::size_t complete = text.find_last_of("]}") + 1;
    for (std::size_t cut = 0; cut < complete; ++cut) {
      const auto read = ReadText(std::string_view(text).substr(0, cut));
      if (!read) continue;  // refused: nothing is claimed
      ASSERT_FALSE(read->trace.whole) << cut;
      ASSERT_FALSE(read->trace.notes.empty()) << cut;
      ASSERT_GE(read->result.stopped_at, 0) << cut;
      ASSERT_LE(read->result.stopped_at, static_cast<std::int64_t>(cut));
    }
    ASSERT_TRUE(ReadText(text)->trace.whole);
  }
}

TEST(ReadKineto, StopsAtTextThatIsNoJsonAndSaysWhere) {
  const std::string text =
      "{\"schemaVersion\": 1, \"traceEvents\": [" + kTwo[0] + " " + kTwo[1] + "]}";
  const auto read = ReadText(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->trace.whole);
  EXPECT_EQ(NoteCount(read->trace, "corrupt_json"), 1);
  EXPECT_EQ(read->trace.events, 1);
  EXPECT_EQ(read->result.stopped_at, static_cast<std::int64_t>(text.find(kTwo[1])));
}

TEST(ReadKineto, GivesTheSameFiguresWhateverTheWindowAndTheReads) {
  const std::string text = Document(BusyEvents(3, 12));
  const std::string want = Figures(MustRead(text));
  for (const std::size_t window : {std::size_t{64}, std::size_t{512}, std::size_t{5000}}) {
    KinetoOptions options;
    options.window_bytes = window;
    options.max_window_bytes = 8192;
    for (const std::size_t piece : {std::size_t{1}, std::size_t{61}, std::size_t{4096}}) {
      const auto read = ReadText(text, piece, options);
      ASSERT_TRUE(read.has_value());
      EXPECT_TRUE(read->trace.whole);
      EXPECT_EQ(Figures(read->trace), want) << window << " " << piece;
    }
  }
}

TEST(ReadKineto, LeavesOutAnElementLargerThanTheWindow) {
  KinetoOptions options;
  options.window_bytes = 256;
  options.max_window_bytes = 1024;
  const std::string huge = OperatorEvent(std::string(5000, 'x'), 1, 2);
  const auto read = ReadText("{\"huge\": \"" + std::string(9000, 'y') + "\"," +
                                 Document({kTwo[0], huge, kTwo[1]}).substr(1),
                             0, options);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->trace.whole);
  EXPECT_EQ(NoteCount(read->trace, "oversize_element"), 2);
  EXPECT_EQ(read->trace.whole_file.counts.events, 1);
}

TEST(ReadKineto, RefusesOtherKindsByName) {
  EXPECT_EQ(ErrorOf(""), "the file is empty");
  EXPECT_EQ(ErrorOf(" \n"), "the file holds nothing but white space");
  EXPECT_NE(ErrorOf("{\"schema\": \"1.0\", \"pid\": 3, \"nodes\": []}").find("Chakra"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{\"rocprofiler-sdk-tool\": [{}]}").find("rocprofv3"), std::string::npos);
  EXPECT_NE(ErrorOf("[[1, \"create\", [1], 4, \"x\"]]").find("memory timeline"), std::string::npos);
  EXPECT_NE(ErrorOf("{\"segments\": [], \"device_traces\": []}").find("memory snapshot"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{\"loss\": [1, 2]}").find("without traceEvents (keys: loss)"),
            std::string::npos);
  EXPECT_NE(ErrorOf("[{\"loss\": 1}]").find("without \"ph\""), std::string::npos);
  EXPECT_NE(ErrorOf("[1, 2]").find("array of values"), std::string::npos);
  EXPECT_NE(ErrorOf("PK\x03\x04 zip").find("zip"), std::string::npos);
  EXPECT_NE(ErrorOf("\x80\x04 pickle").find("pickle"), std::string::npos);
  EXPECT_NE(ErrorOf("iteration 1/ 10 | loss").find("not JSON"), std::string::npos);
}

TEST(ReadKineto, ATraceOfMetadataAloneHasNothingToAnalyse) {
  const RankTrace t = MustRead(Document(
      {R"({"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"python"}})"}));
  EXPECT_TRUE(t.whole);
  EXPECT_FALSE(t.HasGpu());
  EXPECT_EQ(NoteCount(t, "no_gpu_events"), 1);
  EXPECT_EQ(t.host.span, 0);
}

TEST(ReadKineto, AnUnknownAcceleratorIsSaidSo) {
  const RankTrace t = MustRead(Document(
      {R"({"ph":"X","cat":"mtia_ccp_events","name":"a","pid":0,"tid":7,"ts":20,"dur":5,"args":{}})"}));
  EXPECT_EQ(NoteCount(t, "unknown_device"), 1);
  EXPECT_FALSE(t.HasGpu());
}

TEST(ReadKineto, IdsAboveTheSignedRangeAreRead) {
  const RankTrace t = MustRead(
      Document({LaunchEvent(1000, 1), KernelEvent("ncclDevKernel_AllReduce", 5000, 2000, 1, 7,
                                                  ", \"Comms Id\": 18446744073709551615")}));
  EXPECT_EQ(t.whole_file.counts.comm, 1);
  EXPECT_EQ(t.whole_file.without_launch, 0);
}

}  // namespace
}  // namespace attune::traces
