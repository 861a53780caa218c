// The client over HTTP: attaches the key, tries, waits on the injected clock, and keeps every
// exchange. One request at a time.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "attune/base/json_tree.h"
#include "attune/base/random.h"
#include "attune/base/text.h"
#include "exchanges.h"
#include "judge.h"
#include "sigv4.h"
#include "wire.h"

namespace attune::llm {
namespace {

constexpr Millis kSlice{1'000};  // between two pulses of a wait
constexpr std::size_t kNameBytes = 200;

std::string TroubleWord(os::HttpTrouble trouble) {
  switch (trouble) {
    case os::HttpTrouble::kConnect:
      return "connect";
    case os::HttpTrouble::kTls:
      return "tls";
    case os::HttpTrouble::kCertificate:
      return "certificate";
    case os::HttpTrouble::kTimeout:
      return "timeout";
    case os::HttpTrouble::kReset:
      return "reset";
    case os::HttpTrouble::kTooLarge:
      return "too_large";
    case os::HttpTrouble::kEncoding:
      return "encoding";
    case os::HttpTrouble::kUrl:
      return "url";
    case os::HttpTrouble::kStopped:
      return "stopped";
    case os::HttpTrouble::kInternal:
      return "internal";
  }
  return "internal";
}

// The Host header as libcurl sends it.
std::string HostHeader(const os::Origin& origin) {
  const int usual = origin.scheme == "https" ? 443 : 80;
  return origin.port == usual ? origin.host : fmt::format("{}:{}", origin.host, origin.port);
}

// In every text of the tree; whether there was any to take out.
bool RedactTexts(JsonNode& node, const Redactor& redact) {
  bool found = false;
  const auto clean = [&](std::string& text) {
    std::string plain = redact(text);
    found = found || plain != text;
    text = std::move(plain);
  };
  if (node.IsString()) clean(node.text);
  for (std::string& key : node.keys) clean(key);
  for (JsonNode& item : node.items) found = RedactTexts(item, redact) || found;
  return found;
}

// A key may be written in escapes, which only a reader of the JSON sees.
std::string RedactedArguments(const std::string& raw, const Redactor& redact) {
  std::string text = redact(raw);
  JsonReading read = ReadJson(text, JsonBounds{});
  if (read.error.empty() && RedactTexts(read.root, redact)) return WriteJson(read.root);
  return text;
}

bool IsHeaderValue(std::string_view value) { return !value.empty() && IsPrintableAscii(value); }

class HttpClient final : public Client {
 public:
  HttpClient(ClientOptions options, os::HttpTransport& transport, Clock& clock)
      : options_(std::move(options)),
        transport_(transport),
        clock_(clock),
        exchanges_(options_.folder) {}

  std::vector<std::string> Models() const override {
    std::vector<std::string> names;
    for (const Profile& profile : options_.models) names.push_back(profile.model);
    return names;
  }

  Result<Prepared> Prepare(const Request& request, std::size_t which) const override {
    if (which >= options_.models.size()) {
      return Fail(ErrorCode::kInternal, "no such model in the list");
    }
    const Profile& profile = options_.models[which];
    Request clean = request;
    clean.system = options_.redact(request.system);
    clean.user = options_.redact(request.user);
    Prepared prepared;
    prepared.model = profile.model;
    prepared.profile = profile.name;
    ATTUNE_TRY(prepared.body, RenderBody(profile, clean));
    prepared.body_hash = Sha256Hex(prepared.body);
    prepared.max_tokens = request.max_tokens;
    prepared.prompt_bytes = PromptBytes(profile, clean);
    for (const Tool& tool : request.tools) prepared.tools.push_back(tool.name);
    if (profile.price) {
      prepared.bound_usd_micros = BoundOf(prepared.body.size(), request.max_tokens, *profile.price);
    }
    return prepared;
  }

  Status Keep(const std::string& call, const Prepared& prepared) override {
    ATTUNE_TRY(const Profile* profile, Find(prepared));
    return exchanges_.KeepRequest(
        call, prepared, {profile->api, profile->output, profile->cap_field, profile->strict});
  }
  Result<Prepared> Kept(const std::string& call) override { return exchanges_.Request(call); }

  Result<Turn> Send(const std::string& call, const Prepared& prepared,
                    const SendLimits& limits) override;

 private:
  // One request's tries.
  struct Course {
    std::vector<Exchange::Try> tries{};
    std::optional<std::int64_t> cost = 0;  // nullopt: price not known
    std::map<std::string, int> like{};     // how many tries ended for a bounded reason
    bool plain = false;
    Millis began{0};
  };

  Result<const Profile*> Find(const Prepared& prepared) const {
    for (const Profile& profile : options_.models) {
      if (profile.model == prepared.model && profile.name == prepared.profile) return &profile;
    }
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("model {} is not in the configuration any more",
                            EscapeForDisplay(prepared.model, 100)),
                "give it back, or start a new campaign");
  }

  os::HttpRequest HttpRequestFor(const Profile& profile, const Prepared& prepared,
                                 const SendLimits& limits, const Course& course) const;
  void Charge(Course& course, const Profile& profile, const Prepared& prepared,
              const Judged& judged) const;
  void Note(Course& course, const os::HttpOutcome& outcome) const;
  // False: no further try.
  bool WaitForNext(Course& course, const Judged& judged, const Prepared& prepared,
                   const SendLimits& limits, Random& random, bool& stopped) const;
  bool Sleep(Millis wait, const SendLimits& limits) const;

  ClientOptions options_;
  os::HttpTransport& transport_;
  Clock& clock_;
  Exchanges exchanges_;
};

os::HttpRequest HttpClient::HttpRequestFor(const Profile& profile, const Prepared& prepared,
                                           const SendLimits& limits, const Course& course) const {
  os::HttpRequest http;
  http.url = UrlOf(profile);
  http.body = prepared.body;
  http.ca_file = profile.ca_file;
  http.connect_timeout = options_.patience.connect_timeout;
  http.stall_timeout = options_.patience.stall_timeout;
  http.timeout = options_.patience.timeout;
  http.compressed = !course.plain;
  http.go_on = limits.pulse;
  http.headers = {{"content-type", "application/json"}};
  if (profile.api == Api::kAnthropic) http.headers.emplace_back("anthropic-version", "2023-06-01");
  switch (profile.auth) {
    case Auth::kNone:
      break;
    case Auth::kBearer:
      http.headers.emplace_back("Authorization", "Bearer " + profile.key->value);
      break;
    case Auth::kApiKey:
      http.headers.emplace_back("api-key", profile.key->value);
      break;
    case Auth::kXApiKey:
      http.headers.emplace_back("x-api-key", profile.key->value);
      break;
    case Auth::kSigV4: {
      SignedRequest to_sign;
      to_sign.host = HostHeader(*os::OriginOf(http.url));
      to_sign.path = http.url.substr(http.url.find('/', http.url.find("://") + 3));
      to_sign.headers = http.headers;
      to_sign.body = http.body;
      to_sign.region = profile.region;
      for (auto& header : Sign(to_sign, *profile.aws, clock_.Now())) {
        http.headers.push_back(std::move(header));
      }
      break;
    }
  }
  for (const auto& header : profile.headers) http.headers.push_back(header);
  return http;
}

void HttpClient::Charge(Course& course, const Profile& profile, const Prepared& prepared,
                        const Judged& judged) const {
  if (!profile.price) {
    course.cost.reset();
  } else if (judged.has_usage) {
    *course.cost += CostOf(judged.turn.usage, *profile.price);
  } else if (judged.may_be_billed) {
    *course.cost += prepared.bound_usd_micros.value_or(0);
  }
}

void HttpClient::Note(Course& course, const os::HttpOutcome& outcome) const {
  Exchange::Try noted;
  if (const auto* reply = std::get_if<os::HttpReply>(&outcome)) {
    noted.status = reply->status;
    noted.body = options_.redact(reply->body);
    noted.latency = reply->elapsed;
  } else {
    const auto& failure = std::get<os::HttpFailure>(outcome);
    noted.trouble = TroubleWord(failure.trouble) + ": " + options_.redact(failure.detail);
  }
  course.tries.push_back(std::move(noted));
}

bool HttpClient::Sleep(Millis wait, const SendLimits& limits) const {
  const Millis until = clock_.Monotonic() + wait;
  while (clock_.Monotonic() < until) {
    if (limits.pulse && !limits.pulse()) return false;
    const Millis left = until - clock_.Monotonic();
    clock_.SleepUntil(clock_.Now() + std::min(left, kSlice));
  }
  return true;
}

bool HttpClient::WaitForNext(Course& course, const Judged& judged, const Prepared& prepared,
                             const SendLimits& limits, Random& random, bool& stopped) const {
  const int made = static_cast<int>(course.tries.size());
  const Patience& patience = options_.patience;
  if (!judged.again || made >= patience.tries) return false;
  if (judged.most > 0 && ++course.like[std::string(Word(judged.turn.kind))] >= judged.most) {
    return false;
  }
  if (limits.usd_micros && course.cost &&
      *course.cost + prepared.bound_usd_micros.value_or(0) > *limits.usd_micros) {
    return false;
  }
  const Millis wait = WaitAfter(made, judged.wait, patience, random);
  if (clock_.Monotonic() - course.began + wait > patience.total) return false;
  if (options_.on_wait) {
    options_.on_wait(
        fmt::format("model {}: {}, next try in {}, {} of {}", EscapeForDisplay(prepared.model, 80),
                    judged.turn.kind == TurnKind::kOverloaded ? "overloaded" : "no answer",
                    ShowDuration(wait), made + 1, patience.tries));
  }
  course.tries.back().waited = wait;
  stopped = !Sleep(wait, limits);
  return !stopped;
}

Result<Turn> HttpClient::Send(const std::string& call, const Prepared& prepared,
                              const SendLimits& limits) {
  ATTUNE_TRY(const Profile* profile, Find(prepared));
  const Expected expected{prepared.tools, prepared.max_tokens, profile->output};
  // Jitter of its own for each request, the same when a test runs again.
  Random random(std::stoull(prepared.body_hash.substr(0, 15), nullptr, 16));
  Course course;
  course.began = clock_.Monotonic();
  Judged judged;
  bool stopped = false;
  do {
    const os::HttpOutcome outcome =
        transport_.Perform(HttpRequestFor(*profile, prepared, limits, course));
    judged = JudgeTry(profile->api, outcome, expected);
    course.plain = course.plain || judged.plain;
    Note(course, outcome);
    Charge(course, *profile, prepared, judged);
  } while (WaitForNext(course, judged, prepared, limits, random, stopped));

  Turn turn = std::move(judged.turn);
  if (stopped) turn.kind = TurnKind::kInterrupted;
  if (turn.kind == TurnKind::kAction && LooksCut(prepared.prompt_bytes, turn.usage.in)) {
    turn.kind = TurnKind::kTooLong;
    turn.tool.clear();
    turn.arguments.clear();
    turn.error = fmt::format(
        "the server counts {} tokens for a prompt of {} bytes: it has cut the prompt and said "
        "nothing; give its model a larger context",
        turn.usage.in, prepared.prompt_bytes);
  }
  turn.text = options_.redact(turn.text);
  turn.error = options_.redact(turn.error);
  turn.arguments = RedactedArguments(turn.arguments, options_.redact);
  turn.model = EscapeForDisplay(options_.redact(turn.model), kNameBytes);
  turn.request_id = EscapeForDisplay(options_.redact(turn.request_id), kNameBytes);
  turn.usd_micros = course.cost;
  turn.tries = static_cast<int>(course.tries.size());
  turn.latency = clock_.Monotonic() - course.began;
  ATTUNE_RETURN_IF_ERROR(exchanges_.KeepReply(call, course.tries, turn));
  return turn;
}

Status CheckKey(const Profile& profile, const os::Origin& origin) {
  if (profile.auth == Auth::kNone) return {};
  if (profile.auth == Auth::kSigV4) {
    if (profile.aws && !profile.region.empty()) return {};
    return Fail(ErrorCode::kDenied, "sigv4 needs AWS credentials and a region",
                "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and llm.region");
  }
  if (!profile.key) {
    return Fail(ErrorCode::kDenied, fmt::format("no key for {}", origin.Text()),
                "set ATTUNE_LLM_API_KEY, or see attune help environment");
  }
  if (!IsHeaderValue(profile.key->value)) {
    return Fail(ErrorCode::kDenied,
                fmt::format("the key from {} is empty or holds characters that no header carries",
                            profile.key->name));
  }
  if (profile.key->bound_to != origin) {
    return Fail(ErrorCode::kDenied,
                fmt::format("the key from {} is meant for {}, not for {}", profile.key->name,
                            profile.key->bound_to.Text(), origin.Text()),
                "give a key together with the endpoint");
  }
  return {};
}

}  // namespace

Status CheckProfile(const Profile& profile) {
  if (profile.model.empty() || profile.model.size() > 300 || !IsPrintableAscii(profile.model)) {
    return Fail(ErrorCode::kInvalidInput, "no model is named", "set ATTUNE_LLM_MODEL or llm.model");
  }
  ATTUNE_TRY(const os::Origin origin, os::OriginOf(profile.endpoint));
  if (profile.endpoint.find('?') != std::string::npos) {
    return Fail(ErrorCode::kInvalidInput, "an endpoint has no query; Azure's is llm.api_version");
  }
  if (origin.scheme == "http" && !origin.IsLoopback()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} is neither https nor this machine", origin.Text()),
                "prompts and keys do not cross a network in clear text");
  }
  if (profile.output == Output::kSchema && profile.api != Api::kOpenAiChat) {
    return Fail(ErrorCode::kInvalidInput, "output: json_schema goes with api: openai-chat");
  }
  for (const auto& [name, value] : profile.headers) {
    if (!IsHeaderValue(name) || !IsHeaderValue(value) || name.find(':') != std::string::npos) {
      return Fail(ErrorCode::kInvalidInput, "a header of llm.headers is none");
    }
  }
  return CheckKey(profile, origin);
}

Result<std::unique_ptr<Client>> MakeClient(ClientOptions options, os::HttpTransport& transport,
                                           Clock& clock) {
  if (options.models.empty()) {
    return Fail(ErrorCode::kInvalidInput, "no model is configured",
                "set ATTUNE_LLM_ENDPOINT and ATTUNE_LLM_MODEL");
  }
  for (const Profile& profile : options.models) {
    ATTUNE_RETURN_IF_ERROR(CheckProfile(profile));
    if (profile.key) options.redact.Know(profile.key->name, profile.key->value);
    if (profile.aws) {
      options.redact.Know("AWS_SECRET_ACCESS_KEY", profile.aws->secret);
      options.redact.Know("AWS_SESSION_TOKEN", profile.aws->session_token);
    }
  }
  return std::unique_ptr<Client>(
      std::make_unique<HttpClient>(std::move(options), transport, clock));
}

}  // namespace attune::llm
