#include "judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "attune/base/text.h"

namespace attune::llm {
namespace {

constexpr JsonBounds kReply{.bytes = 8 << 20, .depth = 64, .values = 400'000};
constexpr std::size_t kShown = 200;  // of a body that is none of the API's
constexpr int kBrokenTries = 3;

// The parts of an error that servers agree on, whatever form they give it.
struct ApiError {
  std::string type, code, message;
  bool Says(std::string_view word) const {
    return type.find(word) != std::string::npos || code.find(word) != std::string::npos ||
           message.find(word) != std::string::npos;
  }
};

std::string Scalar(const JsonNode* object, std::string_view key) {
  const JsonNode* node = object == nullptr ? nullptr : object->Find(key);
  const bool scalar = node != nullptr && (node->IsString() || node->kind == JsonKind::kNumber);
  return scalar ? node->text : std::string();
}

// {"error": {...}} (OpenAI, Anthropic, Azure), {"error": "text"} (Ollama), {"detail": ...}
// (FastAPI),
// {"message": ...} (Bedrock, older vLLM).
ApiError ErrorOf(const JsonNode& root) {
  ApiError error;
  const JsonNode* inner = root.Find("error");
  if (inner != nullptr && inner->IsString()) {
    error.message = inner->text;
    return error;
  }
  const JsonNode* from = inner != nullptr && inner->IsObject() ? inner : &root;
  error.type = Scalar(from, "type");
  error.code = Scalar(from, "code");
  for (const char* key : {"message", "Message", "detail"}) {
    if (error.message.empty()) error.message = Scalar(from, key);
  }
  if (const JsonNode* detail = from->Find("innererror"); detail != nullptr && detail->IsObject()) {
    error.code += " " + Scalar(detail, "code");
  }
  return error;
}

ApiError ErrorOf(const os::HttpReply& reply) {
  const JsonReading read = ReadJson(reply.body, kReply);
  ApiError error;
  if (read.error.empty() && read.root.IsObject()) {
    error = ErrorOf(read.root);
  } else {
    error.message = EscapeForDisplay(reply.body, kShown);
  }
  // Bedrock: "ThrottlingException:http://..."
  if (const auto amazon = reply.Header("x-amzn-errortype")) {
    error.type = amazon->substr(0, amazon->find(':'));
  }
  return error;
}

std::optional<Millis> Seconds(std::string_view text, double unit) {
  const std::optional<double> number = ParseDouble(Trim(text));
  // 0 and -1 are seen in the wild and mean nothing.
  if (!number || *number <= 0 || *number > 1e7) return std::nullopt;
  return Millis{static_cast<std::int64_t>(std::ceil(*number * unit))};
}

// "Wed, 21 Oct 2026 07:28:00 GMT" against the reply's own Date, so that no clock is needed here.
std::optional<std::int64_t> HttpDate(const std::string& text) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<std::int64_t>(timegm(&parts));
}

std::optional<Millis> AskedWait(const os::HttpReply& reply) {
  if (const auto ms = reply.Header("retry-after-ms")) {
    if (const auto wait = Seconds(*ms, 1)) return wait;
  }
  const auto after = reply.Header("retry-after");
  if (!after) return std::nullopt;
  if (const auto wait = Seconds(*after, 1000)) return wait;
  const auto date = reply.Header("date");
  const auto until = HttpDate(*after);
  const auto now = date ? HttpDate(*date) : std::nullopt;
  if (!until || !now || *until <= *now) return std::nullopt;
  return Millis{(*until - *now) * 1000};
}

Judged Ended(TurnKind kind, std::string error) {
  Judged judged;
  judged.turn.kind = kind;
  judged.turn.error = std::move(error);
  return judged;
}

Judged Again(TurnKind kind, std::string error, const os::HttpReply& reply) {
  Judged judged = Ended(kind, std::move(error));
  judged.again = true;
  judged.wait = AskedWait(reply);
  return judged;
}

bool IsTooLong(const ApiError& error) {
  return error.Says("context_length_exceeded") || error.Says("exceed_context_size") ||
         error.Says("maximum context length") || error.Says("prompt is too long") ||
         error.Says("Input is too long") || error.Says("request_too_large");
}

bool IsOutOfMoney(const ApiError& error) {
  return error.Says("insufficient_quota") || error.Says("billing") ||
         error.Says("credit balance") || error.Says("spend limit") || error.Says("usage limit");
}

bool IsFiltered(const ApiError& error) {
  return error.Says("content_filter") || error.Says("ResponsibleAIPolicyViolation");
}

// Statuses that a later try may cure (transport facts; 424 is Bedrock's, 524 and 529 are a
// gateway's and Anthropic's own).
bool IsPassing(int status) {
  constexpr std::array<int, 10> kPassing = {408, 409, 425, 429, 500, 502, 503, 504, 524, 529};
  return std::find(kPassing.begin(), kPassing.end(), status) != kPassing.end();
}

bool IsOverload(int status, const ApiError& error) {
  return status == 429 || status == 503 || status == 529 || error.Says("overloaded") ||
         error.Says("Throttling") || error.Says("rate_limit");
}

Judged JudgeError(const os::HttpReply& reply, int status, const ApiError& error) {
  const std::string said = fmt::format(
      "HTTP {}{}{}", status, error.type.empty() ? "" : " " + EscapeForDisplay(error.type, 80),
      error.message.empty() ? "" : ": " + EscapeForDisplay(error.message, 300));
  if (IsOutOfMoney(error) || status == 402) {
    return Ended(TurnKind::kExhausted, said + " (the account's quota or money is out)");
  }
  if (IsFiltered(error)) return Ended(TurnKind::kRefusal, said);
  if (IsTooLong(error) || status == 413) return Ended(TurnKind::kTooLong, said);
  if (status == 401 || status == 403) return Ended(TurnKind::kDenied, said);
  const auto should = reply.Header("x-should-retry");
  if (should == "false") return Ended(TurnKind::kUnreachable, said);
  if (should == "true" || IsPassing(status)) {
    return Again(IsOverload(status, error) ? TurnKind::kOverloaded : TurnKind::kUnreachable, said,
                 reply);
  }
  if (status == 424) {
    Judged judged = Again(TurnKind::kUnreachable, said, reply);
    judged.most = kBrokenTries;
    return judged;
  }
  if (status >= 300 && status < 400) {
    return Ended(TurnKind::kRejected,
                 fmt::format("HTTP {}: the endpoint answers with a redirect, which is not followed "
                             "with a key; give its final address",
                             status));
  }
  if (status >= 500) return Again(TurnKind::kUnreachable, said, reply);
  return Ended(TurnKind::kRejected, said);
}

// A status of an error that came inside a 200: some gateways put the number into the error.
int StatusOf(const ApiError& error) {
  if (const auto code = ParseInt(error.code); code && *code >= 400 && *code < 600) {
    return static_cast<int>(*code);
  }
  if (error.type == "overloaded_error") return 529;
  if (error.type == "rate_limit_error") return 429;
  if (error.type == "authentication_error") return 401;
  if (error.type == "invalid_request_error") return 400;
  return 500;
}

Judged Broken(const os::HttpReply& reply, std::string_view why) {
  Judged judged =
      Again(TurnKind::kUnreachable,
            fmt::format("HTTP {}: {}: {}", reply.status, why, EscapeForDisplay(reply.body, kShown)),
            reply);
  judged.most = kBrokenTries;
  judged.may_be_billed = true;
  return judged;
}

// We ask for no stream; a gateway that streams all the same can only be telling an error.
std::optional<ApiError> StreamedError(const os::HttpReply& reply) {
  for (const std::string_view line : SplitLines(reply.body)) {
    if (!line.starts_with("data:")) continue;
    const JsonReading read = ReadJson(Trim(line.substr(5)), kReply);
    if (read.error.empty() && read.root.IsObject() && read.root.Find("error") != nullptr) {
      return ErrorOf(read.root);
    }
  }
  return std::nullopt;
}

Judged JudgeSuccess(Api api, const os::HttpReply& reply, const Expected& expected) {
  const std::string type = reply.Header("content-type").value_or("");
  if (type.find("event-stream") != std::string::npos) {
    const std::optional<ApiError> error = StreamedError(reply);
    if (!error) return Broken(reply, "a stream, which was not asked for");
    return JudgeError(reply, StatusOf(*error), *error);
  }
  if (Trim(reply.body).empty()) return Broken(reply, "an empty reply");
  if (type.find("html") != std::string::npos) return Broken(reply, "a web page instead of JSON");
  const JsonReading read = ReadJson(reply.body, kReply);
  if (!read.error.empty()) return Broken(reply, "no JSON reply (" + read.error + ")");
  if (!read.root.IsObject()) {
    return Broken(reply, fmt::format("{} instead of an object", Noun(read.root.kind)));
  }
  const JsonNode* error = read.root.Find("error");
  if (error != nullptr && error->kind != JsonKind::kNull) {
    const ApiError told = ErrorOf(read.root);
    return JudgeError(reply, StatusOf(told), told);
  }
  Judged judged;
  judged.turn = ReadAnswer(api, read.root, expected);
  judged.has_usage = judged.turn.usage.in > 0 || judged.turn.usage.out > 0;
  judged.may_be_billed = !judged.has_usage;
  return judged;
}

Judged JudgeFailure(const os::HttpFailure& failure) {
  Judged judged = Ended(TurnKind::kUnreachable, failure.detail);
  judged.may_be_billed = failure.sent;
  switch (failure.trouble) {
    case os::HttpTrouble::kConnect:
    case os::HttpTrouble::kTls:
    case os::HttpTrouble::kTimeout:
    case os::HttpTrouble::kReset:
    case os::HttpTrouble::kInternal:
      judged.again = true;
      return judged;
    case os::HttpTrouble::kTooLarge:
      judged.again = true;
      judged.most = 2;
      return judged;
    case os::HttpTrouble::kEncoding:
      judged.again = true;
      judged.most = 2;
      judged.plain = true;
      return judged;
    case os::HttpTrouble::kCertificate:
    case os::HttpTrouble::kUrl:
      judged.turn.kind = TurnKind::kRejected;
      return judged;
    case os::HttpTrouble::kStopped:
      judged.turn.kind = TurnKind::kInterrupted;
      return judged;
  }
  return judged;
}

}  // namespace

Judged JudgeTry(Api api, const os::HttpOutcome& outcome, const Expected& expected) {
  if (const auto* failure = std::get_if<os::HttpFailure>(&outcome)) return JudgeFailure(*failure);
  const auto& reply = std::get<os::HttpReply>(outcome);
  Judged judged = reply.status >= 200 && reply.status < 300
                      ? JudgeSuccess(api, reply, expected)
                      : JudgeError(reply, reply.status, ErrorOf(reply));
  judged.turn.status = reply.status;
  for (const char* name : {"request-id", "x-request-id", "x-amzn-requestid"}) {
    if (const auto id = reply.Header(name)) judged.turn.request_id = EscapeForDisplay(*id, 100);
  }
  return judged;
}

Millis WaitAfter(int n, std::optional<Millis> asked, const Patience& patience, Random& random) {
  if (asked) return std::max(std::min(*asked, patience.retry_after_cap), patience.least_wait);
  constexpr int kMostDoublings = 20;
  const double cap = 120.0 * static_cast<double>(patience.backoff.count());
  const double most = std::min(
      cap, static_cast<double>(patience.backoff.count()) * std::exp2(std::min(n, kMostDoublings)));
  const Millis wait{static_cast<std::int64_t>(most * random.Unit())};
  return std::max(wait, patience.least_wait);
}

std::int64_t CostOf(const Usage& usage, const Price& price) {
  const std::int64_t fresh =
      std::max<std::int64_t>(0, usage.in - usage.cached - usage.cache_written);
  const double cost = static_cast<double>(fresh) * price.in +
                      static_cast<double>(usage.cached) * price.cached +
                      static_cast<double>(usage.cache_written) * price.cache_write +
                      static_cast<double>(usage.out) * price.out;
  return static_cast<std::int64_t>(std::ceil(cost - 1e-9));
}

std::int64_t BoundOf(std::size_t body_bytes, int max_tokens, const Price& price) {
  const double in = std::max({price.in, price.cached, price.cache_write});
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(body_bytes) * in + max_tokens * price.out));
}

bool LooksCut(std::int64_t prompt_bytes, std::int64_t prompt_tokens) {
  // A token is about four bytes of such text; half as many tokens as that is no tokenizer's doing.
  constexpr std::int64_t kShortPrompt = 4096;  // below it nobody cuts
  return prompt_bytes > kShortPrompt && prompt_tokens > 0 && prompt_tokens * 8 < prompt_bytes;
}

}  // namespace attune::llm
