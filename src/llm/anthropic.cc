// Anthropic Messages. Facts: anthropics/anthropic-sdk-python and the API's documentation. Little is
// sent, because model generations refuse each other's parameters.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "schema.h"
#include "wire.h"

namespace attune::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr UsageNames kUsage{"input_tokens", "output_tokens", "cache_read_input_tokens",
                            "cache_creation_input_tokens"};

std::string RefusalOf(const JsonNode& root) {
  const JsonNode* details = root.Find("stop_details");
  const bool object = details != nullptr && details->IsObject();
  const std::string category = object ? TextOf(details, "category") : std::string();
  return category.empty() ? "declined" : fmt::format("declined (category {})", category);
}

}  // namespace

std::string RenderAnthropic(const Profile& profile, const Request& request) {
  Json body = {{"model", profile.model}, {"max_tokens", request.max_tokens}};
  if (request.temperature) body["temperature"] = *request.temperature;
  Json tools = Json::array();
  for (const Tool& tool : request.tools) {
    const Json schema = SchemaOf(tool);
    Json one = {{"name", tool.name}, {"description", tool.description}};
    if (profile.strict && IsClosed(schema)) one["strict"] = true;
    one["input_schema"] = schema;
    tools.push_back(std::move(one));
  }
  body["tools"] = std::move(tools);
  Json choice = {{"type", request.tools.size() == 1 ? "tool" : "any"}};
  if (request.tools.size() == 1) choice["name"] = request.tools.front().name;
  choice["disable_parallel_tool_use"] = true;
  body["tool_choice"] = std::move(choice);
  // One mark: tools and system text together are the prefix that never changes in a campaign. An
  // empty text block is a 400.
  if (!request.system.empty()) {
    body["system"] = Json::array(
        {{{"type", "text"}, {"text", request.system}, {"cache_control", {{"type", "ephemeral"}}}}});
  }
  body["messages"] = Json::array({{{"role", "user"}, {"content", request.user}}});
  return Text(body);
}

Turn ReadAnthropic(const JsonNode& root, const Expected& expected) {
  Turn turn;
  turn.model = TextOf(&root, "model");
  turn.request_id = TextOf(&root, "id");
  turn.usage = UsageOf(root, kUsage);
  const std::string stop = TextOf(&root, "stop_reason");
  if (stop == "refusal") {
    turn.kind = TurnKind::kRefusal;
    turn.error = RefusalOf(root);
    return turn;
  }
  if (EndedBy(turn, stop, expected)) return turn;
  const JsonNode* content = root.Find("content");
  std::vector<const JsonNode*> calls;
  std::string text;
  if (content != nullptr && content->IsArray()) {
    for (const JsonNode& block : content->items) {
      if (!block.IsObject()) continue;
      const std::string type = TextOf(&block, "type");
      if (type == "tool_use") calls.push_back(&block);
      if (type == "text") text += TextOf(&block, "text");
    }
  }
  if (calls.size() > 1) {
    FormatError(turn, fmt::format("{} tool calls in one answer; make exactly one", calls.size()));
  } else if (calls.empty()) {
    TakeText(turn, text, expected);
  } else if (const JsonNode* input = calls.front()->Find("input"); input == nullptr) {
    FormatError(turn, "a tool call without input");
  } else {
    TakeCall(turn, TextOf(calls.front(), "name"), WriteJson(*input), expected);
  }
  return turn;
}

}  // namespace attune::llm
