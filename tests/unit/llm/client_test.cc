// Tries, waits, money, keys and what is kept, over a server in memory and a clock that jumps.
#include <cmath>
#include <fstream>
#include <iterator>

#include "attune/os/files.h"
#include "judge.h"
#include "made.h"

namespace attune::llm {
namespace {

using os::HttpTrouble;

constexpr const char* kGood = R"({"to":"1"})";

std::string FileText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Client, FollowsTheServersWishWithinItsCap) {
  Bench bench;
  bench.http.Reply(429, "{}", {{"retry-after", "20"}});
  bench.http.Reply(503, "{}", {{"retry-after-ms", "1500"}});
  bench.http.Reply(429, "{}", {{"retry-after", "7200"}});
  bench.http.Reply(429, "{}",
                   {{"date", "Mon, 30 Nov 2026 20:00:00 GMT"},
                    {"retry-after", "Mon, 30 Nov 2026 20:00:45 GMT"}});
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  const Millis began = bench.clock.Monotonic();
  EXPECT_EQ(bench.Ask().tries, 5);
  EXPECT_EQ((bench.clock.Monotonic() - began).count(), 20'000 + 1'500 + 300'000 + 45'000);
  EXPECT_EQ(bench.waits.front(), "model big-model: overloaded, next try in 20s, 2 of 10");
}

TEST(Client, BacksOffByItselfAndNeverHammers) {
  Bench bench;
  bench.http.repeat_last = true;
  bench.http.Fail(HttpTrouble::kConnect, false);
  const Millis began = bench.clock.Monotonic();
  const Turn turn = bench.Ask();
  EXPECT_EQ(Word(turn.kind), "unreachable");
  EXPECT_EQ(turn.tries, 10);
  const Millis waited = bench.clock.Monotonic() - began;
  EXPECT_GE(waited, 9 * bench.options.patience.least_wait);
  EXPECT_LE(waited, 9 * 120 * bench.options.patience.backoff);
}

TEST(Client, EndsWhenItsTimeIsOver) {
  Bench bench;
  bench.http.repeat_last = true;
  bench.http.takes = std::chrono::minutes(15);
  bench.http.Fail(HttpTrouble::kTimeout);
  EXPECT_EQ(bench.Ask().tries, 2);  // a third would begin after half an hour
}

TEST(Client, StopsInAWaitAndKeepsWhatCame) {
  Bench bench;
  bench.http.repeat_last = true;
  bench.http.Reply(429, "{}", {{"retry-after", "100"}});
  int looks = 0;
  const Turn turn = bench.Ask({.pulse = [&] { return ++looks < 5; }, .usd_micros = {}});
  EXPECT_EQ(Word(turn.kind), "interrupted");
  EXPECT_EQ(turn.tries, 1);
  EXPECT_EQ(looks, 5);
  const auto exchange = ReadExchange(bench.folder, "q001");
  ASSERT_TRUE(exchange.has_value());
  EXPECT_EQ(Word(exchange->turn->kind), "interrupted");
}

TEST(Client, ShouldRetryOfTheServerWins) {
  Bench bench({MadeProfile(Api::kAnthropic)});
  bench.http.Reply(500, "{}", {{"x-should-retry", "false"}});
  EXPECT_EQ(bench.Ask().tries, 1);
}

// ----- money

TEST(Client, CountsTokensAtTheirPrices) {
  Bench bench;
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  // 388 fresh at 2, 512 cached at 0.5, 40 out at 10 dollars a million.
  EXPECT_EQ(bench.Ask().usd_micros, 388 * 2 + 256 + 400);
}

TEST(Client, CountsATryOfUnknownFateAtItsBound) {
  Bench bench;
  bench.http.Fail(HttpTrouble::kTimeout);
  bench.http.Fail(HttpTrouble::kConnect, false);  // never reached anybody: free
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  const Turn turn = bench.Ask();
  const auto prepared = bench.client->Kept("q001");
  const std::int64_t bound = *prepared->bound_usd_micros;
  EXPECT_EQ(bound, static_cast<std::int64_t>(
                       std::ceil(static_cast<double>(prepared->body.size()) * 2.5 + 1000 * 10)));
  EXPECT_EQ(turn.usd_micros, bound + 1432);
}

TEST(Client, MakesNoTryThatTheMoneyLeftMayNotCover) {
  Bench bench;
  bench.http.repeat_last = true;
  bench.http.Fail(HttpTrouble::kTimeout);
  const Turn free = bench.Ask();
  EXPECT_EQ(free.tries, 10);
  const std::int64_t bound = *bench.client->Kept("q001")->bound_usd_micros;
  const Turn turn = bench.Ask({.pulse = {}, .usd_micros = 2 * bound});
  EXPECT_EQ(turn.tries, 2);
  EXPECT_EQ(turn.usd_micros, 2 * bound);
}

TEST(Client, KnowsNoCostWithoutAPrice) {
  Profile profile = MadeProfile();
  profile.price.reset();
  Bench bench({profile});
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  EXPECT_FALSE(bench.Ask().usd_micros.has_value());
  EXPECT_FALSE(bench.client->Kept("q001")->bound_usd_micros.has_value());
}

TEST(PublishedPrice, FindsAModelUnderItsLongNames) {
  for (const char* id : {"claude-opus-4-1", "us.anthropic.claude-opus-4-1-20250805-v1:0",
                         "anthropic/claude-opus-4-1", "claude-opus-4-1-20250805"}) {
    ASSERT_TRUE(PublishedPrice(id).has_value()) << id;
    EXPECT_EQ(PublishedPrice(id)->out, 75) << id;
    EXPECT_FALSE(PublishedPrice(id)->source.empty());
    EXPECT_FALSE(PublishedPrice(id)->date.empty());
  }
  EXPECT_FALSE(PublishedPrice("claude-opus-4-15").has_value());
  EXPECT_FALSE(PublishedPrice("").has_value());
  EXPECT_FALSE(PublishedPrice("model").has_value());
}

// ----- keys

std::string HeaderOf(const os::HttpRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(Client, SendsTheKeyInTheHeaderOfTheInterfaceAndNowhereElse) {
  struct Way {
    Api api;
    Auth auth;
    const char* header;
    const char* value;
  };
  for (const Way& way :
       {Way{Api::kOpenAiChat, Auth::kBearer, "Authorization", "Bearer canary-key-0123456789"},
        Way{Api::kOpenAiChat, Auth::kApiKey, "api-key", "canary-key-0123456789"},
        Way{Api::kAnthropic, Auth::kXApiKey, "x-api-key", "canary-key-0123456789"}}) {
    Profile profile = MadeProfile(way.api);
    profile.auth = way.auth;
    Bench bench({profile});
    bench.http.Reply(200, Called(way.api, kGood));
    (void)bench.Ask();
    const os::HttpRequest& request = bench.http.requests.back();
    EXPECT_EQ(HeaderOf(request, way.header), way.value);
    EXPECT_EQ(request.body.find("canary"), std::string::npos);
    EXPECT_EQ(request.url.find("canary"), std::string::npos);
  }
}

TEST(Client, RefusesAKeyThatIsMeantForAnotherOrigin) {
  for (const char* elsewhere :
       {"https://evil.example.org/v1", "http://localhost/v1", "https://llm.example.org:444/v1"}) {
    Bench bench;
    bench.options.models[0].endpoint = elsewhere;
    const auto client = MakeClient(bench.options, bench.http, bench.clock);
    ASSERT_FALSE(client.has_value()) << elsewhere;
    EXPECT_EQ(client.error().code, ErrorCode::kDenied) << client.error().message;
    EXPECT_EQ(client.error().message.find("canary"), std::string::npos);
  }
}

TEST(CheckProfile, SendsNothingInClearTextAcrossANetwork) {
  Profile profile = MadeProfile();
  profile.auth = Auth::kNone;
  profile.key.reset();
  for (const char* fine : {"http://127.0.0.1:8080/v1", "http://localhost:11434/v1",
                           "http://[::1]:8000/v1", "https://host.example/v1"}) {
    profile.endpoint = fine;
    EXPECT_TRUE(CheckProfile(profile).has_value()) << fine;
  }
  for (const char* bad :
       {"http://host.example/v1", "http://127.0.0.1.evil.example/v1", "http://127.1/v1",
        "ftp://localhost/", "https://user:pw@host/v1", "https://host/v1#x", "https://host:0/v1",
        "https:///v1", "localhost", "https://host\\@evil/v1", "https://h ost/v1"}) {
    profile.endpoint = bad;
    EXPECT_FALSE(CheckProfile(profile).has_value()) << bad;
  }
}

TEST(CheckProfile, RefusesAKeyThatWouldBreakOutOfItsHeader) {
  Profile profile = MadeProfile();
  profile.key->value = "abc\r\nX-Evil: 1";
  EXPECT_FALSE(CheckProfile(profile).has_value());
  profile.key->value = "";
  EXPECT_FALSE(CheckProfile(profile).has_value());
}

TEST(Client, KeepsNoKeyWhateverComesBack) {
  Bench bench;
  bench.request.user = "a log line with canary-key-0123456789 in it";
  bench.http.Reply(401, R"({"error":{"message":"bad key canary-key-0123456789"}})");
  EXPECT_NE(bench.Ask().error.find("[redacted:ATTUNE_LLM_API_KEY]"), std::string::npos);
  bench.http.Reply(200, Chat(Said("Y2FuYXJ5LWtleS0wMTIzNDU2Nzg5 canary-key-0123456789")));
  (void)bench.Ask();
  bench.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":"canary-key-0123456789"})"));
  EXPECT_EQ(bench.Ask().arguments, R"({"to":"[redacted:ATTUNE_LLM_API_KEY]"})");
  for (const char* file : {"q001.request", "q001.reply", "q002.reply", "q003.reply"}) {
    const std::string text = FileText(bench.folder + "/" + file + ".json");
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.find("canary-key"), std::string::npos) << file << text;
    EXPECT_EQ(text.find("Y2FuYXJ5"), std::string::npos) << file;
  }
}

