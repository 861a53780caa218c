#include "wire.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>

#include "attune/base/log.h"
#include "attune/base/text.h"
#include "attune/gates/rules.h"

namespace attune::cli {

std::optional<std::string> GetEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Status Wire::Start() {
  config_sources_ = ConfigSources(GetEnvironment, ".");
  ATTUNE_TRY(config_, LoadUserConfig(config_sources_, GetEnvironment));
  TerminalFlags terminal;
  terminal.json = flags_.json;
  terminal.quiet = flags_.quiet;
  terminal.no_input = flags_.no_input || config_.no_input;
  terminal.color = flags_.color.empty() ? config_.color : flags_.color;
  terminal_.Set(terminal);
  log::SetLevel(flags_.verbose >= 2   ? log::Level::kDebug
                : flags_.verbose == 1 ? log::Level::kInfo
                                      : log::Level::kWarn);
  const std::string& file = flags_.log_file.empty() ? config_.log_file : flags_.log_file;
  if (!file.empty() && !log::OpenFile(file)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the log file {} cannot be written", EscapeForDisplay(file)),
                "give another one with --log-file");
  }
  return {};
}

Result<std::string> Wire::StateFolder() const {
  // Absolute: run folders below it are named to jobs that stand elsewhere.
  const std::string& said = flags_.state.empty() ? config_.state_dir : flags_.state;
  if (!said.empty()) {
    std::error_code failed;
    const std::filesystem::path path = std::filesystem::absolute(said, failed);
    if (failed) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("the state folder {}: {}", EscapeForDisplay(said), failed.message()));
    }
    return path.lexically_normal().string();
  }
  if (const auto xdg = GetEnvironment("XDG_STATE_HOME"); xdg && xdg->starts_with('/')) {
    return *xdg + "/attune";
  }
  if (const auto home = GetEnvironment("HOME"); home && home->starts_with('/')) {
    return *home + "/.local/state/attune";
  }
  return Fail(ErrorCode::kInvalidInput, "no state folder: HOME is not set",
              "give one with --state DIR or ATTUNE_STATE_DIR");
}

LoadOptions Wire::RecipeOptions(const std::vector<std::string>& set,
                                const std::vector<std::string>& set_file) const {
  LoadOptions options;
  options.set = set;
  options.set_file = set_file;
  options.allow_env = config_.allow_env;
  options.price_gpu_hour_usd = config_.price_gpu_hour_usd;
  options.notify_command = config_.notify_command;
  options.getenv = GetEnvironment;
  const Rules& rules = BuiltInRules();
  for (const FlagRow& row : rules.flags) {
    options.known_flags.emplace_back(row.flag);
  }
  for (const LeverRow& row : rules.levers) {
    if (options.lever_ids.empty() || options.lever_ids.back() != row.lever) {
      options.lever_ids.emplace_back(row.lever);
    }
  }
  return options;
}

Result<LoadedRecipe> Wire::ReadRecipe(const std::string& path, const std::vector<std::string>& set,
                                      const std::vector<std::string>& set_file) const {
  return LoadRecipe(path, RecipeOptions(set, set_file));
}

void Wire::Hide(std::string_view name, std::string_view value) {
  terminal_.Hide(name, value);
  log::Hide(name, value);
}

std::string Wire::progress() const {
  return flags_.progress.empty() ? config_.progress : flags_.progress;
}

}  // namespace attune::cli
