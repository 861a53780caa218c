#include "llm_setup.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "attune/base/text.h"
#include "attune/os/fd.h"
#include "attune/os/files.h"

namespace attune::cli {
namespace {

constexpr std::int64_t kMaxKeyFile = 16 * 1024;
constexpr Millis kKeyCommandTime{10'000};

// What of the key is known before the endpoint is.
struct FoundKey {
  std::string value, name;
  std::string endpoint;  // that it is for; empty: the one in force
};

Result<FoundKey> KeyFromFile(const std::string& path, std::string name, const ModelSetup& setup) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat facts {};
  if (!fd.valid() || fstat(fd.get(), &facts) != 0) {
    return Fail(ErrorCode::kDenied, fmt::format("key file {} can't be read", path));
  }
  if (!S_ISREG(facts.st_mode)) {
    return Fail(ErrorCode::kDenied, fmt::format("key file {} is no regular file", path));
  }
  if ((facts.st_mode & S_IROTH) != 0) {
    return Fail(ErrorCode::kDenied,
                fmt::format("key file {} is readable by everybody (mode {:04o})", path,
                            facts.st_mode & 07777U),
                fmt::format("chmod 600 {}", path));
  }
  if ((facts.st_mode & (S_IRGRP | S_IWGRP | S_IWOTH)) != 0 && setup.warn) {
    setup.warn(fmt::format("key file {} is open to others (mode {:04o}); chmod 600", path,
                           facts.st_mode & 07777U));
  }
  ATTUNE_TRY(const std::string text, os::ReadFd(fd.get(), 0, kMaxKeyFile));
  return FoundKey{std::string(Trim(text)), std::move(name), {}};
}

Result<FoundKey> KeyFromCommand(const LlmAccess& access, const ModelSetup& setup) {
  os::Command command;
  command.argv = access.key_command;
  command.timeout = kKeyCommandTime;
  command.max_output = kMaxKeyFile;
  const Result<os::CommandResult> ran = setup.runner.Run(command);
  if (!ran || ran->exit_code != 0) {
    return Fail(ErrorCode::kDenied, fmt::format("{}: the key command {}", access.key_at,
                                                ran ? fmt::format("ended with {}", ran->exit_code)
                                                    : ran.error().message));
  }
  return FoundKey{std::string(Trim(ran->out)), access.key_at, access.key_endpoint};
}

Result<std::optional<FoundKey>> KeyOfAccess(const LlmAccess& access, const ModelSetup& setup) {
  if (!access.key_command.empty()) {
    ATTUNE_TRY(FoundKey key, KeyFromCommand(access, setup));
    return std::optional<FoundKey>(std::move(key));
  }
  if (!access.key_file.empty()) {
    ATTUNE_TRY(FoundKey key, KeyFromFile(access.key_file, access.key_at, setup));
    key.endpoint = access.key_endpoint;
    return std::optional<FoundKey>(std::move(key));
  }
  if (access.key_env.empty()) return std::optional<FoundKey>();
  const std::optional<std::string> value = setup.getenv(access.key_env);
  if (!value || value->empty()) {
    return Fail(ErrorCode::kDenied,
                fmt::format("{}: the variable {} is not set", access.key_at, access.key_env));
  }
  return std::optional<FoundKey>(FoundKey{*value, access.key_env, access.key_endpoint});
}

// Strongest first (cli.md section 5). Of the main access; a profile has its own sources only.
Result<std::optional<FoundKey>> MainKey(const ModelSetup& setup) {
  if (!setup.flags.key_file.empty()) {
    ATTUNE_TRY(FoundKey key, KeyFromFile(setup.flags.key_file, "--llm-key-file", setup));
    return std::optional<FoundKey>(std::move(key));
  }
  if (const auto value = setup.getenv("ATTUNE_LLM_API_KEY"); value && !value->empty()) {
    return std::optional<FoundKey>(FoundKey{*value, "ATTUNE_LLM_API_KEY", {}});
  }
  if (const auto folder = setup.getenv("CREDENTIALS_DIRECTORY"); folder && !folder->empty()) {
    const std::string path = *folder + "/attune-llm-key";
    if (os::Exists(path)) {
      ATTUNE_TRY(FoundKey key, KeyFromFile(path, "attune-llm-key", setup));
      return std::optional<FoundKey>(std::move(key));
    }
  }
  return KeyOfAccess(setup.config.llm.main, setup);
}

bool EndsWithHost(const std::string& host, std::string_view domain) {
  return host == domain || host.ends_with("." + std::string(domain));
}

llm::Api ApiOf(const LlmAccess& access, const os::Origin& origin) {
  if (const auto said = llm::ParseApi(access.api)) return *said;
  if (origin.host == "api.anthropic.com") return llm::Api::kAnthropic;
  if (origin.host.starts_with("bedrock-runtime.") && EndsWithHost(origin.host, "amazonaws.com")) {
    return llm::Api::kBedrock;
  }
  return llm::Api::kOpenAiChat;
}

llm::Auth AuthOf(const LlmAccess& access, const os::Origin& origin, llm::Api api, bool has_key) {
  if (const auto said = llm::ParseAuth(access.auth)) return *said;
  if (!has_key && api == llm::Api::kOpenAiChat) return llm::Auth::kNone;  // a server of one's own
  if (api == llm::Api::kAnthropic) return llm::Auth::kXApiKey;
  if (EndsWithHost(origin.host, "azure.com")) return llm::Auth::kApiKey;
  return llm::Auth::kBearer;
}

std::string UsualEndpoint(const LlmAccess& access) {
  if (access.api == "anthropic") return "https://api.anthropic.com";
  if (access.api == "bedrock-converse" && !access.region.empty()) {
    return fmt::format("https://bedrock-runtime.{}.amazonaws.com", access.region);
  }
  return "";
}

// "us-east-1" of "bedrock-runtime.us-east-1.amazonaws.com".
std::string RegionOf(const LlmAccess& access, const os::Origin& origin) {
  if (!access.region.empty()) return access.region;
  const std::vector<std::string_view> parts = Split(origin.host, '.');
  return parts.size() > 2 && parts[0] == "bedrock-runtime" ? std::string(parts[1]) : std::string();
}

Status AddKey(llm::Profile& profile, const LlmAccess& access, std::optional<FoundKey> key,
              const os::Origin& origin, const ModelSetup& setup) {
  if (profile.auth == llm::Auth::kNone) return {};
  if (profile.auth == llm::Auth::kSigV4) {
    const auto id = setup.getenv("AWS_ACCESS_KEY_ID");
    const auto secret = setup.getenv("AWS_SECRET_ACCESS_KEY");
    profile.region = RegionOf(access, origin);
    if (id && secret) {
      profile.aws = llm::AwsKey{*id, *secret, setup.getenv("AWS_SESSION_TOKEN").value_or("")};
      if (setup.hide) {
        setup.hide("AWS_SECRET_ACCESS_KEY", *secret);
        setup.hide("AWS_SESSION_TOKEN", profile.aws->session_token);
      }
    }
    return {};
  }
  if (!key) return {};
  llm::Key bound{std::move(key->value), std::move(key->name), origin};
  if (!key->endpoint.empty()) {
    ATTUNE_TRY(bound.bound_to, os::OriginOf(key->endpoint));
  }
  profile.key = std::move(bound);
  return {};
}

Result<llm::Profile> ProfileOf(const LlmAccess& access, const std::string& model,
                               std::optional<FoundKey> key, const ModelSetup& setup) {
  llm::Profile profile;
  profile.name = access.name;
  profile.endpoint = access.endpoint.empty() ? UsualEndpoint(access) : access.endpoint;
  profile.model = model;
  if (profile.endpoint.empty()) {
    return Fail(ErrorCode::kInvalidInput, "no endpoint of a model is configured",
                "set ATTUNE_LLM_ENDPOINT and ATTUNE_LLM_MODEL, or llm.endpoint in config.yaml "
                "(attune config path)");
  }
  ATTUNE_TRY(const os::Origin origin, os::OriginOf(profile.endpoint));
  profile.api = ApiOf(access, origin);
  profile.auth = AuthOf(access, origin, profile.api, key.has_value());
  profile.output = access.output == "json_schema" ? llm::Output::kSchema : llm::Output::kTools;
  const bool newer = origin.host == "api.openai.com" || EndsWithHost(origin.host, "azure.com");
  profile.cap_field = !access.max_tokens_field.empty() ? access.max_tokens_field
                      : newer                          ? "max_completion_tokens"
                                                       : "max_tokens";
  profile.strict = access.strict.value_or(true);
  profile.api_version = access.api_version;
  profile.headers = access.headers;
  profile.ca_file = access.ca_file;
  if (access.price) {
    profile.price = llm::Price{access.price->in,  access.price->cached, access.price->cache_write,
                               access.price->out, access.price->at,     ""};
  } else {
    profile.price = llm::PublishedPrice(model);
  }
  ATTUNE_RETURN_IF_ERROR(AddKey(profile, access, std::move(key), origin, setup));
  ATTUNE_RETURN_IF_ERROR(llm::CheckProfile(profile));
  return profile;
}

const LlmAccess* Named(const LlmConfig& config, const std::string& name) {
  const auto it = std::find_if(config.profiles.begin(), config.profiles.end(),
                               [&](const LlmAccess& p) { return p.name == name; });
  return it == config.profiles.end() ? nullptr : &*it;
}

}  // namespace

void LlmFlags::DeclareOpening(Options& options) {
  options.Text("--llm", llm_, "replay:CAMPAIGN|DIR", "answer from what another campaign kept");
  options.Text("--model", model, "NAME", "which model proposes");
}

void LlmFlags::Declare(Options& options) {
  options.Number("--llm-budget", budget_usd, "USD", "dollars for model calls, whole campaign");
  options.Text("--llm-key-file", key_file, "FILE", "file of mode 0600 that holds the key");
}

Status LlmFlags::Check() {
  if (llm_.empty()) return {};
  if (!llm_.starts_with("replay:") || llm_.size() == std::string_view("replay:").size()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("--llm {}: expected replay:CAMPAIGN or replay:DIR",
                            EscapeForDisplay(llm_, 80)));
  }
  replay = llm_.substr(std::string_view("replay:").size());
  return {};
}

