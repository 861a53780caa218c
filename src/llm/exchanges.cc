#include "exchanges.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "wire.h"

namespace attune::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRequestSchema = "attune/llm-request/1";
constexpr std::string_view kReplySchema = "attune/llm-reply/1";
constexpr std::int64_t kMaxFile = 32 << 20;
constexpr std::size_t kKeptBody = 256 * 1024;  // of a reply

std::string Dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

tl::unexpected<Error> Damaged(const std::string& path, std::string_view why) {
  return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", path, why));
}

template <class T>
Json Maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json TurnJson(const Turn& turn) {
  Json json = {{"kind", std::string(Word(turn.kind))}};
  json["tool"] = turn.tool;
  json["arguments"] = turn.arguments;
  json["text"] = turn.text;
  json["error"] = turn.error;
  json["model"] = turn.model;
  json["request_id"] = turn.request_id;
  json["tokens"] = {{"in", turn.usage.in},
                    {"cached", turn.usage.cached},
                    {"cache_written", turn.usage.cache_written},
                    {"out", turn.usage.out},
                    {"reasoning", turn.usage.reasoning}};
  json["usd_micros"] = Maybe(turn.usd_micros);
  json["tries"] = turn.tries;
  json["status"] = turn.status;
  json["latency_ms"] = turn.latency.count();
  return json;
}

// Throws what nlohmann throws: the caller reads a file of ours and catches once.
Turn TurnOf(const Json& json) {
  Turn turn;
  turn.kind = ParseTurnKind(json.at("kind").get<std::string>()).value_or(TurnKind::kUnreachable);
  json.at("tool").get_to(turn.tool);
  json.at("arguments").get_to(turn.arguments);
  json.at("text").get_to(turn.text);
  json.at("error").get_to(turn.error);
  json.at("model").get_to(turn.model);
  json.at("request_id").get_to(turn.request_id);
  const Json& tokens = json.at("tokens");
  tokens.at("in").get_to(turn.usage.in);
  tokens.at("cached").get_to(turn.usage.cached);
  tokens.at("cache_written").get_to(turn.usage.cache_written);
  tokens.at("out").get_to(turn.usage.out);
  tokens.at("reasoning").get_to(turn.usage.reasoning);
  if (!json.at("usd_micros").is_null()) turn.usd_micros = json.at("usd_micros").get<std::int64_t>();
  json.at("tries").get_to(turn.tries);
  json.at("status").get_to(turn.status);
  turn.latency = Millis{json.at("latency_ms").get<std::int64_t>()};
  return turn;
}

// Reads a file of ours and hands its object to `take`, which may throw what nlohmann throws.
template <class Take>
Status ReadOurs(const std::string& path, std::string_view schema, const Take& take) {
  ATTUNE_TRY(const std::string text, os::ReadFileBounded(path, kMaxFile));
  try {
    const Json json = Json::parse(text);
    if (json.at("schema").get<std::string>() != schema) {
      return Fail(ErrorCode::kNewerFormat, fmt::format("{}: not of schema {}", path, schema));
    }
    take(json);
  } catch (const Json::exception& e) {
    return Damaged(path, EscapeForDisplay(e.what(), 200));
  }
  return {};
}

}  // namespace

