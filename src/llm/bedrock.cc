// Amazon Bedrock Converse. Facts: the AWS API reference. Not streamed: its stream is binary frames,
// and a short answer needs none.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "schema.h"
#include "wire.h"

namespace attune::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr UsageNames kUsage{"inputTokens", "outputTokens", "cacheReadInputTokens",
                            "cacheWriteInputTokens"};

const JsonNode* ContentOf(const JsonNode& root) {
  const JsonNode* output = root.Find("output");
  const JsonNode* message =
      output != nullptr && output->IsObject() ? output->Find("message") : nullptr;
  const JsonNode* content =
      message != nullptr && message->IsObject() ? message->Find("content") : nullptr;
  return content != nullptr && content->IsArray() ? content : nullptr;
}

// True when the reason alone decides; Bedrock's own words before the shared ones.
bool Ended(Turn& turn, const std::string& stop, const Expected& expected) {
  if (stop == "guardrail_intervened" || stop == "content_filtered") {
    turn.kind = TurnKind::kRefusal;
    turn.error = fmt::format("withheld ({})", stop);
    return true;
  }
  return EndedBy(turn, stop, expected);
}

}  // namespace

std::string RenderBedrock(const Profile&, const Request& request) {
  Json body = Json::object();
  if (!request.system.empty()) body["system"] = Json::array({{{"text", request.system}}});
  body["messages"] =
      Json::array({{{"role", "user"}, {"content", Json::array({{{"text", request.user}}})}}});
  Json inference = {{"maxTokens", request.max_tokens}};
  if (request.temperature) inference["temperature"] = *request.temperature;
  body["inferenceConfig"] = std::move(inference);
  Json tools = Json::array();
  for (const Tool& tool : request.tools) {
    Json spec = {{"name", tool.name}, {"description", tool.description}};
    spec["inputSchema"] = {{"json", SchemaOf(tool)}};
    tools.push_back({{"toolSpec", std::move(spec)}});
  }
  Json config = Json::object();
  config["tools"] = std::move(tools);
  config["toolChoice"] = request.tools.size() == 1
                             ? Json{{"tool", {{"name", request.tools.front().name}}}}
                             : Json{{"any", Json::object()}};
  body["toolConfig"] = std::move(config);
  return Text(body);
}

Turn ReadBedrock(const JsonNode& root, const Expected& expected) {
  Turn turn;
  turn.usage = UsageOf(root, kUsage);
  if (Ended(turn, TextOf(&root, "stopReason"), expected)) return turn;
  std::vector<const JsonNode*> calls;
  std::string text;
  if (const JsonNode* content = ContentOf(root)) {
    for (const JsonNode& block : content->items) {
      if (!block.IsObject()) continue;
      const JsonNode* use = block.Find("toolUse");
      if (use != nullptr && use->IsObject()) calls.push_back(use);
      text += TextOf(&block, "text");
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
