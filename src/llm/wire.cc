#include "wire.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "schema.h"
#include "sigv4.h"

namespace attune::llm {
namespace {

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

Status CheckRequest(const Request& request) {
  if (request.tools.empty()) {
    return Fail(ErrorCode::kInvalidInput, "a request to a model without a tool");
  }
  for (const Tool& tool : request.tools) {
    const nlohmann::ordered_json schema = SchemaOf(tool);
    if (!IsToolName(tool.name) || !schema.is_object()) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("tool '{}': its name or schema is none",
                                                        EscapeForDisplay(tool.name, 80)));
    }
  }
  return {};
}

std::string WithoutSlash(const std::string& endpoint) {
  std::string_view base = endpoint;
  while (base.ends_with('/')) base.remove_suffix(1);
  return std::string(base);
}

struct KindWord {
  TurnKind kind;
  std::string_view word;
};
constexpr std::array<KindWord, 12> kKindWords = {{{TurnKind::kAction, "action"},
                                                  {TurnKind::kFormatError, "format_error"},
                                                  {TurnKind::kTruncated, "truncated"},
                                                  {TurnKind::kRefusal, "refusal"},
                                                  {TurnKind::kOverloaded, "overloaded"},
                                                  {TurnKind::kUnreachable, "unreachable"},
                                                  {TurnKind::kTooLong, "too_long"},
                                                  {TurnKind::kDenied, "denied"},
                                                  {TurnKind::kRejected, "rejected"},
                                                  {TurnKind::kExhausted, "exhausted"},
                                                  {TurnKind::kInterrupted, "interrupted"},
                                                  {TurnKind::kUnknown, "unknown"}}};

}  // namespace

std::string_view Word(TurnKind kind) {
  return std::find_if(kKindWords.begin(), kKindWords.end(),
                      [&](const KindWord& row) { return row.kind == kind; })
      ->word;
}

std::optional<TurnKind> ParseTurnKind(std::string_view word) {
  for (const KindWord& row : kKindWords) {
    if (row.word == word) return row.kind;
  }
  return std::nullopt;
}

std::string_view Word(Api api) {
  switch (api) {
    case Api::kOpenAiChat:
      return "openai-chat";
    case Api::kAnthropic:
      return "anthropic";
    case Api::kBedrock:
      return "bedrock-converse";
  }
  return "";
}

std::optional<Api> ParseApi(std::string_view word) {
  for (const Api api : {Api::kOpenAiChat, Api::kAnthropic, Api::kBedrock}) {
    if (Word(api) == word) return api;
  }
  return std::nullopt;
}

std::string_view Word(Auth auth) {
  switch (auth) {
    case Auth::kNone:
      return "none";
    case Auth::kBearer:
      return "bearer";
    case Auth::kApiKey:
      return "api-key";
    case Auth::kXApiKey:
      return "x-api-key";
    case Auth::kSigV4:
      return "sigv4";
  }
  return "";
}

std::optional<Auth> ParseAuth(std::string_view word) {
  for (const Auth auth :
       {Auth::kNone, Auth::kBearer, Auth::kApiKey, Auth::kXApiKey, Auth::kSigV4}) {
    if (Word(auth) == word) return auth;
  }
  return std::nullopt;
}

Result<std::string> RenderBody(const Profile& profile, const Request& request) {
  ATTUNE_RETURN_IF_ERROR(CheckRequest(request));
  switch (profile.api) {
    case Api::kOpenAiChat:
      return RenderOpenAi(profile, request);
    case Api::kAnthropic:
      return RenderAnthropic(profile, request);
    case Api::kBedrock:
      return RenderBedrock(profile, request);
  }
  return Fail(ErrorCode::kInternal, "an unknown wire format");
}

std::string UrlOf(const Profile& profile) {
  const std::string base = WithoutSlash(profile.endpoint);
  switch (profile.api) {
    case Api::kOpenAiChat:
      return base + "/chat/completions" +
             (profile.api_version.empty() ? std::string()
                                          : "?api-version=" + UriEncode(profile.api_version));
    case Api::kAnthropic:
      return base + (base.ends_with("/v1") ? "/messages" : "/v1/messages");
    case Api::kBedrock:
      return base + "/model/" + UriEncode(profile.model) + "/converse";
  }
  return base;
}

std::int64_t PromptBytes(const Profile& profile, const Request& request) {
  std::size_t bytes = request.system.size() + request.user.size();
  // Under a schema the server holds the tools back from the prompt and makes a grammar of them.
  if (profile.output == Output::kTools) {
    for (const Tool& tool : request.tools) {
      bytes += tool.name.size() + tool.description.size() + tool.schema.size();
    }
  }
  return static_cast<std::int64_t>(bytes);
}

std::vector<std::pair<std::string, std::string>> TextsOf(Api api, const JsonNode& body) {
  std::vector<std::pair<std::string, std::string>> texts;
  // A text, or a list of blocks with texts.
  const auto take = [&](const std::string& role, const JsonNode* content) {
    if (content == nullptr) return;
    if (content->IsString()) texts.emplace_back(role, content->text);
    for (const JsonNode& block : content->items) {
      const std::string text = block.IsObject() ? TextOf(&block, "text") : std::string();
      if (!text.empty()) texts.emplace_back(role, text);
    }
  };
  if (api != Api::kOpenAiChat) take("system", body.Find("system"));
  const JsonNode* messages = body.Find("messages");
  if (messages == nullptr) return texts;
  for (const JsonNode& message : messages->items) {
    if (message.IsObject()) take(TextOf(&message, "role"), message.Find("content"));
  }
  return texts;
}

Turn ReadAnswer(Api api, const JsonNode& root, const Expected& expected) {
  switch (api) {
    case Api::kOpenAiChat:
      return ReadOpenAi(root, expected);
    case Api::kAnthropic:
      return ReadAnthropic(root, expected);
    case Api::kBedrock:
      return ReadBedrock(root, expected);
  }
  return {};
}

}  // namespace attune::llm
