// Replies seen in the wild, row by row: the numbers are those of the collection of field cases that
// ATTUNE_CORPORA holds (facts/llm_api/bad_replies.md). No row may crash, count as an action it is
// not, or lose the campaign. Rows about what is done with a turn afterwards (3, 9) go on through
// the reader of proposals; rows about history (4, 11, 12, 16, 30) hold by construction: a request
// has none.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "attune/propose/proposer.h"
#include "made.h"

namespace attune::llm {
namespace {

using enum TurnKind;
using os::HttpTrouble;

struct Case {
  int row;  // 0: made by hand
  const char* name;
  TurnKind kind;
  int tries;  // HTTP requests that are made
  std::function<void(Bench&)> play;
  Api api = Api::kOpenAiChat;
};

constexpr const char* kGood = R"({"to":"1"})";

std::string WithCalls(const std::string& calls, const std::string& finish = "\"tool_calls\"",
                      int out_tokens = 40) {
  return Chat(R"({"role":"assistant","content":null,"tool_calls":)" + calls + "}", finish,
              out_tokens);
}
std::string OneCall(const std::string& arguments_json, const std::string& name = "propose") {
  return R"([{"id":"c1","type":"function","function":{"name":")" + name + R"(","arguments":)" +
         arguments_json + "}}]";
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {1, "cut by the cap, but finish_reason says tool_calls", kTruncated, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, kGood, "propose", 1000)); }},
      {2, "a closing bracket is missing: not repaired", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":["a","b")")); }},
      {3, "unparseable arguments replaced by {}", kAction, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, "{}")); }},
      {5, "the call as text in tags", kAction, 1,
       [](Bench& b) {
         b.http.Reply(200,
                      Chat(Said("<tool_call>{\"name\":\"propose\",\"arguments\":{\"to\":\"1\"}}"
                                "</tool_call>")));
       }},
      {5, "the call as a bare JSON object", kAction, 1,
       [](Bench& b) {
         b.http.Reply(200, Chat(Said(R"({"tool":"propose","arguments":{"to":"1"}})")));
       }},
      {5, "the call as <function=...>", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200, Chat(Said("<function=propose>{\"to\":\"1\"}</function>")));
       }},
      {5, "two calls as text", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200,
                      Chat(Said("<tool_call>{\"name\":\"propose\",\"arguments\":{}}</tool_call>"
                                "<tool_call>{\"name\":\"stop\",\"arguments\":{}}</tool_call>")));
       }},
      {6, "[TOOL_CALL] {tool => ...}", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200,
                      Chat(Said("[TOOL_CALL] {tool => \"propose\", args => {}} [/TOOL_CALL]")));
       }},
      {7, "the last brace is missing", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":"1")")); }},
      {8, "arguments are an object, not a string", kAction, 1,
       [](Bench& b) { b.http.Reply(200, WithCalls(OneCall(kGood))); }},
      {9, "every value a string", kAction, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":"10","n":"true"})")); }},
      {10, "two tool calls although parallel was off", kFormatError, 1,
       [](Bench& b) {
         std::string calls = OneCall("\"{}\"");
         calls.pop_back();
         b.http.Reply(200, WithCalls(calls + "," + OneCall("\"{}\"").substr(1)));
       }},
      {10, "two tool_use blocks", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200,
                      R"({"content":[{"type":"tool_use","name":"propose","input":{}},)"
                      R"({"type":"tool_use","name":"stop","input":{}}],)"
                      R"("stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}})");
       },
       Api::kAnthropic},
      {13, "an unknown tool", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, kGood, "launch")); }},
      {14, "stop_reason tool_use without a block", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200, R"({"content":[],"stop_reason":"tool_use",)"
                           R"("usage":{"input_tokens":1,"output_tokens":1}})");
       },
       Api::kAnthropic},
      {15, "empty content, end_turn", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200, R"({"content":[],"stop_reason":"end_turn",)"
                           R"("usage":{"input_tokens":1,"output_tokens":1}})");
       },
       Api::kAnthropic},
      {17, "a refusal of category frontier_llm", kRefusal, 1,
       [](Bench& b) {
         b.http.Reply(
             200, R"({"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal",)"
                  R"("category":"frontier_llm"},"usage":{"input_tokens":1,"output_tokens":0}})");
       },
       Api::kAnthropic},
      {18, "a refusal of category reasoning_extraction", kRefusal, 1,
       [](Bench& b) {
         b.http.Reply(200,
                      R"({"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal",)"
                      R"("category":"reasoning_extraction"},"usage":{"input_tokens":1,)"
                      R"("output_tokens":0}})");
       },
       Api::kAnthropic},
      {19, "content_filter with nothing in it", kRefusal, 1,
       [](Bench& b) {
         b.http.Reply(200, Chat(R"({"role":"assistant","content":null,"refusal":null})",
                                "\"content_filter\""));
       }},
      {19, "a refusal in words", kRefusal, 1,
       [](Bench& b) {
         b.http.Reply(200, Chat(R"({"role":"assistant","content":null,"refusal":"I can't."})"));
       }},
      {20, "a finish_reason nobody documented: refusal", kRefusal, 1,
       [](Bench& b) { b.http.Reply(200, WithCalls(OneCall("\"{}\""), "\"refusal\"")); }},
      {20, "a finish_reason nobody documented: model_length", kTruncated, 1,
       [](Bench& b) { b.http.Reply(200, WithCalls(OneCall("\"{}\""), "\"model_length\"")); }},
      {20, "a finish_reason nobody documented: error", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, WithCalls(OneCall("\"{}\""), "\"error\"")); }},
      {20, "no finish_reason", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, WithCalls(OneCall("\"{}\""), "null")); }},
      {21, "a web page with a 502", kUnreachable, 10,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.answers.push_back(os::HttpReply{
             502, {{"content-type", "text/html"}}, "<html><h1>502</h1></html>", Millis{1}});
       }},
      {21, "a web page with a 200", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.answers.push_back(
             os::HttpReply{200, {{"content-type", "text/html"}}, "<html>hi</html>", Millis{1}});
       }},
      {22, "overloaded_error 529", kOverloaded, 10,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(529, R"({"type":"error","error":{"type":"overloaded_error","message":"O"}})");
       },
       Api::kAnthropic},
      {22, "overloaded_error as an event after a 200", kOverloaded, 10,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.answers.push_back(os::HttpReply{
             200,
             {{"content-type", "text/event-stream"}},
             "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
             "\"message\":\"Overloaded\"}}\n\n",
             Millis{1}});
       },
       Api::kAnthropic},
      {23, "the connection is closed in the middle, then it works", kAction, 2,
       [](Bench& b) {
         b.http.Fail(HttpTrouble::kReset);
         b.http.Reply(200, Called(Api::kOpenAiChat, kGood));
       }},
      {24, "says gzip and is plain: once more without compression", kAction, 2,
       [](Bench& b) {
         b.http.Fail(HttpTrouble::kEncoding);
         b.http.Reply(200, Called(Api::kOpenAiChat, kGood));
       }},
      {25, "one token repeated up to the cap", kTruncated, 1,
       [](Bench& b) {
         std::string noise;
         for (int i = 0; i < 1000; ++i) noise += "off";
         b.http.Reply(200, Chat(Said(noise), "\"length\"", 1000));
       }},
      {25, "one line repeated, formally normal", kFormatError, 1,
       [](Bench& b) {
         std::string noise;
         for (int i = 0; i < 300; ++i) noise += "I will now call the tool.\\n";
         b.http.Reply(200, Chat(Said(noise)));
       }},
      {26, "the prompt was cut from the front", kTooLong, 1,
       [](Bench& b) {
         b.request.user = std::string(40'000, 'x');  // answered with prompt_tokens 900
         b.http.Reply(200, Called(Api::kOpenAiChat, kGood));
       }},
      {27, "reasoning ate the cap", kTruncated, 1,
       [](Bench& b) { b.http.Reply(200, Chat(Said(""), "\"length\"", 1000)); }},
      {28, "a parameter the model no longer takes", kRejected, 1,
       [](Bench& b) {
         b.http.Reply(400, R"({"error":{"message":"temperature is not supported","type":)"
                           R"("invalid_request_error","param":"temperature"}})");
       }},
      {31, "rate headers of -1 and 0 and no retry-after", kAction, 2,
       [](Bench& b) {
         b.http.Reply(429, R"({"error":{"message":"slow down","code":"rate_limit_exceeded"}})",
                      {{"x-ratelimit-reset-tokens", "-1"}, {"retry-after", "0"}});
         b.http.Reply(200, Called(Api::kOpenAiChat, kGood));
       }},
      {32, "403 of a signature", kDenied, 1,
       [](Bench& b) {
         b.http.Reply(403, R"({"message":"The request signature we calculated does not match"})",
                      {{"x-amzn-errortype", "InvalidSignatureException:http://x"}});
       },
       Api::kBedrock},
      {33, "the context is too long", kTooLong, 1,
       [](Bench& b) {
         b.http.Reply(400, R"({"error":{"message":"maximum context length is 8192 tokens",)"
                           R"("code":"context_length_exceeded"}})");
       }},
      {33, "the context is too long, at llama.cpp, with a number for a code", kTooLong, 1,
       [](Bench& b) {
         b.http.Reply(400, R"({"error":{"code":400,"message":"too many","type":)"
                           R"("exceed_context_size_error"}})");
       }},

      {0, "a JSON list", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, "[1,2]");
       }},
      {0, "JSON with text behind it", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, Called(Api::kOpenAiChat, kGood) + " ok");
       }},
      {0, "a byte order mark", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, "\xEF\xBB\xBF" + Called(Api::kOpenAiChat, kGood));
       }},
      {0, "a lone surrogate", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":"\ud800"})")); }},
      {0, "bytes that are no UTF-8", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, Chat("{\"content\":\"\xff\xfe\"}"));
       }},
      {0, "the same key twice in the arguments", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":"1","to":"2"})")); }},
      {0, "the same key twice in an input object", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, Called(Api::kAnthropic, R"({"to":"1","to":"2"})"));
       },
       Api::kAnthropic},
      {0, "a number beyond every double", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":1e400})")); }},
      {0, "NaN", kFormatError, 1,
       [](Bench& b) { b.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":NaN})")); }},
      {0, "nested 100,000 deep", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, std::string(100'000, '['));
       }},
      {0, "arguments nested too deep", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200, Called(Api::kOpenAiChat,
                                  "{\"to\":" + std::string(30, '[') + std::string(30, ']') + "}"));
       }},
      {0, "arguments of a megabyte", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200,
                      Called(Api::kOpenAiChat, "{\"to\":\"" + std::string(1 << 20, 'x') + "\"}"));
       }},
      {0, "an empty body", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, "");
       }},
      {0, "204", kUnreachable, 3,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(204, "");
       }},
      {0, "a redirect", kRejected, 1,
       [](Bench& b) {
         b.http.Reply(302, "", {{"location", "https://evil.example/"}});
       }},
      {0, "a body above the cap", kUnreachable, 2,
       [](Bench& b) {
         b.http.Fail(HttpTrouble::kTooLarge);
         b.http.Fail(HttpTrouble::kTooLarge);
       }},
      {0, "a byte every half minute: the time limit", kUnreachable, 10,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Fail(HttpTrouble::kTimeout);
       }},
      {0, "a certificate that is not the server's", kRejected, 1,
       [](Bench& b) { b.http.Fail(HttpTrouble::kCertificate, false); }},
      {0, "insufficient_quota, a 429 that no wait cures", kExhausted, 1,
       [](Bench& b) {
         b.http.Reply(429, R"({"error":{"message":"You exceeded your current quota","type":)"
                           R"("insufficient_quota","code":"insufficient_quota"}})");
       }},
      {0, "an error in a 200", kOverloaded, 10,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(200, R"({"error":{"message":"upstream busy","code":529}})");
       }},
      {0, "an error that is a text", kRejected, 1,
       [](Bench& b) { b.http.Reply(404, R"({"error":"model 'x' not found"})"); }},
      {0, "Azure's prompt filter", kRefusal, 1,
       [](Bench& b) {
         b.http.Reply(400, R"({"error":{"code":"content_filter","status":400,"message":"m",)"
                           R"("innererror":{"code":"ResponsibleAIPolicyViolation"}}})");
       }},
      {0, "a guardrail of Bedrock", kRefusal, 1,
       [](Bench& b) {
         b.http.Reply(200, R"({"output":{"message":{"content":[]}},"stopReason":)"
                           R"("guardrail_intervened","usage":{"inputTokens":1,"outputTokens":1}})");
       },
       Api::kBedrock},
      {0, "malformed_tool_use of Bedrock", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200, R"({"output":{"message":{"content":[]}},"stopReason":)"
                           R"("malformed_tool_use","usage":{"inputTokens":1,"outputTokens":1}})");
       },
       Api::kBedrock},
      {0, "ThrottlingException", kOverloaded, 10,
       [](Bench& b) {
         b.http.repeat_last = true;
         b.http.Reply(429, R"({"message":"Too many requests"})",
                      {{"x-amzn-errortype", "ThrottlingException:http://x"}});
       },
       Api::kBedrock},
      {0, "wrong types all over", kFormatError, 1,
       [](Bench& b) {
         b.http.Reply(200, R"({"id":7,"model":[],"choices":"none","usage":"many"})");
       }},
      {0, "a 401", kDenied, 1,
       [](Bench& b) {
         b.http.Reply(401,
                      R"({"error":{"message":"Incorrect API key provided: canary-key-0123456789",)"
                      R"("code":"invalid_api_key"}})");
       }},
  };
  return cases;
}

