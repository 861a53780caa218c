// What every command is given: global flags, the terminal, the user's configuration, and the parts
// made from them. The one place where parts are put together; no singletons.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/recipe_io/recipe_io.h"
#include "attune/recipe_io/user_config.h"
#include "terminal.h"

namespace attune::cli {

struct GlobalFlags {
  std::string folder;    // -C
  std::string state;     // --state
  std::string campaign;  // -c
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  std::string color;     // empty: not said
  std::string progress;  // empty: not said
  bool no_input = false;
  bool yes = false;
  std::string log_file;
};

class Wire {
 public:
  Wire(Terminal& terminal, GlobalFlags& flags) : terminal_(terminal), flags_(flags) {}

  Terminal& terminal() { return terminal_; }
  const GlobalFlags& flags() const { return flags_; }
  Clock& clock() { return clock_; }

  // Reads the user's configuration and lets the flags win over it; sets up terminal and log.
  // Called by main before a command runs.
  Status Start();
  const UserConfig& config() const { return config_; }
  const std::vector<ConfigSource>& config_sources() const { return config_sources_; }

  // --state, ATTUNE_STATE_DIR, the config, $XDG_STATE_HOME/attune, ~/.local/state/attune.
  Result<std::string> StateFolder() const;

  // How a recipe is read by this user: config, rule tables of the gates.
  LoadOptions RecipeOptions(const std::vector<std::string>& set = {},
                            const std::vector<std::string>& set_file = {}) const;
  Result<LoadedRecipe> ReadRecipe(const std::string& path, const std::vector<std::string>& set = {},
                                  const std::vector<std::string>& set_file = {}) const;

  // From now on `value` is said neither at the terminal nor in our log.
  void Hide(std::string_view name, std::string_view value);

  // "auto", "bar", "plain" or "none": flag, else config.
  std::string progress() const;

 private:
  Terminal& terminal_;
  GlobalFlags& flags_;
  SystemClock clock_;
  UserConfig config_;
  std::vector<ConfigSource> config_sources_;
};

std::optional<std::string> GetEnvironment(const std::string& name);

}  // namespace attune::cli
