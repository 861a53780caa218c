// OpenAI Chat Completions, and what calls itself compatible: vLLM, llama.cpp, Ollama, gateways,
// Azure. Facts: openai/openai-openapi; the servers' own documentation.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "schema.h"
#include "wire.h"

namespace attune::llm {
namespace {

using Json = nlohmann::ordered_json;

Json Function(const Profile& profile, const Tool& tool) {
  const Json schema = SchemaOf(tool);
  Json function = {{"name", tool.name}, {"description", tool.description}};
  // Strict mode demands every property in `required`; a schema with optional ones goes without it.
  if (profile.strict && IsClosed(schema) && AllRequired(schema)) function["strict"] = true;
  function["parameters"] = schema;
  return {{"type", "function"}, {"function", std::move(function)}};
}

void AddTools(Json& body, const Profile& profile, const Request& request) {
  Json tools = Json::array();
  for (const Tool& tool : request.tools) tools.push_back(Function(profile, tool));
  body["tools"] = std::move(tools);
  if (request.tools.size() == 1) {
    body["tool_choice"] = {{"type", "function"},
                           {"function", {{"name", request.tools.front().name}}}};
  } else {
    body["tool_choice"] = "required";
  }
  body["parallel_tool_calls"] = false;
}

void AddSchema(Json& body, const Profile& profile, const Request& request) {
  Json schema = OneOfTools(request.tools);
  const bool strict = profile.strict && IsClosed(schema) && AllRequired(schema);
  Json format = {{"name", request.tools.size() == 1 ? request.tools.front().name : "action"},
                 {"strict", strict}};
  format["schema"] = std::move(schema);
  body["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(format)}};
}

Usage UsageOf(const JsonNode& root) {
  const JsonNode* usage = root.Find("usage");
  Usage out;
  if (usage == nullptr || !usage->IsObject()) return out;
  out.in = Count(usage, "prompt_tokens");
  out.out = Count(usage, "completion_tokens");
  out.cached = Count(usage->Find("prompt_tokens_details"), "cached_tokens");
  out.reasoning = Count(usage->Find("completion_tokens_details"), "reasoning_tokens");
  return out;
}

void TakeToolCalls(Turn& turn, const JsonNode& calls, const Expected& expected) {
  if (calls.items.size() != 1) {
    return FormatError(
        turn, fmt::format("{} tool calls in one answer; make exactly one", calls.items.size()));
  }
  const JsonNode* function =
      calls.items.front().IsObject() ? calls.items.front().Find("function") : nullptr;
  if (function == nullptr || !function->IsObject()) {
    return FormatError(turn, "a tool call without a function");
  }
  const JsonNode* arguments = function->Find("arguments");
  if (arguments == nullptr) return FormatError(turn, "a tool call without arguments");
  // Text by the standard; some servers send the object itself.
  TakeCall(turn, TextOf(function, "name"),
           arguments->IsString() ? arguments->text : WriteJson(*arguments), expected);
}

}  // namespace

std::string RenderOpenAi(const Profile& profile, const Request& request) {
  Json body = {{"model", profile.model}};
  Json messages = Json::array();
  if (!request.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", request.system}});
  }
  messages.push_back({{"role", "user"}, {"content", request.user}});
  body["messages"] = std::move(messages);
  body[profile.cap_field] = request.max_tokens;
  if (request.temperature) body["temperature"] = *request.temperature;
  if (profile.output == Output::kTools) {
    AddTools(body, profile, request);
  } else {
    AddSchema(body, profile, request);
  }
  return Text(body);
}

Turn ReadOpenAi(const JsonNode& root, const Expected& expected) {
  Turn turn;
  turn.model = TextOf(&root, "model");
  turn.request_id = TextOf(&root, "id");
  turn.usage = UsageOf(root);
  const JsonNode* choices = root.Find("choices");
  if (choices == nullptr || !choices->IsArray() || choices->items.empty() ||
      !choices->items.front().IsObject()) {
    FormatError(turn, "the reply holds no choice");
    return turn;
  }
  const JsonNode& choice = choices->items.front();
  const JsonNode* message = choice.Find("message");
  if (message == nullptr || !message->IsObject()) {
    FormatError(turn, "the reply holds no message");
    return turn;
  }
  const std::string finish = TextOf(&choice, "finish_reason");
  const std::string refusal = TextOf(message, "refusal");
  if (!refusal.empty() || finish == "content_filter" || finish == "refusal") {
    turn.kind = TurnKind::kRefusal;
    turn.error = refusal.empty() ? fmt::format("withheld ({})", finish) : refusal;
    return turn;
  }
  // Some servers say tool_calls although the cap cut the answer: the count is the only sign.
  if (finish == "length" || finish == "model_length" ||
      (expected.max_tokens > 0 && turn.usage.out >= expected.max_tokens)) {
    turn.kind = TurnKind::kTruncated;
    turn.error =
        fmt::format("cut after {} tokens (the cap is {})", turn.usage.out, expected.max_tokens);
    return turn;
  }
  if (finish != "stop" && finish != "tool_calls" && finish != "function_call") {
    FormatError(turn, fmt::format("the answer ended for an unknown reason ('{}')",
                                  finish.empty() ? "none" : finish.substr(0, 40)));
    return turn;
  }
  const JsonNode* calls = message->Find("tool_calls");
  if (calls != nullptr && calls->IsArray() && !calls->items.empty()) {
    TakeToolCalls(turn, *calls, expected);
  } else if (expected.output == Output::kSchema) {
    TakeSchemaText(turn, TextOf(message, "content"), expected);
  } else {
    TakeText(turn, TextOf(message, "content"), expected);
  }
  return turn;
}

}  // namespace attune::llm
