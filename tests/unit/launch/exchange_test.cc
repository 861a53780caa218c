// What goes over the line, cut and bent; and the mirror that takes it.
#include "exchange.h"

#include <gtest/gtest.h>

#include "attune/base/random.h"
#include "attune/os/files.h"
#include "mirror.h"
#include "serve.h"
#include "unit/launch/local_under_test.h"

namespace attune::launch {
namespace {

LookRequest Question() {
  LookRequest q;
  q.root = "/runs";
  q.wait = Millis{1};
  q.margin = Millis{15'000};
  LookRequest::Launch launch;
  launch.token = Token("attune-t-l001");
  launch.told = FolderState::kRunning;
  launch.files = {{"a0/beat", -1}, {"a0/r001/out", 1234}};
  q.launches = {launch};
  return q;
}

LookAnswer Answer() {
  LookAnswer a;
  a.host = "gpu01";
  a.boot_id = "boot";
  a.wall_ms = 1'700'000'000'000;
  a.mono = Millis{5'000};
  LookAnswer::Launch launch;
  launch.token = Token("attune-t-l001");
  launch.state = FolderState::kEnding;
  launch.more = true;
  launch.pieces = {{"a0/r001/out", 0, std::string("bytes\n\0\xff", 8)}};
  a.launches = {launch};
  return a;
}

TEST(Exchange, AQuestionAndAnAnswerArriveAsTheyWereSent) {
  const auto q = DecodeLookRequest(Encode(Question()));
  ASSERT_TRUE(q.has_value());
  EXPECT_EQ(Encode(*q), Encode(Question()));
  EXPECT_EQ(q->launches[0].files[1].from, 1234);
  const auto a = DecodeLookAnswer(Encode(Answer()));
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(Encode(*a), Encode(Answer()));
  EXPECT_EQ(a->launches[0].pieces[0].bytes, Answer().launches[0].pieces[0].bytes);
}

TEST(Exchange, AnAnswerCutAnywhereIsTorn) {
  const std::string whole = Encode(Answer());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(DecodeLookAnswer(std::string_view(whole).substr(0, n)).has_value()) << n;
  }
}

TEST(Serve, RefusesWhatIsNoRequestAndNamesThatAreNoToken) {
  EXPECT_FALSE(Serve("").has_value());
  EXPECT_FALSE(Serve("attune/look/1\nend 00\n").has_value());
  EXPECT_FALSE(Serve(Encode(Answer())).has_value());
  for (const char* token : {"../other", ".", "", "a/b", "-x"}) {
    EXPECT_FALSE(Serve(Encode(FindRequest{"/tmp", Token(token)})).has_value()) << token;
  }
  EXPECT_FALSE(Serve(Encode(FindRequest{"relative", Token("t")})).has_value());
}

TEST(Serve, PlacesALaunchOnceAndKeepsItsPlan) {
  TemporaryFolder folder;
  Plan plan;
  plan.spec.token = Token("attune-t-l001");
  plan.spec.limit = Millis{1'000};
  Stage stage;
  stage.run = RunId("r001");
  stage.argv = {"true"};
  stage.workdir = "/";
  plan.spec.stages = {stage};
  PlaceRequest request{folder.path(), plan.spec.token, EncodePlan(plan), "#!/bin/sh\n"};
  const std::string there = folder.path() + "/attune-t-l001";
  const auto ask = [&]() -> Result<bool> {
    ATTUNE_TRY(const std::string answer, Serve(Encode(request)));
    return DecodePlaced(answer);
  };
  EXPECT_EQ(ask(), true);
  EXPECT_TRUE(os::Exists(there + "/submitted"));
  EXPECT_EQ(os::ReadFileBounded(there + "/batch.sh", 100), "#!/bin/sh\n");
  EXPECT_EQ(ask(), false) << "a job of it may exist";
  plan.spec.limit = Millis{2'000};
  const std::string before = request.plan;
  request.plan = EncodePlan(plan);
  EXPECT_EQ(ask().error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(os::ReadFileBounded(there + "/plan", 10'000), before);
  request.token = Token("attune-t-l002");
  EXPECT_EQ(ask().error().code, ErrorCode::kInvalidInput) << "the plan is another token's";
}

TEST(Serve, SaysForCertainThatATokenIsNotThere) {
  const TemporaryFolder folder;
  const auto answer = Serve(Encode(FindRequest{folder.path(), Token("attune-t-l001")}));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(DecodeFound(*answer).value_or("?"), "");
  EXPECT_FALSE(os::Exists(folder.path() + "/attune-t-l001"));
}

class MirrorOfOneRun : public testing::Test {
 protected:
  MirrorOfOneRun() {
    Stage stage;
    stage.run = RunId("r001");
    stage.argv = {"train"};
    stage.workdir = "/";
    plan_.spec.token = Token("attune-t-l001");
    plan_.spec.limit = Millis{1'000};
    plan_.spec.stages = {stage};
  }
  static LookAnswer::Launch Pieces(std::vector<LookAnswer::Piece> pieces, bool more = false) {
    LookAnswer::Launch a;
    a.token = Token("attune-t-l001");
    a.pieces = std::move(pieces);
    a.more = more;
    return a;
  }
  std::string Read(const std::string& path) const {
    return os::ReadFileBounded(folder_.path() + "/" + path, 1 << 20).value_or("absent");
  }
  std::int64_t Asked(const Mirror& mirror, const std::string& path) const {
    for (const WantedFile& file : mirror.Wanted()) {
      if (file.path == path) {
        return file.from;
      }
    }
    return -2;
  }

  TemporaryFolder folder_;
  Plan plan_;
};

TEST_F(MirrorOfOneRun, GrowsFromWhereItEndsAlsoInAnotherProcess) {
  {
    Mirror mirror(folder_.path(), plan_, 0);
    EXPECT_EQ(Asked(mirror, "a0/r001/out"), 0);
    ASSERT_TRUE(mirror.Apply(Pieces({{"a0/r001/out", 0, "one\n"}})).has_value());
    EXPECT_EQ(Asked(mirror, "a0/r001/out"), 4);
  }
  Mirror mirror(folder_.path(), plan_, 0);
  EXPECT_EQ(Asked(mirror, "a0/r001/out"), 4);
  ASSERT_TRUE(mirror.Apply(Pieces({{"a0/r001/out", 4, "two\n"}})).has_value());
  // Answered twice, as when a process that was thought dead wakes up.
  ASSERT_TRUE(mirror.Apply(Pieces({{"a0/r001/out", 4, "two\n"}})).has_value());
  EXPECT_EQ(Read("a0/r001/out"), "one\ntwo\n");
}

TEST_F(MirrorOfOneRun, HoldsAnExitRecordBackUntilItsLogIsWhole) {
  Mirror mirror(folder_.path(), plan_, 0);
  const std::string exit = Encode(ExitRecord{});
  ASSERT_TRUE(
      mirror
          .Apply(Pieces(
              {{"a0/exit", -1, exit}, {"a0/r001/exit", -1, exit}, {"a0/r001/out", 0, "part"}},
              true))
          .has_value());
  EXPECT_FALSE(mirror.whole());
  EXPECT_EQ(Read("a0/exit"), "absent");
  ASSERT_TRUE(mirror
                  .Apply(Pieces({{"a0/exit", -1, exit},
                                 {"a0/r001/exit", -1, exit},
                                 {"a0/r001/out", 4, " and the rest"}}))
                  .has_value());
  EXPECT_TRUE(mirror.whole() && mirror.final());
  EXPECT_EQ(Read("a0/exit"), exit);
  EXPECT_EQ(Asked(mirror, "a0/exit"), -2);
}

TEST_F(MirrorOfOneRun, TakesNoFileThatItDidNotAskFor) {
  Mirror mirror(folder_.path(), plan_, 0);
  for (const char* path :
       {"a0/../../escape", "a0/r002/out", "plan", "/etc/passwd", "a0/r001/out.1"}) {
    EXPECT_FALSE(mirror.Apply(Pieces({{path, 0, "x"}})).has_value()) << path;
    EXPECT_FALSE(mirror.Apply(Pieces({{path, -1, "x"}})).has_value()) << path;
  }
}

TEST_F(MirrorOfOneRun, TakesNoTornRecordAndNoLogBeyondItsCap) {
  plan_.times.log_cap = 10;
  Mirror mirror(folder_.path(), plan_, 0);
  ASSERT_TRUE(mirror.Apply(Pieces({{"a0/start", -1, "torn"}})).has_value());
  EXPECT_EQ(Read("a0/start"), "absent");
  EXPECT_EQ(Asked(mirror, "a0/start"), -1);  // asked for again
  EXPECT_FALSE(mirror.Apply(Pieces({{"a0/r001/out", 0, std::string(2 << 20, 'x')}})).has_value());
}

TEST_F(MirrorOfOneRun, SurvivesAnyBytesInAnAnswersPlace) {
  Random random(7);
  const std::string whole = Encode(Answer());
  for (int round = 0; round < 2'000; ++round) {
    std::string bent = whole;
    bent[random.Below(bent.size())] = static_cast<char>(random.Below(256));
    const auto a = DecodeLookAnswer(bent);
    EXPECT_TRUE(!a || bent == whole);
  }
}

}  // namespace
}  // namespace attune::launch
