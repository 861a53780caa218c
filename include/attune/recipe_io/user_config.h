// The user's own configuration: what belongs to a person or a site and not to a training job
// (cli.md section 3.5). Later sources are weaker: ATTUNE_* variables, attune.yaml in the project,
// $XDG_CONFIG_HOME/attune/config.yaml, /etc/xdg/attune/config.yaml, built-in. Flags stand above all
// of them and are the caller's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"

namespace attune {

// A file and whether it may name commands to run and secrets to let through. A project's
// attune.yaml may not: it comes with a repository, like a recipe.
struct ConfigSource {
  std::string path;
  bool trusted = false;
  bool required = false;  // named by ATTUNE_CONFIG: missing is an error
};

struct ConfigValue {
  std::string key, value;
  std::string at;  // "config.yaml:3:1", "ATTUNE_BUDGET", "built-in"
};

// How one model is reached: the section llm, or one of llm.profiles. Empty: not said.
struct LlmAccess {
  std::string name;  // of a profile
  std::string endpoint, api, model, auth, output, max_tokens_field, api_version, region, ca_file;
  std::optional<bool> strict;
  std::vector<std::pair<std::string, std::string>> headers;
  // Where the key comes from; the first that is given counts. Never the key itself.
  std::string key_env, key_file;
  std::vector<std::string> key_command;  // argv
  std::string key_at;                    // the place that says so
  // The endpoint that stands beside it, which the key is for; empty: none stands there.
  std::string key_endpoint;
  struct Price {  // dollars for a million tokens
    double in = 0, cached = 0, cache_write = 0, out = 0;
    std::string at;
  };
  std::optional<Price> price;
};

struct LlmConfig {
  LlmAccess main;
  std::vector<LlmAccess> profiles;
  // Asked in this order when the first model refuses or can't be reached: names of profiles, else
  // of models at the main endpoint.
  std::vector<std::string> fallback;
  std::optional<int> tries;
  std::optional<Millis> timeout, total, backoff, connect_timeout;
  bool endpoint_from_variable = false;  // ATTUNE_LLM_ENDPOINT
};

struct UserConfig {
  std::string state_dir;
  std::string color = "auto";          // auto | always | never
  std::string progress = "auto";       // auto | bar | plain | none
  std::string on_interrupt = "drain";  // drain | cancel | detach
  bool no_input = false;
  std::string budget;    // GPU-hours or "auto"; empty: not said
  std::string log_file;  // ATTUNE_LOG
  double price_gpu_hour_usd = 0;
  std::vector<std::string> notify_on;
  std::vector<std::string> notify_command;
  std::vector<std::string> allow_env;
  LlmConfig llm;
  std::vector<ConfigValue> origins;  // every key, in the order of docs/formats/config.md
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;

// The files that `getenv` and the working folder imply, strongest first; none needs to exist.
std::vector<ConfigSource> ConfigSources(const GetEnv& getenv, const std::string& folder);
Result<UserConfig> LoadUserConfig(const std::vector<ConfigSource>& sources, const GetEnv& getenv);

}  // namespace attune
