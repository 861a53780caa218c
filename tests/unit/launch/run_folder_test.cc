#include "run_folder.h"

#include <gtest/gtest.h>

#include "attune/launch/run_log.h"
#include "attune/os/files.h"
#include "log_sink.h"
#include "record.h"
#include "unit/launch/local_under_test.h"

namespace attune::launch {
namespace {

std::string AllBytes() {
  std::string s;
  for (int c = 1; c < 256; ++c) {
    s += static_cast<char>(c);
  }
  return s;
}

Plan HostilePlan() {
  Plan plan;
  plan.spec.token = Token("attune-c-l001-0a1b2c3d");
  plan.spec.slots = 8;
  plan.spec.limit = Millis{1234};
  Stage stage;
  stage.run = RunId("r007");
  stage.argv = {"/bin/x", "--a", "", " ", "end", "\nend 0\n", "$(rm -rf /)", AllBytes()};
  stage.env = {{"A", AllBytes()}, {"B", ""}, {"C", "x=y=z"}};
  stage.workdir = "/a b/c";
  stage.kind = RanksKind::kEnv;
  stage.ranks = 2;
  plan.spec.stages = {stage, stage};
  plan.spec.stages[1].run = RunId("r008");
  Stage scripted;
  scripted.run = RunId("r009");
  scripted.script = "#!" + AllBytes();
  scripted.argv = {"--a", "", "$(rm -rf /)"};
  scripted.workdir = "/";
  plan.spec.stages.push_back(scripted);
  return plan;
}

// Every file of a run folder, cut at every byte, must read as absent: nothing half-believed.
template <class Decode>
void ExpectTornEverywhere(const std::string& whole, Decode decode) {
  for (std::size_t n = 0; n < whole.size(); ++n) {
    ASSERT_FALSE(decode(whole.substr(0, n))) << "cut at " << n;
  }
  EXPECT_TRUE(decode(whole));
  EXPECT_FALSE(decode(whole + "x"));
  EXPECT_FALSE(decode(whole + whole));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 1);
    ASSERT_FALSE(decode(flipped)) << "bit flipped at " << n;
  }
}

TEST(RunFolder, APlanArrivesByteForByte) {
  const Plan plan = HostilePlan();
  const auto read = DecodePlan(EncodePlan(plan));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->spec.token, plan.spec.token);
  EXPECT_EQ(read->spec.slots, 8);
  EXPECT_EQ(read->spec.limit, Millis{1234});
  ASSERT_EQ(read->spec.stages.size(), 3U);
  EXPECT_EQ(read->spec.stages[0].argv, plan.spec.stages[0].argv);
  EXPECT_EQ(read->spec.stages[0].env, plan.spec.stages[0].env);
  EXPECT_EQ(read->spec.stages[0].workdir, "/a b/c");
  EXPECT_EQ(read->spec.stages[1].run, RunId("r008"));
  EXPECT_EQ(read->spec.stages[1].ranks, 2);
  EXPECT_EQ(read->spec.stages[1].script, "");
  EXPECT_EQ(read->spec.stages[2].script, plan.spec.stages[2].script);
  EXPECT_EQ(read->spec.stages[2].argv, plan.spec.stages[2].argv);
}

TEST(RunFolder, RecordsCutOrBentAnywhereCountAsAbsent) {
  StartRecord start;
  start.token = "attune-c-l001-0a1b2c3d";
  start.process = {42, 4711, "b-o-o-t"};
  start.host = "node 1\n";
  ExpectTornEverywhere(Encode(start),
                       [](const std::string& s) { return DecodeStart(s).has_value(); });
  ExpectTornEverywhere(Encode(BeatRecord{1, Millis{2}, "r1", 3}),
                       [](const std::string& s) { return DecodeBeat(s).has_value(); });
  ExpectTornEverywhere(Encode(LostRecord{Millis{5}, true}),
                       [](const std::string& s) { return DecodeLost(s).has_value(); });
  ExitRecord exit;
  exit.signal = 9;
  exit.ending = Ending::kLimit;
  ExpectTornEverywhere(Encode(exit),
                       [](const std::string& s) { return DecodeExit(s).has_value(); });
  Plan plan = HostilePlan();
  plan.spec.stages[0].argv.pop_back();
  ExpectTornEverywhere(EncodePlan(plan),
                       [](const std::string& s) { return DecodePlan(s).has_value(); });
}

TEST(RunFolder, AnExitRecordKeepsCodeAndSignalApart) {
  ExitRecord exit;
  exit.code = 0;
  exit.ending = Ending::kExited;
  exit.held = Millis{77};
  exit.log_dropped = 5;
  exit.strays = 2;
  exit.detail = "why";
  const auto read = DecodeExit(Encode(exit));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->code, 0);
  EXPECT_FALSE(read->signal.has_value());
  EXPECT_EQ(read->held, Millis{77});
  EXPECT_EQ(read->log_dropped, 5);
  EXPECT_EQ(read->strays, 2);
  EXPECT_EQ(read->detail, "why");
}

