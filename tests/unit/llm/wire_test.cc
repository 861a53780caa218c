// What goes over the wire, byte for byte, and what a good reply says in each format.
#include "wire.h"

#include "made.h"

namespace attune::llm {
namespace {

TEST(RenderBody, OpenAiAsksForOneForcedCall) {
  EXPECT_EQ(
      *RenderBody(MadeProfile(), MadeRequest()),
      R"({"model":"big-model","messages":[{"role":"system","content":"You tune."},)"
      R"({"role":"user","content":"state"}],"max_tokens":1000,"tools":[{"type":"function",)"
      R"("function":{"name":"propose","description":"Propose one change.","strict":true,)"
      R"("parameters":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"],)"
      R"("additionalProperties":false}}},{"type":"function","function":{"name":"stop",)"
      R"("description":"Nothing is left.","parameters":{"type":"object","properties":{"why":)"
      R"({"type":"string"}},"additionalProperties":false}}}],"tool_choice":"required",)"
      R"("parallel_tool_calls":false})");
}

TEST(RenderBody, AnthropicMarksTheStablePrefixOnce) {
  EXPECT_EQ(
      *RenderBody(MadeProfile(Api::kAnthropic), MadeRequest()),
      R"({"model":"big-model","max_tokens":1000,"tools":[{"name":"propose","description":)"
      R"("Propose one change.","strict":true,"input_schema":{"type":"object","properties":{"to":)"
      R"({"type":"string"}},"required":["to"],"additionalProperties":false}},{"name":"stop",)"
      R"("description":"Nothing is left.","strict":true,"input_schema":{"type":"object",)"
      R"("properties":{"why":{"type":"string"}},"additionalProperties":false}}],"tool_choice":)"
      R"({"type":"any","disable_parallel_tool_use":true},"system":[{"type":"text","text":)"
      R"("You tune.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user",)"
      R"("content":"state"}]})");
}

TEST(RenderBody, BedrockPutsTheSchemaUnderJson) {
  Request request = MadeRequest();
  request.tools.pop_back();
  request.temperature = 0.5;
  EXPECT_EQ(*RenderBody(MadeProfile(Api::kBedrock), request),
            R"({"system":[{"text":"You tune."}],"messages":[{"role":"user","content":[{"text":)"
            R"("state"}]}],"inferenceConfig":{"maxTokens":1000,"temperature":0.5},"toolConfig":)"
            R"({"tools":[{"toolSpec":{"name":"propose","description":"Propose one change.",)"
            R"("inputSchema":{"json":{"type":"object","properties":{"to":{"type":"string"}},)"
            R"("required":["to"],"additionalProperties":false}}}}],"toolChoice":{"tool":{"name":)"
            R"("propose"}}}})");
}

TEST(RenderBody, UnderASchemaTheAnswerIsTextAndSeveralToolsAreNamedInIt) {
  Profile profile = MadeProfile();
  profile.output = Output::kSchema;
  profile.cap_field = "max_completion_tokens";
  Request request = MadeRequest();
  const std::string two = *RenderBody(profile, request);
  EXPECT_NE(two.find(R"("max_completion_tokens":1000)"), std::string::npos) << two;
  EXPECT_EQ(two.find("tool_choice"), std::string::npos) << two;
  EXPECT_NE(two.find(R"("tool":{"type":"string","enum":["propose","stop"]})"), std::string::npos)
      << two;
  request.tools.pop_back();
  const std::string one = *RenderBody(profile, request);
  EXPECT_NE(one.find(R"("response_format":{"type":"json_schema","json_schema":{"name":"propose",)"
                     R"("strict":true,"schema":{"type":"object","properties":{"to")"),
            std::string::npos)
      << one;
}

TEST(RenderBody, IsTheSameBytesEachTimeAndSurvivesAnyText) {
  for (const Api api : {Api::kOpenAiChat, Api::kAnthropic, Api::kBedrock}) {
    Request request = MadeRequest();
    request.user = std::string("bad \xff, quote \", nul ") + '\0' + " tag <|im_start|>";
    const auto body = RenderBody(MadeProfile(api), request);
    ASSERT_TRUE(body.has_value());
    EXPECT_EQ(*body, *RenderBody(MadeProfile(api), request));
    EXPECT_TRUE(IsValidUtf8(*body));
    EXPECT_EQ(ReadJson(*body, {.bytes = 1 << 20}).error, "");
  }
}