// ----- what is kept

TEST(Client, SendsWhatIsKeptByteForByte) {
  Bench bench;
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  (void)bench.Ask();
  const auto kept = bench.client->Kept("q001");
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->body, bench.http.requests[0].body);
  EXPECT_EQ(kept->body_hash, Sha256Hex(kept->body));
  // Once more, as a process would that was killed before the answer.
  ASSERT_TRUE(bench.client->Keep("q002", *kept).has_value());
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  ASSERT_TRUE(bench.client->Send("q002", *kept, {}).has_value());
  EXPECT_EQ(bench.http.requests[1].body, bench.http.requests[0].body);
}

TEST(Client, ACallHasOneRequest) {
  Bench bench;
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  (void)bench.Ask();
  bench.request.user = "another state";
  const auto other = bench.client->Prepare(bench.request, 0);
  EXPECT_FALSE(bench.client->Keep("q001", *other).has_value());
  EXPECT_TRUE(bench.client->Keep("q001", *bench.client->Kept("q001")).has_value());
  EXPECT_FALSE(bench.client->Keep("../q001", *other).has_value());
}

TEST(Client, ADamagedRequestIsNotSent) {
  Bench bench;
  bench.http.Reply(200, Called(Api::kOpenAiChat, kGood));
  (void)bench.Ask();
  const std::string path = bench.folder + "/q001.request.json";
  std::string text = FileText(path);
  const std::size_t at = text.find("state");
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(os::WriteFileAtomic(path, text.replace(at, 5, "STATE")).has_value());
  const auto kept = bench.client->Kept("q001");
  ASSERT_FALSE(kept.has_value());
  EXPECT_EQ(kept.error().code, ErrorCode::kCorrupt);
}