TEST(RunFolder, ANewerVersionIsNamedAsSuchAndAnotherKindIsNot) {
  std::string bytes = Record("exit").Encode();
  EXPECT_EQ(DecodeRecord(bytes, "start").error().code, ErrorCode::kCorrupt);
  bytes.replace(bytes.find("/1\n"), 2, "/2");
  EXPECT_EQ(DecodeRecord(bytes, "exit").error().code, ErrorCode::kNewerFormat);
}

TEST(RunFolder, APlanThatCannotBeCarriedOutIsRefusedWithItsReason) {
  const auto why = [](auto change) {
    LaunchSpec spec = HostilePlan().spec;
    change(spec);
    return WhyInvalid(spec);
  };
  EXPECT_EQ(why([](LaunchSpec&) {}), "");
  for (const char* token : {"", ".", "..", ".a", "-rf", "a/b", "A", "a b", "a\n", "\xc3\xa9"}) {
    EXPECT_NE(why([&](LaunchSpec& s) { s.token = Token(token); }), "") << token;
    EXPECT_NE(why([&](LaunchSpec& s) { s.stages[0].run = RunId(token); }), "") << token;
  }
  EXPECT_NE(why([](LaunchSpec& s) { s.stages.clear(); }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[1].run = s.stages[0].run; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].argv.clear(); }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].argv[1] = std::string("a\0b", 3); }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].env["A=B"] = "c"; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].env[""] = "c"; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].env["ATTUNE_TOKEN"] = "x"; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].workdir = "relative"; }), "");
  // What a launch script is handed stands in lines, and the script is all that is started.
  EXPECT_EQ(why([](LaunchSpec& s) { s.stages[2].argv.clear(); }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[2].argv[1] = "two\nlines"; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[2].env["A"] = "two\nlines"; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[2].kind = RanksKind::kEnv; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.stages[0].env["ATTUNE_ARGS_FILE"] = "x"; }), "");
  EXPECT_NE(why([](LaunchSpec& s) { s.limit = Millis{0}; }), "");  // 0 would mean "no limit"
  EXPECT_NE(why([](LaunchSpec& s) { s.slots = 0; }), "");
}

TEST(RunFolder, StampsStopAtTheFirstTornOrFallingEntry) {
  const std::string good = Encode(Stamp{10, 1}) + Encode(Stamp{20, 1}) + Encode(Stamp{30, 5});
  EXPECT_EQ(DecodeStamps(good).size(), 3U);
  for (std::size_t n = 0; n <= good.size(); ++n) {
    EXPECT_EQ(DecodeStamps(good.substr(0, n)).size(), n / kStampBytes);
  }
  EXPECT_EQ(DecodeStamps(good + Encode(Stamp{30, 9}) + Encode(Stamp{40, 9})).size(), 3U);
  EXPECT_EQ(DecodeStamps(good + Encode(Stamp{40, 4})).size(), 3U);
}

// ----- the log

TEST(LogSink, StampsTellWhenEachPieceArrived) {
  const TemporaryFolder folder;
  auto sink = LogSink::Open(folder.path(), 0, 1000);
  ASSERT_TRUE(sink.has_value());
  sink->Write("one\n", Stream::kOut, Millis{5});
  sink->Write("two\n", Stream::kOut, Millis{9});
  sink->Finish(Millis{10});
  EXPECT_EQ(*os::ReadFileBounded(folder.path() + "/out", 100), "one\ntwo\n");
  const auto stamps = DecodeStamps(*os::ReadFileBounded(folder.path() + "/stamps", 100));
  ASSERT_EQ(stamps.size(), 2U);
  EXPECT_EQ(stamps[0].end, 4);
  EXPECT_EQ(stamps[0].ms, 5);
  EXPECT_EQ(stamps[1].end, 8);
  EXPECT_EQ(stamps[1].ms, 9);
  EXPECT_FALSE(LogSink::Open(folder.path(), 0, 1000).has_value());  // one writer
}

struct Sunk {
  std::string out, err;  // all of it, and what of it is stderr's
  std::vector<Stamp> stamps;
};
Sunk ReadSunk(const TemporaryFolder& folder) {
  Sunk sunk;
  sunk.out = *os::ReadFileBounded(folder.path() + "/out", 1 << 20);
  sunk.stamps = DecodeStamps(*os::ReadFileBounded(folder.path() + "/stamps", 1 << 20));
  const auto ranges = StderrRanges(folder.path(), 0);
  EXPECT_TRUE(ranges.has_value());
  for (const LogRange& r : ranges.value_or(std::vector<LogRange>())) {
    sunk.err +=
        sunk.out.substr(static_cast<std::size_t>(r.from), static_cast<std::size_t>(r.end - r.from));
  }
  return sunk;
}

