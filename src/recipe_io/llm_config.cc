#include "llm_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "attune/base/text.h"

namespace attune {
namespace {

using enum KeyKind;

constexpr std::string_view kApis[] = {"openai-chat", "anthropic", "bedrock-converse"};
constexpr std::string_view kAuths[] = {"none", "bearer", "api-key", "x-api-key", "sigv4"};
constexpr std::string_view kOutputs[] = {"tools", "json_schema"};
constexpr std::string_view kCaps[] = {"max_tokens", "max_completion_tokens"};

constexpr Key kPrice[] = {
    {.name = "in", .kind = kNumber, .doc = "input tokens", .required = true},
    {.name = "cached", .kind = kNumber, .doc = "input read from the cache; default: in"},
    {.name = "cache_write", .kind = kNumber, .doc = "input written to the cache; default: in"},
    {.name = "out", .kind = kNumber, .doc = "output tokens", .required = true},
};

// What a profile may say; llm itself says more.
constexpr std::array kAccess = {
    Key{.name = "endpoint", .kind = kText, .doc = "base URL, as in https://host/v1"},
    Key{.name = "model", .kind = kText, .doc = "name of the model"},
    Key{.name = "api", .kind = kText, .doc = "wire format", .words = kApis},
    Key{.name = "auth", .kind = kText, .doc = "how the key is sent", .words = kAuths},
    Key{.name = "output", .kind = kText, .doc = "how an action is asked for", .words = kOutputs},
    Key{.name = "max_tokens_field", .kind = kText, .doc = "name of the output cap", .words = kCaps},
    Key{.name = "strict", .kind = kBool, .doc = "ask for arguments that fit the schema"},
    Key{.name = "api_version", .kind = kText, .doc = "Azure's query parameter"},
    Key{.name = "region", .kind = kText, .doc = "AWS region"},
    Key{.name = "ca_file", .kind = kText, .doc = "certificate authorities of the endpoint"},
    Key{.name = "headers", .kind = kTextMap, .doc = "further headers; no secrets"},
    Key{.name = "api_key_env", .kind = kText, .doc = "variable that holds the key"},
    Key{.name = "api_key_file", .kind = kText, .doc = "file of mode 0600 that holds the key"},
    Key{.name = "api_key_command", .kind = kTexts, .doc = "argv that prints the key, 10 s"},
    Key{.name = "price", .kind = kSection, .doc = "dollars a million tokens", .keys = kPrice},
};

template <std::size_t N, std::size_t M>
constexpr std::array<Key, N + M> Joined(const std::array<Key, N>& a, const std::array<Key, M>& b) {
  std::array<Key, N + M> all = {};
  std::copy(a.begin(), a.end(), all.begin());
  std::copy(b.begin(), b.end(), all.begin() + N);
  return all;
}

constexpr std::array kProfile = Joined(std::array{Key{.name = "name",
                                                      .kind = kText,
                                                      .doc = "how llm.profile and fallback call it",
                                                      .required = true}},
                                       kAccess);
constexpr std::array kLlm = Joined(
    kAccess,
    std::array{
        Key{.name = "fallback", .kind = kTexts, .doc = "profiles or models to ask next"},
        Key{.name = "profiles", .kind = kSections, .doc = "other models", .keys = kProfile},
        Key{.name = "tries", .kind = kInt, .doc = "of one request"},
        Key{.name = "timeout", .kind = kDuration, .doc = "of one try"},
        Key{.name = "total", .kind = kDuration, .doc = "of all tries and waits of one request"},
        Key{.name = "backoff", .kind = kDuration, .doc = "first wait between tries; it doubles"},
        Key{.name = "connect_timeout",
            .kind = kDuration,
            .doc = "until the endpoint takes a connection"},
    });

std::string Place(const Section& section, std::string_view key) {
  return section.problems().sources().Show(section.WhereOf(key));
}

void ReadKeySource(const Section& section, LlmAccess& out) {
  for (const std::string_view key : {"api_key_env", "api_key_file", "api_key_command"}) {
    if (section.Find(key) == nullptr) continue;
    out.key_env.clear();
    out.key_file.clear();
    out.key_command.clear();
    section.Text("api_key_env", out.key_env);
    section.Text("api_key_file", out.key_file);
    section.Texts("api_key_command", out.key_command);
    out.key_at = Place(section, key);
    out.key_endpoint.clear();
    section.Text("endpoint", out.key_endpoint);
    return;
  }
}

void ReadAccess(const Section& section, LlmAccess& out) {
  section.Text("endpoint", out.endpoint);
  section.Text("model", out.model);
  section.Text("api", out.api);
  section.Text("auth", out.auth);
  section.Text("output", out.output);
  section.Text("max_tokens_field", out.max_tokens_field);
  section.Text("api_version", out.api_version);
  section.Text("region", out.region);
  section.Text("ca_file", out.ca_file);
  if (section.Find("strict") != nullptr) {
    bool strict = true;
    section.Bool("strict", strict);
    out.strict = strict;
  }
  if (section.Find("headers") != nullptr) out.headers = section.TextMap("headers");
  ReadKeySource(section, out);
  if (const Section price = section.Sub("price"); price.present()) {
    constexpr double kMost = 1e6;
    LlmAccess::Price read;
    price.Number("in", read.in, 0, kMost);
    read.cached = read.cache_write = read.in;
    price.Number("cached", read.cached, 0, kMost);
    price.Number("cache_write", read.cache_write, 0, kMost);
    price.Number("out", read.out, 0, kMost);
    read.at = Place(section, "price");
    out.price = read;
  }
}

}  // namespace

std::span<const Key> LlmConfigKeys() { return kLlm; }

void ReadLlmConfig(const Section& llm, LlmConfig& out) {
  if (!llm.present()) return;
  ReadAccess(llm, out.main);
  llm.Texts("fallback", out.fallback);
  for (const Section& section : llm.Subs("profiles")) {
    LlmAccess profile;
    section.Text("name", profile.name);
    ReadAccess(section, profile);
    std::erase_if(out.profiles, [&](const LlmAccess& p) { return p.name == profile.name; });
    out.profiles.push_back(std::move(profile));
  }
  if (llm.Find("tries") != nullptr) {
    int tries = 0;
    llm.Int("tries", tries, 1, 100);
    out.tries = tries;
  }
  llm.Duration("timeout", out.timeout);
  llm.Duration("total", out.total);
  llm.Duration("backoff", out.backoff);
  llm.Duration("connect_timeout", out.connect_timeout);
}

}  // namespace attune