TEST(RenderBody, RefusesAToolWithoutASchema) {
  Request request = MadeRequest();
  request.tools[0].schema = "{";
  EXPECT_FALSE(RenderBody(MadeProfile(), request).has_value());
  request.tools.clear();
  EXPECT_FALSE(RenderBody(MadeProfile(), request).has_value());
}

TEST(UrlOf, FollowsEachInterface) {
  Profile p = MadeProfile();
  EXPECT_EQ(UrlOf(p), "https://llm.example.org/v1/chat/completions");
  p.endpoint = "https://x.openai.azure.com/openai/deployments/d/";
  p.api_version = "2026-01-01";
  EXPECT_EQ(UrlOf(p),
            "https://x.openai.azure.com/openai/deployments/d/chat/completions"
            "?api-version=2026-01-01");
  p = MadeProfile(Api::kAnthropic);
  EXPECT_EQ(UrlOf(p), "https://llm.example.org/v1/messages");
  p.endpoint = "https://api.anthropic.com";
  EXPECT_EQ(UrlOf(p), "https://api.anthropic.com/v1/messages");
  p = MadeProfile(Api::kBedrock);
  p.endpoint = "https://bedrock-runtime.us-east-1.amazonaws.com";
  p.model = "us.anthropic.claude-x-v1:0";
  EXPECT_EQ(UrlOf(p),
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-x-v1%3A0/"
            "converse");
}

TEST(ReadAnswer, SaysTheSameInEachFormat) {
  for (const Api api : {Api::kOpenAiChat, Api::kAnthropic, Api::kBedrock}) {
    SCOPED_TRACE(std::string(Word(api)));
    Bench bench({MadeProfile(api)});
    bench.http.Reply(200, Called(api, R"({"to":"1","n":1e-5})"), {{"x-request-id", "req_7"}});
    const Turn turn = bench.Ask();
    EXPECT_EQ(Word(turn.kind), "action") << turn.error;
    EXPECT_EQ(turn.tool, "propose");
    EXPECT_EQ(turn.arguments, R"({"to":"1","n":1e-5})");
    EXPECT_EQ(turn.usage.in, 900);
    EXPECT_EQ(turn.usage.cached, 512);
    EXPECT_EQ(turn.usage.out, 40);
    EXPECT_EQ(turn.request_id, "req_7");
    EXPECT_EQ(turn.status, 200);
  }
}

TEST(ReadAnswer, TakesAnAnswerUnderASchema) {
  Profile profile = MadeProfile();
  profile.output = Output::kSchema;
  Bench bench({profile});
  bench.http.Reply(200, Chat(Said("<think>hm {\"a\":1}</think>{\"tool\":\"stop\",\"arguments\":"
                                  "{\"why\":\"done\"}}")));
  const Turn turn = bench.Ask();
  EXPECT_EQ(turn.tool, "stop") << turn.error;
  EXPECT_EQ(turn.arguments, R"({"why":"done"})");

  bench.request.tools.pop_back();
  bench.http.Reply(200, Chat(Said(R"({"to":"8"})")));
  EXPECT_EQ(bench.Ask().arguments, R"({"to":"8"})");
}

TEST(ReadAnswer, TellsTheModelWhatWasWrong) {
  Bench bench;
  bench.http.Reply(200, Called(Api::kOpenAiChat, "{}", "launch"));
  EXPECT_EQ(bench.Ask().error, "there is no tool 'launch'; there are: propose, stop");
  bench.http.Reply(200, Called(Api::kOpenAiChat, R"({"to":)"));
  EXPECT_EQ(bench.Ask().error,
            "the arguments of propose are not one JSON object: not one whole JSON text: error at "
            "byte 7");
}

}  // namespace
}  // namespace attune::llm
