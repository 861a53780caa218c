// What the tests of llm share: a profile, a request, replies in each wire format, a client over a
// server in memory.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "attune/base/random.h"
#include "attune/base/text.h"
#include "attune/llm/profile.h"
#include "fakes/fake_http.h"
#include "fakes/virtual_clock.h"

namespace attune::llm {

inline Profile MadeProfile(Api api = Api::kOpenAiChat) {
  Profile p;
  p.api = api;
  p.endpoint = "https://llm.example.org/v1";
  p.model = "big-model";
  p.auth = api == Api::kAnthropic ? Auth::kXApiKey : Auth::kBearer;
  p.key = Key{"canary-key-0123456789", "ATTUNE_LLM_API_KEY", *os::OriginOf(p.endpoint)};
  p.price =
      Price{.in = 2, .cached = 0.5, .cache_write = 2.5, .out = 10, .source = "t", .date = "t"};
  return p;
}

inline Request MadeRequest() {
  Request r;
  r.system = "You tune.";
  r.user = "state";
  r.tools = {{"propose", "Propose one change.",
              R"({"type":"object","properties":{"to":{"type":"string"}},"required":["to"],)"
              R"("additionalProperties":false})"},
             {"stop", "Nothing is left.",
              R"({"type":"object","properties":{"why":{"type":"string"}},)"
              R"("additionalProperties":false})"}};
  r.max_tokens = 1000;
  return r;
}

// An answer with one tool call whose arguments are `arguments`, in the format's own clothes.
inline std::string Called(Api api, const std::string& arguments,
                          const std::string& tool = "propose", int out_tokens = 40) {
  const std::string out = std::to_string(out_tokens);
  switch (api) {
    case Api::kOpenAiChat:
      return R"({"id":"chatcmpl-1","model":"big-model-1","choices":[{"index":0,"finish_reason":)"
             R"("tool_calls","message":{"role":"assistant","content":null,"refusal":null,)"
             R"("tool_calls":[{"id":"call_1","type":"function","function":{"name":")" +
             tool + R"(","arguments":")" + JsonEscape(arguments) +
             R"("}}]}}],"usage":{"prompt_tokens":900,"completion_tokens":)" + out +
             R"(,"prompt_tokens_details":{"cached_tokens":512},)"
             R"("completion_tokens_details":{"reasoning_tokens":8}}})";
    case Api::kAnthropic:
      return R"({"id":"msg_01","type":"message","role":"assistant","model":"big-model-1","content":)"
             R"([{"type":"thinking","thinking":"...","signature":"x"},{"type":"text","text":"So:"},)"
             R"({"type":"tool_use","id":"toolu_01","name":")" +
             tool + R"(","input":)" + arguments +
             R"(}],"stop_reason":"tool_use","stop_details":null,"usage":{"input_tokens":288,)"
             R"("cache_creation_input_tokens":100,"cache_read_input_tokens":512,"output_tokens":)" +
             out + "}}";
    case Api::kBedrock:
      return R"({"output":{"message":{"role":"assistant","content":[{"text":"So:"},{"toolUse":)"
             R"({"toolUseId":"tooluse_1","name":")" +
             tool + R"(","input":)" + arguments +
             R"(}}]}},"stopReason":"tool_use","usage":{"inputTokens":388,"outputTokens":)" + out +
             R"(,"totalTokens":0,"cacheReadInputTokens":512,"cacheWriteInputTokens":0}})";
  }
  return "";
}

// OpenAI's format with a message of one's own: `message` is its JSON.
inline std::string Chat(const std::string& message, const std::string& finish = "\"stop\"",
                        int out_tokens = 40) {
  return R"({"id":"c","model":"m","choices":[{"index":0,"finish_reason":)" + finish +
         R"(,"message":)" + message + R"(}],"usage":{"prompt_tokens":900,"completion_tokens":)" +
         std::to_string(out_tokens) + "}}";
}
inline std::string Said(const std::string& content) {
  return R"({"role":"assistant","content":")" + JsonEscape(content) + R"("})";
}

// A client over a scripted server on a clock that jumps, with a folder of its own.
struct Bench {
  explicit Bench(std::vector<Profile> models = {MadeProfile()}) {
    options.models = std::move(models);
    options.folder = folder;
    options.on_wait = [this](const std::string& line) { waits.push_back(line); };
  }
  ~Bench() { std::filesystem::remove_all(folder); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Prepares, keeps and sends one request to the first model.
  Turn Ask(const SendLimits& limits = {}, std::size_t which = 0) {
    if (!client) {
      auto made = MakeClient(options, http, clock);
      EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
      client = std::move(*made);
    }
    const std::string call = "q00" + std::to_string(++calls);
    const auto prepared = client->Prepare(request, which);
    EXPECT_TRUE(prepared.has_value());
    EXPECT_TRUE(client->Keep(call, *prepared).has_value());
    const auto turn = client->Send(call, *prepared, limits);
    EXPECT_TRUE(turn.has_value()) << (turn ? "" : turn.error().message);
    return turn.value_or(Turn{});
  }

  fakes::VirtualClock clock;
  fakes::FakeHttp http{&clock};
  std::string folder = (std::filesystem::temp_directory_path() / ("attune-llm-" + RandomHex(12)));
  ClientOptions options;
  Request request = MadeRequest();
  std::unique_ptr<Client> client;
  std::vector<std::string> waits;
  int calls = 0;
};

}  // namespace attune::llm