Result<std::vector<llm::Profile>> ModelProfiles(const ModelSetup& setup, const LlmSpec& recipe) {
  const LlmConfig& config = setup.config.llm;
  const LlmAccess* first = &config.main;
  if (!recipe.profile.empty()) {
    first = Named(config, recipe.profile);
    if (first == nullptr) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("llm.profile '{}' is not in your configuration",
                              EscapeForDisplay(recipe.profile, 80)),
                  "add it under llm.profiles in config.yaml");
    }
  }
  const auto key_of = [&](const LlmAccess& access) -> Result<std::optional<FoundKey>> {
    ATTUNE_TRY(std::optional<FoundKey> key,
               &access == &config.main ? MainKey(setup) : KeyOfAccess(access, setup));
    if (key && setup.hide) setup.hide(key->name, key->value);
    return key;
  };
  std::string model = first->model;
  if (!recipe.model.empty() && !setup.getenv("ATTUNE_LLM_MODEL")) model = recipe.model;
  if (!setup.flags.model.empty()) model = setup.flags.model;
  std::vector<llm::Profile> models;
  ATTUNE_TRY(std::optional<FoundKey> key, key_of(*first));
  ATTUNE_TRY(llm::Profile profile, ProfileOf(*first, model, std::move(key), setup));
  models.push_back(std::move(profile));
  for (const std::string& name : config.fallback) {
    const LlmAccess* access = Named(config, name);
    const LlmAccess& from = access == nullptr ? config.main : *access;
    ATTUNE_TRY(std::optional<FoundKey> next_key, key_of(from));
    ATTUNE_TRY(llm::Profile next, ProfileOf(from, access == nullptr ? name : access->model,
                                            std::move(next_key), setup));
    const bool known = std::any_of(models.begin(), models.end(), [&](const llm::Profile& p) {
      return p.model == next.model && p.name == next.name;
    });
    if (!known) models.push_back(std::move(next));
  }
  return models;
}