TEST(LogSink, KnowsWhatCameThroughStderrAndBreaksNoLineWithIt) {
  const TemporaryFolder folder;
  auto sink = LogSink::Open(folder.path(), 0, 1000);
  ASSERT_TRUE(sink.has_value());
  sink->Write("step 1\nstep", Stream::kOut, Millis{1});
  sink->Write("warning\n", Stream::kErr, Millis{2});
  EXPECT_TRUE(sink->holding());
  sink->Tick(Millis{20});  // not yet
  EXPECT_TRUE(sink->holding());
  sink->Write(" 2\nstep", Stream::kOut, Millis{21});
  EXPECT_FALSE(sink->holding());
  sink->Write(" 3\n", Stream::kOut, Millis{22});
  sink->Write("Traceback\n", Stream::kErr, Millis{23});
  sink->Finish(Millis{24});
  const Sunk sunk = ReadSunk(folder);
  EXPECT_EQ(sunk.out, "step 1\nstep 2\nwarning\nstep 3\nTraceback\n");
  EXPECT_EQ(sunk.err, "warning\nTraceback\n");
  EXPECT_EQ(sunk.stamps.back().end, static_cast<std::int64_t>(sunk.out.size()));
}

TEST(LogSink, ALineWithoutAnEndHoldsNothingBackForLong) {
  const TemporaryFolder folder;
  auto sink = LogSink::Open(folder.path(), 0, 1 << 20);
  ASSERT_TRUE(sink.has_value());
  sink->Write("50%", Stream::kOut, Millis{10});
  sink->Write("step 1\n", Stream::kErr, Millis{11});
  sink->Tick(Millis{11} + LogSink::kHoldTime);
  EXPECT_FALSE(sink->holding());
  sink->Write("60%", Stream::kOut, Millis{100});
  sink->Write(std::string(LogSink::kHoldBytes + 1, 'x'), Stream::kErr, Millis{101});
  EXPECT_FALSE(sink->holding());
  sink->Write("70%", Stream::kOut, Millis{102});  // waits for the end of the x's: Finish
  sink->Finish(Millis{103});
  const Sunk sunk = ReadSunk(folder);
  EXPECT_EQ(sunk.out, "50%step 1\n60%" + std::string(LogSink::kHoldBytes + 1, 'x') + "70%");
  EXPECT_EQ(sunk.err, "step 1\n" + std::string(LogSink::kHoldBytes + 1, 'x'));
  EXPECT_EQ(sunk.stamps[1].ms, 61);
}

TEST(ErrRanges, AreReadUpToTheFirstThatIsTornOrGoesBack) {
  const std::string good = Encode(ErrRange{3, 10}) + Encode(ErrRange{10, 12});
  for (std::size_t n = 0; n <= good.size(); ++n) {
    EXPECT_EQ(DecodeErrRanges(good.substr(0, n)).size(), n / kErrRangeBytes);
  }
  EXPECT_EQ(DecodeErrRanges(good + Encode(ErrRange{11, 20})).size(), 2U);
  EXPECT_EQ(DecodeErrRanges(good + Encode(ErrRange{20, 20})).size(), 2U);
  EXPECT_EQ(DecodeErrRanges(Encode(ErrRange{-1, 4})).size(), 0U);
}

TEST(StderrRanges, AreUnknownWhereAnOlderWrapperRan) {
  const TemporaryFolder folder;
  EXPECT_FALSE(StderrRanges(folder.path(), 0).has_value());
}

TEST(LogSink, PastTheCapTheLastWordsAreKeptAndTheGapIsCounted) {
  const TemporaryFolder folder;
  auto sink = LogSink::Open(folder.path(), 1, 100);
  ASSERT_TRUE(sink.has_value());
  std::int64_t written = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string line(1000, 'a');
    sink->Write(line, Stream::kOut, Millis{i});
    written += 1000;
  }
  sink->Write("the reason why it died\n", Stream::kErr, Millis{500});
  written += 23;
  sink->Finish(Millis{501});
  const std::string out = *os::ReadFileBounded(folder.path() + "/out.1", 1 << 20);
  EXPECT_LT(out.size(), 70'000U);
  EXPECT_TRUE(out.ends_with("the reason why it died\n"));
  const auto marker = out.find("[attune: " + std::to_string(sink->dropped()) + " bytes");
  EXPECT_EQ(marker, 101U);
  EXPECT_EQ(100 + sink->dropped() + (64 << 10), written);
  EXPECT_EQ(sink->bytes(), static_cast<std::int64_t>(out.size()));
}

}  // namespace
}  // namespace attune::launch
