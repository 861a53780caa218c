// How a language model is asked: one stateless request, one answer that is a value. Wire formats,
// keys, retries and prices stay behind this header; what a request says and what an answer means is
// the caller's (propose).
//
// A request is three steps, so that it can be committed before it is sent (docs/formats/llm.md):
// Prepare renders the exact bytes, Keep stores them, and after the caller has committed its intent
// Send sends them. A process that died in between sends what is kept, byte for byte.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"

namespace attune::llm {

struct Tool {
  std::string name;         // [A-Za-z0-9_-]{1,64}
  std::string description;  // one or two sentences for the model
  std::string schema;       // JSON text: a schema whose type is object
};

// One forced action: the model has to call exactly one of `tools`. System text and tools come first
// on the wire and should be the same bytes in every request of a campaign: providers cache them.
struct Request {
  std::string system, user;
  std::vector<Tool> tools;            // at least one
  int max_tokens = 4096;              // of the answer, hidden reasoning included
  std::optional<double> temperature;  // unset: not sent; many models refuse it
};

// The bytes of one request to one model. Holds no key.
struct Prepared {
  std::string model;      // as asked, of the profile `profile`
  std::string profile;    // name in the user's configuration; "" is the unnamed one
  std::string body;       // of the HTTP request
  std::string body_hash;  // Sha256Hex(body)
  int max_tokens = 0;
  std::int64_t prompt_bytes = 0;   // of the text that the model reads
  std::vector<std::string> tools;  // names that may be called
  // The most that one try of it may cost: a token is at least one byte, so the body's length
  // bounds its tokens. nullopt: the model's price is not known.
  std::optional<std::int64_t> bound_usd_micros;
};

// What came of a request. The words are stored (llm_call.outcome) and never renamed.
enum class TurnKind {
  kAction,       // "action": one tool call, its arguments one JSON object
  kFormatError,  // "format_error": an answer without one clean tool call; `error` says what, for
                 // the model. Three in a row end the turn
  kTruncated,    // "truncated": cut by the output cap; nothing of it is used
  kRefusal,      // "refusal": the model or a filter declined; not asked again with the same prompt
  kOverloaded,   // "overloaded": the server asked for patience until the tries were used up
  kUnreachable,  // "unreachable": no whole reply came in all tries
  kTooLong,      // "too_long": the prompt exceeds the model's window; a shorter one may do
  kDenied,       // "denied": key missing, wrong or without the right: exit 4
  kRejected,     // "rejected": the request can't succeed as it is configured: exit 2
  kExhausted,    // "exhausted": the account's money or quota is out: exit 75
  kInterrupted,  // "interrupted": SendLimits::pulse said stop
  kUnknown,      // "unknown": never returned by Send; what a resumed campaign calls a request that
                 // was cut off
};
std::string_view Word(TurnKind kind);
std::optional<TurnKind> ParseTurnKind(std::string_view word);

struct Usage {
  std::int64_t in = 0;      // all prompt tokens, cached ones too
  std::int64_t cached = 0;  // of them, read from the provider's cache
  std::int64_t cache_written = 0;
  std::int64_t out = 0;        // all answer tokens, hidden reasoning too
  std::int64_t reasoning = 0;  // of them, hidden
};

struct Turn {
  TurnKind kind = TurnKind::kUnreachable;
  std::string tool;       // kAction: one of Request::tools
  std::string arguments;  // kAction: the JSON object as the model wrote it, at most 64 KiB
  std::string text;       // visible text beside or instead of a call, at most 4,000 bytes, redacted
  std::string error;      // otherwise: one line, redacted; what happened and what to do
  std::string model;      // as the reply names it
  std::string request_id;  // the provider's
  Usage usage;
  // What it cost, tries whose fate is not known at their bound. nullopt: price not known.
  std::optional<std::int64_t> usd_micros;
  int tries = 0;   // HTTP requests made
  int status = 0;  // of the last one; 0: no HTTP reply
  Millis latency{0};
};

struct SendLimits {
  // Called often while a request is out or a wait goes on; false stops it (kInterrupted). The place
  // for a heartbeat. May be empty.
  std::function<bool()> pulse{};
  // What all tries together may cost; no further try is made that could exceed it.
  std::optional<std::int64_t> usd_micros{};
};

class Client {
 public:
  virtual ~Client() = default;
  // The ordered list of models, first choice first: after a refusal, or when one can't be reached,
  // the next may be asked. At least one.
  virtual std::vector<std::string> Models() const = 0;
  // Pure: the same request and configuration give the same bytes. `which` is an index of Models().
  // kInvalidInput: a tool's schema is no JSON object.
  virtual Result<Prepared> Prepare(const Request& request, std::size_t which) const = 0;
  // Stores the bytes under the call's id ("q001"), synced. The same id with other bytes is an
  // error.
  virtual Status Keep(const std::string& call, const Prepared& prepared) = 0;
  virtual Result<Prepared> Kept(const std::string& call) = 0;
  // Sends, retries, and stores the exchange under the call's id. Everything the provider may do is
  // a Turn; an error is ours (disk full).
  virtual Result<Turn> Send(const std::string& call, const Prepared& prepared,
                            const SendLimits& limits) = 0;
};

}  // namespace attune::llm
