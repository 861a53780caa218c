// The wire formats: what a request looks like, and what one reply says. No I/O, no time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/json_tree.h"
#include "attune/base/result.h"
#include "attune/llm/client.h"
#include "attune/llm/profile.h"

namespace attune::llm {

// The exact bytes for one model: pure, the same on every machine.
Result<std::string> RenderBody(const Profile& profile, const Request& request);
// Without a key: that is added when it is sent.
std::string UrlOf(const Profile& profile);
// What the model reads of a request, for an estimate of its tokens.
std::int64_t PromptBytes(const Profile& profile, const Request& request);

// What the model reads of a rendered body: ("system" | "user", text), in order.
std::vector<std::pair<std::string, std::string>> TextsOf(Api api, const JsonNode& body);

struct Expected {
  std::span<const std::string> tools;
  int max_tokens = 0;
  Output output = Output::kTools;
};
// Of a reply with status 2xx whose body is one JSON object. Never an error of the transport: kind
// is kAction, kFormatError, kTruncated, kRefusal or kTooLong.
Turn ReadAnswer(Api api, const JsonNode& root, const Expected& expected);

// ----- what the formats share (action.cc)

// Takes one tool call: a name and the text of its arguments.
void TakeCall(Turn& turn, std::string_view name, std::string_view arguments,
              const Expected& expected);
// Takes a call that came as text: the only JSON object in it, bare, in a ```json fence or in
// <tool_call> tags, after <think>...</think> is removed. Else a format error.
void TakeText(Turn& turn, std::string_view text, const Expected& expected);
// The whole of an answer under a JSON schema.
void TakeSchemaText(Turn& turn, std::string_view text, const Expected& expected);
void FormatError(Turn& turn, std::string why);
// The stop reasons that Anthropic and Bedrock share. True when the reason alone decides: cut, too
// long, or unknown (malformed_model_output and malformed_tool_use among them: ask again).
bool EndedBy(Turn& turn, std::string_view stop, const Expected& expected);

// What Anthropic and Bedrock count, each under its own names: their `input` leaves out what was
// read from the cache or written to it.
struct UsageNames {
  std::string_view input, output, cached, cache_written;
};
Usage UsageOf(const JsonNode& root, const UsageNames& names);

std::int64_t Count(const JsonNode* object, std::string_view key);  // 0: absent or no count
std::string TextOf(const JsonNode* object, std::string_view key);  // "": absent or no string

// ----- one a format

std::string RenderOpenAi(const Profile& profile, const Request& request);
std::string RenderAnthropic(const Profile& profile, const Request& request);
std::string RenderBedrock(const Profile& profile, const Request& request);
Turn ReadOpenAi(const JsonNode& root, const Expected& expected);
Turn ReadAnthropic(const JsonNode& root, const Expected& expected);
Turn ReadBedrock(const JsonNode& root, const Expected& expected);

}  // namespace attune::llm
