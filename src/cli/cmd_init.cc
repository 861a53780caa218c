// init: a recipe to start from. It extends the training example that comes with attune, so that it
// runs as it is and shows what a recipe of one's own looks like.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <iterator>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "attune/os/files.h"
#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

// Beside the binary (installed, or in a build folder of the sources), then where XDG looks.
std::vector<std::string> ExampleFolders() {
  std::vector<std::string> folders;
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  if (n > 0 && n < static_cast<ssize_t>(sizeof self)) {
    fs::path folder = fs::path(std::string(self, static_cast<std::size_t>(n))).parent_path();
    folders.push_back((folder / "../share/attune/examples").lexically_normal().string());
    for (int up = 0; up < 4 && folder.has_relative_path(); ++up) {
      folder = folder.parent_path();
      folders.push_back((folder / "examples").string());
    }
  }
  const std::string shared =
      GetEnvironment("XDG_DATA_DIRS").value_or("/usr/local/share:/usr/share");
  for (const std::string_view folder : Split(shared, ':')) {
    if (folder.starts_with('/')) {
      folders.push_back(std::string(folder) + "/attune/examples");
    }
  }
  return folders;
}

struct Example {
  std::string_view name, file;
  bool simulated = false;  // needs no GPU and no training program: its cluster is simulated
};
constexpr Example kExamples[] = {
    {"gpt", "gpt/recipe.yaml"},
    {"gpt-moe", "gpt/recipe-moe.yaml"},
    {"glm-4.7-flash", "glm-4.7-flash-h200x8/recipe.yaml", true},
    {"mixtral-8x22b", "mixtral-8x22b-h100x128/recipe.yaml", true},
    {"llama-3.1-70b", "llama-3.1-70b-h100x64-mlm/recipe.yaml", true},
};

class Init final : public Command {
 public:
  void Declare(Options& options) override {
    options.Text("-o,--output", output_, "FILE", "where to write it; default: recipe.yaml");
    std::vector<std::string> names;
    for (const Example& example : kExamples) {
      names.emplace_back(example.name);
    }
    options.Word("--example", example_, names, "which; default: gpt, with sim glm-4.7-flash");
    options.Word("--launcher", launcher_, {"local", "sim"},
                 "local: trains here; sim: on the simulated cluster");
    options.Flag("--force", force_, "write over a file that is there");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Example* chosen, Choose());
    ATTUNE_TRY(const std::string recipe, Find(*chosen));
    if (os::Exists(output_) && !force_) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} is there already", EscapeForDisplay(output_)),
                  "give another name with -o, or --force");
    }
    ATTUNE_TRY(const LoadedRecipe example, wire.ReadRecipe(recipe));
    const std::string text = fmt::format(
        "schema: attune/recipe/1\n"
        "# {3} What it says: attune check {0} --print --origins\n"
        "# For a job of your own write workload, command and args as it does{4},\n"
        "# and remove `extends`. Everything below may be changed.\n"
        "extends: \"{1}\"\n"
        "name: my-{2}\n"
        "{5}"
        "budget: {{gpu_hours: auto}}\n",
        EscapeForDisplay(output_), JsonEscape(recipe), chosen->name,
        chosen->simulated ? "A job on a simulated cluster: no GPU is used."
                          : "The training example of attune.",
        chosen->simulated ? "" : ", and declare and log",
        chosen->simulated ? "launcher: {kind: sim}    # on a cluster: slurm or ssh\n" : "");
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(output_, text));
    const Result<LoadedRecipe> again = wire.ReadRecipe(output_);
    if (!again) {
      return Fail("the recipe that was written does not read", again.error());
    }
    Terminal& terminal = wire.terminal();
    if (wire.flags().json) {
      JsonOut json("attune.init/1");
      json.Text("path", output_);
      json.Text("example", recipe);
      terminal.Out(json.Take() + "\n");
    } else {
      terminal.Out(output_ + "\n");
    }
    terminal.Note(fmt::format("{} slots, {} levers, from {}", again->recipe.workload.gpus,
                              LeverIds(again->recipe, BuiltInRules()).size(), recipe));
    if (chosen->simulated) {
      terminal.Note(fmt::format("next: attune run {}", ShellWordFor(output_)));
    } else {
      terminal.Note(fmt::format("once: /usr/bin/python3 {}/prepare.py",
                                fs::path(recipe).parent_path().string()));
      terminal.Note(fmt::format("next: attune check {}", ShellWordFor(output_)));
    }
    return kExitDone;
  }

 private:
  // Plain where it can be, quoted where a shell would read it otherwise.
  static std::string ShellWordFor(const std::string& text) {
    const bool plain = text.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789._-/") == std::string::npos;
    return plain ? text : ShellQuote(text);
  }

  Result<const Example*> Choose() const {
    const bool sim = launcher_ == "sim";
    const std::string_view name =
        !example_.empty() ? std::string_view(example_) : (sim ? "glm-4.7-flash" : "gpt");
    const auto* example = std::find_if(std::begin(kExamples), std::end(kExamples),
                                       [&](const Example& e) { return e.name == name; });
    ATTUNE_CHECK(example != std::end(kExamples), "an example that is not in the table");
    if (!launcher_.empty() && sim != example->simulated) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("--example {} is {}", example->name,
                              example->simulated ? "for --launcher sim" : "not simulated"),
                  "leave one of them out");
    }
    return example;
  }

  static Result<std::string> Find(const Example& example) {
    for (const std::string& folder : ExampleFolders()) {
      const std::string path = fmt::format("{}/{}", folder, example.file);
      if (access(path.c_str(), R_OK) == 0) {
        return path;
      }
    }
    return Fail(ErrorCode::kNotFound, "the examples that come with attune are not there",
                "they belong in share/attune/examples beside bin/");
  }

  std::string output_ = "recipe.yaml";
  std::string example_, launcher_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInit() { return std::make_unique<Init>(); }

}  // namespace attune::cli