TEST(BadReply, GetsItsEndAndItsTries) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(std::to_string(c.row) + ": " + c.name);
    Bench bench({MadeProfile(c.api)});
    c.play(bench);
    const Turn turn = bench.Ask();
    EXPECT_EQ(Word(turn.kind), Word(c.kind)) << turn.error;
    EXPECT_EQ(turn.tries, c.tries);
    if (turn.kind == kAction) {
      EXPECT_FALSE(turn.tool.empty());
    } else {
      EXPECT_FALSE(turn.error.empty());
      EXPECT_EQ(turn.tool, "");
      EXPECT_EQ(turn.arguments, "");
    }
    EXPECT_EQ(turn.error.find("canary"), std::string::npos) << turn.error;
  }
}

// What the row's proposal comes to in the one strict reader that every reply passes.
std::string ReaderSays(const std::string& arguments) {
  const ProposerReply reply = ParseProposal(arguments);
  const auto* bad = std::get_if<BadReply>(&reply);
  return bad == nullptr ? "a proposal" : bad->error;
}

TEST(BadReply, EmptyArgumentsAreNoProposal) {  // row 3
  EXPECT_NE(ReaderSays("{}"), "a proposal");
}

TEST(BadReply, StringsInTheFullFormOfAScalarAreTakenAndListsAsTextAreNot) {  // row 9
  EXPECT_EQ(ReaderSays(R"({"lever":"x","changes":[{"op":"set","flag":"--x","value":"10"}]})"),
            "a proposal");
  EXPECT_NE(ReaderSays(R"({"lever":"x","changes":"[{\"op\":\"unset\",\"flag\":\"--x\"}]"})"),
            "a proposal");
}

std::size_t Occurrences(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// Rows 4, 11, 12, 16, 29, 30: no turn of the model is ever sent back, so none can poison a request.
TEST(BadReply, ARequestHasNoHistoryAndAtMostThreeCacheMarks) {
  for (const Api api : {Api::kOpenAiChat, Api::kAnthropic, Api::kBedrock}) {
    Bench bench({MadeProfile(api)});
    bench.http.Reply(200, Called(api, R"({"to")"));
    (void)bench.Ask();
    bench.http.Reply(200, Called(api, kGood));
    (void)bench.Ask();
    const std::string& body = bench.http.requests.back().body;
    EXPECT_EQ(Occurrences(body, "\"role\":\"user\""), 1u) << body;
    EXPECT_EQ(Occurrences(body, "assistant"), 0u) << body;
    EXPECT_EQ(Occurrences(body, "tool_result"), 0u) << body;
    EXPECT_LE(Occurrences(body, "cache_control"), 3u) << body;
    EXPECT_EQ(Occurrences(body, "\"text\":\"\""), 0u) << body;
  }
}

TEST(BadReply, EveryRowOfTheCollectionIsHere) {
  const char* corpora = std::getenv("ATTUNE_CORPORA");
  if (corpora == nullptr) GTEST_SKIP() << "ATTUNE_CORPORA is not set";
  std::ifstream in(std::string(corpora) + "/facts/llm_api/bad_replies.md");
  ASSERT_TRUE(in) << "no facts/llm_api/bad_replies.md";
  std::set<int> covered = {4, 11, 12, 16, 29, 30};  // ARequestHasNoHistory...
  for (const Case& c : Cases()) covered.insert(c.row);
  int rows = 0;
  std::string line;
  while (std::getline(in, line)) {
    const std::vector<std::string_view> cells = Split(line, '|');
    const auto row = cells.size() > 2 ? ParseInt(Trim(cells[1])) : std::nullopt;
    if (!row) continue;
    ++rows;
    EXPECT_TRUE(covered.contains(static_cast<int>(*row))) << line;
  }
  EXPECT_GT(rows, 0);
}

}  // namespace
}  // namespace attune::llm
