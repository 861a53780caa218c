// Which models a server has, for `attune doctor --llm`.
#include <fmt/core.h>

#include "attune/base/json_tree.h"
#include "attune/base/text.h"
#include "wire.h"

namespace attune::llm {

Result<std::vector<std::string>> ListModels(const Profile& profile, os::HttpTransport& transport,
                                            const Patience& patience) {
  ATTUNE_RETURN_IF_ERROR(CheckProfile(profile));
  if (profile.api == Api::kBedrock) {
    return Fail(ErrorCode::kNotFound, "this interface lists no models");
  }
  os::HttpRequest http;
  http.method = "GET";
  std::string base = profile.endpoint;
  while (base.ends_with('/')) base.pop_back();
  const bool anthropic = profile.api == Api::kAnthropic;
  http.url = base + (anthropic && !base.ends_with("/v1") ? "/v1/models" : "/models");
  http.ca_file = profile.ca_file;
  http.connect_timeout = patience.connect_timeout;
  http.timeout = Millis{30'000};
  http.headers = profile.headers;
  if (anthropic) http.headers.emplace_back("anthropic-version", "2023-06-01");
  if (profile.auth == Auth::kBearer) {
    http.headers.emplace_back("Authorization", "Bearer " + profile.key->value);
  } else if (profile.key) {
    http.headers.emplace_back(std::string(Word(profile.auth)), profile.key->value);
  }
  const os::HttpOutcome outcome = transport.Perform(http);
  if (const auto* failure = std::get_if<os::HttpFailure>(&outcome)) {
    return Fail(ErrorCode::kUnavailable, failure->detail);
  }
  const auto& reply = std::get<os::HttpReply>(outcome);
  if (reply.status == 401 || reply.status == 403) {
    return Fail(ErrorCode::kDenied, fmt::format("HTTP {}: the key is refused", reply.status));
  }
  const JsonReading read = ReadJson(reply.body, {.bytes = 8 << 20, .depth = 32, .values = 400'000});
  const JsonNode* data =
      read.error.empty() && read.root.IsObject() ? read.root.Find("data") : nullptr;
  if (reply.status != 200 || data == nullptr || !data->IsArray()) {
    return Fail(ErrorCode::kNotFound, fmt::format("HTTP {}: no list of models", reply.status));
  }
  std::vector<std::string> ids;
  for (const JsonNode& model : data->items) {
    std::string id = model.IsObject() ? TextOf(&model, "id") : std::string();
    if (!id.empty()) ids.push_back(std::move(id));
  }
  return ids;
}

}  // namespace attune::llm
