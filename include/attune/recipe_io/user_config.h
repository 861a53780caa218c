// The user's own configuration: what belongs to a person or a site and not to a training job
// (cli.md section 3.5). Later sources are weaker: ATTUNE_* variables, attune.yaml in the project,
// $XDG_CONFIG_HOME/attune/config.yaml, /etc/xdg/attune/config.yaml, built-in. Flags stand above all
// of them and are the caller's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/result.h"

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
  std::vector<ConfigValue> origins;  // every key, in the order of docs/formats/config.md
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;

// The files that `getenv` and the working folder imply, strongest first; none needs to exist.
std::vector<ConfigSource> ConfigSources(const GetEnv& getenv, const std::string& folder);
Result<UserConfig> LoadUserConfig(const std::vector<ConfigSource>& sources, const GetEnv& getenv);

}  // namespace attune
