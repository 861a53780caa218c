// How a client is put together: which model where, under which key, at which price, with how much
// patience. Filled by cli from the user's own configuration, never from a recipe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/redact.h"
#include "attune/base/result.h"
#include "attune/llm/client.h"
#include "attune/os/http.h"

namespace attune::llm {

enum class Api { kOpenAiChat, kAnthropic, kBedrock };  // openai-chat, anthropic, bedrock-converse
std::string_view Word(Api api);
std::optional<Api> ParseApi(std::string_view word);

enum class Auth {
  kNone,
  kBearer,   // Authorization: Bearer KEY
  kApiKey,   // api-key: KEY (Azure)
  kXApiKey,  // x-api-key: KEY (Anthropic)
  kSigV4,    // AWS Signature Version 4 (Bedrock)
};
std::string_view Word(Auth auth);
std::optional<Auth> ParseAuth(std::string_view word);

// How one action is asked for: as a tool call, or (OpenAI Chat Completions only) as text under a
// JSON schema, which every local server understands.
enum class Output { kTools, kSchema };

// A secret and where it may go. It is attached to a request to `bound_to` and to no other.
struct Key {
  std::string value;
  std::string name;  // for people and the redactor: "ATTUNE_LLM_API_KEY", "config.yaml:7:3"
  os::Origin bound_to;
};

struct AwsKey {
  std::string access_key, secret, session_token;  // the last may be empty
};

// US dollars for a million tokens, which is micro-dollars for one.
struct Price {
  double in = 0, cached = 0, cache_write = 0, out = 0;
  std::string source;  // "config.yaml:9:5", or where the vendor publishes it
  std::string date;    // when it was read there
};
// The published price of a model, found by its id without vendor, region, date and revision.
std::optional<Price> PublishedPrice(std::string_view model);

struct Profile {
  std::string name;  // in the configuration; empty: the unnamed one
  Api api = Api::kOpenAiChat;
  std::string endpoint;  // base URL: what comes before /chat/completions, /v1/messages, /model/
  std::string model;
  Auth auth = Auth::kBearer;
  Output output = Output::kTools;
  std::string cap_field = "max_tokens";  // kOpenAiChat; newer models want max_completion_tokens
  bool strict = true;                    // ask for schema-true arguments where the schema allows it
  std::string api_version;               // Azure's classic paths: the query parameter api-version
  std::string region;                    // kSigV4
  std::vector<std::pair<std::string, std::string>> headers;  // further ones, no secrets
  std::string ca_file;
  std::optional<Key> key;
  std::optional<AwsKey> aws;
  std::optional<Price> price;
};

// What is wrong with a profile, before anything is sent: a key for another origin, http to a host
// that is not this machine, a key that no header can carry.
Status CheckProfile(const Profile& profile);

// Tries and waits (facts of the wire: transport limits in os/http.h).
struct Patience {
  int tries = 10;
  Millis total{1'800'000};          // over all tries and waits of one request
  Millis backoff{500};              // first wait; doubles, drawn from [0, wait), at most 120 x
  Millis least_wait{1'000};         // never hammer, whatever a server's header says
  Millis retry_after_cap{300'000};  // the longest that a server's wish is followed
  Millis timeout{900'000};          // of one try
  Millis connect_timeout{10'000};
  Millis stall_timeout{600'000};
};

struct ClientOptions {
  std::vector<Profile> models;  // in the order in which they are asked
  Patience patience;
  std::string folder;  // where exchanges are kept, made when absent; empty: nowhere
  Redactor redact;     // over prompts and over everything that is kept or told
  // One line for a person while a request waits: "overloaded, next try in 32 s, 4 of 10".
  std::function<void(const std::string&)> on_wait;
};
// Transport and clock must outlive the client.
Result<std::unique_ptr<Client>> MakeClient(ClientOptions options, os::HttpTransport& transport,
                                           Clock& clock);
// Answers from what another campaign kept in `recorded`, in its order, and sends nothing. What is
// asked is kept in `folder` all the same.
Result<std::unique_ptr<Client>> MakeReplay(const std::string& recorded, std::string folder);

// One kept exchange, for people.
struct Exchange {
  std::string call, model, profile, request;              // request: the body
  std::vector<std::pair<std::string, std::string>> texts;  // of it: "system" and "user", decoded
  struct Try {
    int status = 0;
    std::string trouble, body;  // redacted, bounded
    Millis latency{0}, waited{0};
  };
  std::vector<Try> tries;  // empty: no reply was kept
  std::optional<Turn> turn;
};
Result<Exchange> ReadExchange(const std::string& folder, const std::string& call);

// The model ids that a server names under /models (OpenAI) or /v1/models (Anthropic).
Result<std::vector<std::string>> ListModels(const Profile& profile, os::HttpTransport& transport,
                                            const Patience& patience);

}  // namespace attune::llm
