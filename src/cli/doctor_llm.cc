#include "doctor_llm.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/redact.h"
#include "attune/base/text.h"
#include "exit_code.h"

namespace attune::cli {
namespace {

constexpr int kTries = 3;  // somebody is looking
constexpr int kAnswerTokens = 2'000;

llm::Request TinyRequest() {
  llm::Request request;
  request.system = "This is a test of a connection. Call the tool once.";
  request.user = "Call ready with word set to yes.";
  request.tools = {{"ready", "Says that the connection works.",
                    R"({"type":"object","properties":{"word":{"type":"string"}},)"
                    R"("required":["word"],"additionalProperties":false})"}};
  request.max_tokens = kAnswerTokens;
  return request;
}

// Text of the size and kind of a campaign's record.
std::string LongText(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) {
    text += fmt::format("r{:03} tp={} pp={} {}.{} tok/s/GPU tie {:+.1f}%\n", i, 1 << i % 4,
                        1 << i % 5, 700 + i * 7 % 300, i % 10, i % 60 * 0.1 - 3);
  }
  text.resize(bytes);
  return text;
}

std::string Money(const llm::Turn& turn) {
  if (!turn.usd_micros) return "price not known";
  return fmt::format("${:.4f}", static_cast<double>(*turn.usd_micros) / 1e6);
}

int CodeOf(llm::TurnKind kind) {
  switch (kind) {
    case llm::TurnKind::kDenied:
      return kExitSecret;
    case llm::TurnKind::kRejected:
    case llm::TurnKind::kFormatError:
    case llm::TurnKind::kTruncated:
    case llm::TurnKind::kTooLong:
      return kExitUsage;
    case llm::TurnKind::kAction:
    case llm::TurnKind::kRefusal:
    case llm::TurnKind::kOverloaded:
    case llm::TurnKind::kUnreachable:
    case llm::TurnKind::kExhausted:
    case llm::TurnKind::kInterrupted:
    case llm::TurnKind::kUnknown:
      break;
  }
  return kExitTryLater;
}

std::string HelpFor(const llm::Turn& turn, const llm::Profile& profile) {
  switch (turn.kind) {
    case llm::TurnKind::kFormatError:
    case llm::TurnKind::kRejected:
      return profile.output == llm::Output::kTools && profile.api == llm::Api::kOpenAiChat
                 ? "the server may not do tool calls: try llm.output: json_schema in config.yaml"
                 : "";
    case llm::TurnKind::kDenied:
      return "attune help environment says where a key may come from";
    case llm::TurnKind::kTooLong:
      return "give the model a larger context, or the recipe a smaller llm.prompt_bytes";
    case llm::TurnKind::kAction:
    case llm::TurnKind::kTruncated:
    case llm::TurnKind::kRefusal:
    case llm::TurnKind::kOverloaded:
    case llm::TurnKind::kUnreachable:
    case llm::TurnKind::kExhausted:
    case llm::TurnKind::kInterrupted:
    case llm::TurnKind::kUnknown:
      break;
  }
  return "";
}

class Looking {
 public:
  Looking(Wire& wire, const LlmFlags& flags, const LlmSpec& recipe)
      : wire_(wire), flags_(flags), recipe_(recipe), http_(os::MakeHttpTransport()) {}

  ModelExamination Take() {
    os::PosixProcessRunner runner;
    const ModelSetup setup{wire_.config(),
                           flags_,
                           GetEnvironment,
                           runner,
                           [&](const std::string& text) { Add("warn", "secret", text); },
                           [&](std::string_view name, std::string_view value) {
                             wire_.Hide(name, value);
                             redact_.Know(name, value);
                           }};
    const auto models = ModelProfiles(setup, recipe_);
    if (!models) {
      Failed(models.error());
      return std::move(out_);
    }
    patience_ = PatienceOf(wire_.config().llm, recipe_);
    patience_.tries = std::min(patience_.tries, kTries);
    for (const llm::Profile& profile : *models) LookAt(profile);
    return std::move(out_);
  }

 private:
  void Add(std::string state, std::string what, const std::string& text,
           const std::string& help = {}) {
    out_.rows.push_back({std::move(state), std::move(what), redact_(text), redact_(help), 0, ""});
  }
  void Fail(int code, const std::string& text, const std::string& help) {
    if (out_.code == 0) out_.code = code;
    Add("FAIL", "llm", text, help);
  }
  bool Failed(const Error& error) {
    Fail(ExitCodeOf(error.code), error.message, error.help);
    return false;
  }

  void LookAt(const llm::Profile& profile) {
    const std::string model = EscapeForDisplay(profile.model, 100);
    const std::string key = profile.key   ? fmt::format("key from {}", profile.key->name)
                            : profile.aws ? std::string("AWS credentials")
                                          : std::string("no key");
    Add("ok", "llm",
        fmt::format("{} at {}, {}, {}", model, os::OriginOf(profile.endpoint)->Text(),
                    llm::Word(profile.api), key));
    if (!Listed(profile, model)) return;
    llm::ClientOptions options;
    options.models = {profile};
    options.patience = patience_;
    const auto client = llm::MakeClient(options, *http_, wire_.clock());
    if (!client) {
      Failed(client.error());
      return;
    }
    if (!Calls(**client, profile, TinyRequest(), "a forced call")) return;
    llm::Request request = TinyRequest();
    request.user = LongText(static_cast<std::size_t>(recipe_.prompt_bytes)) + request.user;
    (void)Calls(**client, profile, request,
                fmt::format("a prompt of {} bytes", request.user.size()));
  }

  bool Listed(const llm::Profile& profile, const std::string& model) {
    const auto models = llm::ListModels(profile, *http_, patience_);
    if (models) {
      const bool found = std::find(models->begin(), models->end(), profile.model) != models->end();
      Add(found ? "ok" : "warn", "llm",
          found ? fmt::format("{} is one of the server's {} models", model, models->size())
                : fmt::format("the server names {} models, and {} is none of them", models->size(),
                              model));
      return true;
    }
    // Many servers list nothing; only a closed door or a wrong key ends it here.
    if (models.error().code == ErrorCode::kNotFound) return true;
    return Failed(models.error());
  }

  bool Calls(llm::Client& client, const llm::Profile& profile, const llm::Request& request,
             const std::string& what) {
    const auto prepared = client.Prepare(request, 0);
    if (!prepared) return Failed(prepared.error());
    const auto turn = client.Send("q001", *prepared, {});
    if (!turn) return Failed(turn.error());
    if (turn->kind != llm::TurnKind::kAction) {
      Fail(CodeOf(turn->kind),
           fmt::format("{}: {}: {}", what, llm::Word(turn->kind),
                       EscapeForDisplay(turn->error, 400)),
           HelpFor(*turn, profile));
      return false;
    }
    Add("ok", "llm",
        fmt::format("{}: answered in {}, {} tokens in, {} out, {}", what,
                    ShowDuration(turn->latency), turn->usage.in, turn->usage.out, Money(*turn)));
    return true;
  }

  Wire& wire_;
  const LlmFlags& flags_;
  const LlmSpec& recipe_;
  std::unique_ptr<os::HttpTransport> http_;
  llm::Patience patience_;
  Redactor redact_;
  ModelExamination out_;
};

}  // namespace

ModelExamination ExamineModels(Wire& wire, const LlmFlags& flags, const LlmSpec& recipe) {
  return Looking(wire, flags, recipe).Take();
}

}  // namespace attune::cli