llm::Patience PatienceOf(const LlmConfig& config, const LlmSpec& recipe) {
  llm::Patience patience;
  patience.tries = recipe.retries + 1;
  if (config.tries) patience.tries = *config.tries;
  if (config.timeout) patience.timeout = *config.timeout;
  if (config.total) patience.total = *config.total;
  if (config.connect_timeout) patience.connect_timeout = *config.connect_timeout;
  if (config.backoff) {
    patience.backoff = *config.backoff;
    patience.least_wait = std::min(patience.least_wait, 2 * *config.backoff);
  }
  patience.stall_timeout = std::min(patience.stall_timeout, patience.timeout);
  return patience;
}

Result<std::optional<std::int64_t>> LlmBudget(const LlmFlags& flags, const Recipe& recipe,
                                              const std::vector<llm::Profile>& models) {
  std::optional<double> usd = flags.budget_usd;
  if (!usd) usd = recipe.llm.usd;
  if (!usd) usd = recipe.budget.llm_usd;
  if (!usd) return std::optional<std::int64_t>();
  for (const llm::Profile& model : models) {
    if (model.price) continue;
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the price of model {} is not known, so a limit in dollars can't be "
                            "kept",
                            EscapeForDisplay(model.model, 100)),
                "give llm.price: {in: USD, out: USD} for a million tokens in config.yaml, or leave "
                "the limit out");
  }
  return std::optional<std::int64_t>(static_cast<std::int64_t>(std::llround(*usd * 1e6)));
}

}  // namespace attune::cli
