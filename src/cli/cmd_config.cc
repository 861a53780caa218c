// config: the user's own configuration as it is in force.
#include <fmt/core.h>
#include <unistd.h>

#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

class Config final : public Command {
 public:
  void Declare(Options& options) override {
    Options show = options.Sub("show", "[--origins]", "print every value", chosen_);
    show.Flag("--origins", origins_, "with the place that says it");
    options.Sub("path", "", "print the files that are read, strongest first", chosen_);
  }

  Result<int> Run(Wire& wire) override { return chosen_ == "path" ? Paths(wire) : Show(wire); }

 private:
  Result<int> Show(Wire& wire) const {
    std::string text;
    std::vector<std::string> values;
    for (const ConfigValue& value : wire.config().origins) {
      text += origins_ ? fmt::format("{}: {}  # {}\n", value.key, value.value, value.at)
                       : fmt::format("{}: {}\n", value.key, value.value);
      JsonOut inner("");
      inner.Text("key", value.key);
      inner.Text("value", value.value);
      inner.Text("at", value.at);
      values.push_back(inner.Take());
    }
    ATTUNE_TRY(const std::string state, wire.StateFolder());
    if (wire.flags().json) {
      JsonOut json("attune.config/1");
      json.Text("state_folder", state);
      json.Objects("values", values);
      text = json.Take() + "\n";
    } else {
      text += fmt::format("# campaigns are kept in {}\n", state);
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

  static Result<int> Paths(Wire& wire) {
    std::string text;
    std::vector<std::string> files;
    for (const ConfigSource& source : wire.config_sources()) {
      const bool there = access(source.path.c_str(), R_OK) == 0;
      text += fmt::format("{}{}\n", source.path, there ? "" : "  (not there)");
      JsonOut inner("");
      inner.Text("path", source.path);
      inner.Bool("there", there);
      inner.Bool("trusted", source.trusted);
      files.push_back(inner.Take());
    }
    if (wire.flags().json) {
      JsonOut json("attune.config_path/1");
      json.Objects("files", files);
      text = json.Take() + "\n";
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

  std::string chosen_;
  bool origins_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeConfig() { return std::make_unique<Config>(); }

}  // namespace attune::cli