TEST(Client, AsksTheNextModelOfTheListInItsOwnFormat) {
  Profile second = MadeProfile(Api::kAnthropic);
  second.model = "other-model";
  second.name = "other";
  Bench bench({MadeProfile(), second});
  EXPECT_EQ(MakeClient(bench.options, bench.http, bench.clock).value()->Models(),
            (std::vector<std::string>{"big-model", "other-model"}));
  bench.http.Reply(200, Called(Api::kAnthropic, kGood));
  EXPECT_EQ(Word(bench.Ask({}, 1).kind), "action");
  EXPECT_TRUE(bench.http.requests[0].url.ends_with("/v1/messages"));
  EXPECT_EQ(HeaderOf(bench.http.requests[0], "x-api-key"), "canary-key-0123456789");
}

// ----- replay

TEST(Replay, AnswersInOrderFromTheRecordAndAsksWithTheSameBytes) {
  Bench bench;
  bench.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":"1"})"));
  bench.http.Reply(200, Chat(Said("no call")));
  (void)bench.Ask();
  bench.request.user = "another state";
  (void)bench.Ask();
  const std::string own = bench.folder + "/again";
  auto replay = MakeReplay(bench.folder, own);
  ASSERT_TRUE(replay.has_value()) << replay.error().message;
  EXPECT_EQ((*replay)->Models(), std::vector<std::string>{"big-model"});
  const auto play = [&](Client& client, const std::string& call, const char* state) {
    bench.request.user = state;
    const auto prepared = client.Prepare(bench.request, 0);
    EXPECT_TRUE(client.Keep(call, *prepared).has_value());
    EXPECT_EQ(prepared->body, bench.http.requests[state == std::string("state") ? 0 : 1].body);
    return *client.Send(call, *prepared, {});
  };
  EXPECT_EQ(play(**replay, "q001", "state").arguments, R"({"to":"1"})");
  // Another process: the answer was lost with the first one, and is asked for once more.
  replay = MakeReplay(bench.folder, own);
  EXPECT_EQ(play(**replay, "q002", "state").arguments, R"({"to":"1"})");
  const Turn second = play(**replay, "q003", "another state");
  EXPECT_EQ(Word(second.kind), "format_error");
  EXPECT_EQ(second.usd_micros, 0);
  bench.request.user = "a third";
  const auto third = (*replay)->Prepare(bench.request, 0);
  EXPECT_TRUE((*replay)->Keep("q004", *third).has_value());
  EXPECT_EQ(Word((*replay)->Send("q004", *third, {})->kind), "unreachable");
  EXPECT_EQ(bench.http.requests.size(), 2u);
}

TEST(Replay, NeedsARecord) {
  const auto replay = MakeReplay("/nonexistent/llm", "/nonexistent/own");
  ASSERT_FALSE(replay.has_value());
  EXPECT_EQ(replay.error().code, ErrorCode::kNotFound);
}

// ----- which models there are

TEST(ListModels, ReadsTheServersList) {
  Bench bench;
  bench.http.Reply(200, R"({"object":"list","data":[{"id":"a"},{"id":"b"},{"no":"id"}]})");
  const auto models = ListModels(MadeProfile(), bench.http, {});
  ASSERT_TRUE(models.has_value());
  EXPECT_EQ(*models, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(bench.http.requests[0].method, "GET");
  EXPECT_EQ(bench.http.requests[0].url, "https://llm.example.org/v1/models");
  bench.http.Reply(401, "{}");
  EXPECT_EQ(ListModels(MadeProfile(), bench.http, {}).error().code, ErrorCode::kDenied);
}

}  // namespace
}  // namespace attune::llm