bool IsCallId(std::string_view call) {
  return call.size() >= 2 && call.size() <= 12 && call[0] >= 'a' && call[0] <= 'z' &&
         std::all_of(call.begin() + 1, call.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string Exchanges::Path(const std::string& call, std::string_view what) const {
  return fmt::format("{}/{}.{}.json", folder_, call, what);
}

Status Exchanges::KeepRequest(const std::string& call, const Prepared& prepared,
                              const WireForm& form) {
  if (folder_.empty()) return {};
  if (!IsCallId(call)) return Fail(ErrorCode::kInternal, "a call without an id");
  const std::string path = Path(call, "request");
  if (os::Exists(path)) {
    ATTUNE_TRY(const Prepared kept, Request(call));
    if (kept.body == prepared.body) return {};
    return Damaged(path, "another request is kept under this id");
  }
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(folder_));
  Json json = {{"schema", std::string(kRequestSchema)}, {"call", call}};
  json["profile"] = prepared.profile;
  json["model"] = prepared.model;
  json["api"] = std::string(Word(form.api));
  json["output"] = form.output == Output::kTools ? "tools" : "json_schema";
  json["cap_field"] = form.cap_field;
  json["strict"] = form.strict;
  json["max_tokens"] = prepared.max_tokens;
  json["prompt_bytes"] = prepared.prompt_bytes;
  json["tools"] = prepared.tools;
  json["bound_usd_micros"] = Maybe(prepared.bound_usd_micros);
  json["body_hash"] = prepared.body_hash;
  json["body"] = prepared.body;
  return os::WriteFileAtomic(path, Dump(json));
}

Result<Prepared> Exchanges::Request(const std::string& call) const {
  const std::string path = Path(call, "request");
  Prepared prepared;
  ATTUNE_RETURN_IF_ERROR(ReadOurs(path, kRequestSchema, [&](const Json& json) {
    json.at("profile").get_to(prepared.profile);
    json.at("model").get_to(prepared.model);
    json.at("max_tokens").get_to(prepared.max_tokens);
    json.at("prompt_bytes").get_to(prepared.prompt_bytes);
    json.at("tools").get_to(prepared.tools);
    json.at("body_hash").get_to(prepared.body_hash);
    json.at("body").get_to(prepared.body);
    const Json& bound = json.at("bound_usd_micros");
    if (!bound.is_null()) prepared.bound_usd_micros = bound.get<std::int64_t>();
  }));
  if (Sha256Hex(prepared.body) != prepared.body_hash) {
    return Damaged(path, "its body is not what was kept");
  }
  return prepared;
}

Result<WireForm> Exchanges::Form(const std::string& call) const {
  const std::string path = Path(call, "request");
  WireForm form;
  std::optional<Api> api;
  ATTUNE_RETURN_IF_ERROR(ReadOurs(path, kRequestSchema, [&](const Json& json) {
    api = ParseApi(json.at("api").get<std::string>());
    form.output =
        json.at("output").get<std::string>() == "tools" ? Output::kTools : Output::kSchema;
    json.at("cap_field").get_to(form.cap_field);
    json.at("strict").get_to(form.strict);
  }));
  if (!api) return Damaged(path, "an unknown wire format");
  form.api = *api;
  return form;
}

Status Exchanges::KeepReply(const std::string& call, const std::vector<Exchange::Try>& tries,
                            const Turn& turn) {
  if (folder_.empty()) return {};
  Json json = {{"schema", std::string(kReplySchema)}, {"call", call}};
  Json list = Json::array();
  for (const Exchange::Try& one : tries) {
    const bool cut = one.body.size() > kKeptBody;
    list.push_back({{"status", one.status},
                    {"trouble", one.trouble},
                    {"latency_ms", one.latency.count()},
                    {"waited_ms", one.waited.count()},
                    {"cut", cut},
                    {"body", cut ? one.body.substr(0, kKeptBody) : one.body}});
  }
  json["tries"] = std::move(list);
  json["turn"] = TurnJson(turn);
  return os::WriteFileAtomic(Path(call, "reply"), Dump(json));
}

Result<std::optional<Exchange>> Exchanges::Reply(const std::string& call) const {
  const std::string path = Path(call, "reply");
  if (!os::Exists(path)) return std::optional<Exchange>();
  Exchange exchange;
  exchange.call = call;
  ATTUNE_RETURN_IF_ERROR(ReadOurs(path, kReplySchema, [&](const Json& json) {
    for (const Json& one : json.at("tries")) {
      exchange.tries.push_back({one.at("status").get<int>(), one.at("trouble").get<std::string>(),
                                one.at("body").get<std::string>(),
                                Millis{one.at("latency_ms").get<std::int64_t>()},
                                Millis{one.at("waited_ms").get<std::int64_t>()}});
    }
    exchange.turn = TurnOf(json.at("turn"));
  }));
  return std::optional<Exchange>(std::move(exchange));
}

Result<std::vector<std::string>> Exchanges::Calls(bool answered) const {
  const std::string ending = answered ? ".reply.json" : ".request.json";
  std::vector<std::string> calls;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder_, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(ending)) continue;
    std::string call = name.substr(0, name.size() - ending.size());
    if (IsCallId(call)) calls.push_back(std::move(call));
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", folder_, failed.message()));
  }
  std::sort(calls.begin(), calls.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return calls;
}

Result<Exchange> ReadExchange(const std::string& folder, const std::string& call) {
  if (!IsCallId(call)) return Fail(ErrorCode::kNotFound, "no such call");
  const Exchanges exchanges(folder);
  ATTUNE_TRY(Prepared prepared, exchanges.Request(call));
  ATTUNE_TRY(std::optional<Exchange> reply, exchanges.Reply(call));
  Exchange exchange = reply ? std::move(*reply) : Exchange{};
  exchange.call = call;
  exchange.model = std::move(prepared.model);
  exchange.profile = std::move(prepared.profile);
  ATTUNE_TRY(const WireForm form, exchanges.Form(call));
  const JsonReading body =
      ReadJson(prepared.body, {.bytes = 8 << 20, .depth = 64, .values = 400'000});
  if (body.error.empty()) exchange.texts = TextsOf(form.api, body.root);
  exchange.request = std::move(prepared.body);
  return exchange;
}

}  // namespace attune::llm
