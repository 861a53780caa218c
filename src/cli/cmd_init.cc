// init: a recipe to start from. It extends the training example that comes with attune, so that it
// runs as it is and shows what a recipe of one's own looks like.
#include <fmt/core.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include "attune/base/text.h"
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
};
constexpr Example kExamples[] = {{"gpt", "gpt/recipe.yaml"}, {"gpt-moe", "gpt/recipe-moe.yaml"}};

class Init final : public Command {
 public:
  void Declare(Options& options) override {
    options.Text("-o,--output", output_, "FILE", "where to write it; default: recipe.yaml");
    std::vector<std::string> names;
    for (const Example& example : kExamples) {
      names.emplace_back(example.name);
    }
    options.Word("--example", example_, names, "which training example; default: gpt");
    options.Flag("--force", force_, "write over a file that is there");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const std::string recipe, FindExample());
    if (os::Exists(output_) && !force_) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} is there already", EscapeForDisplay(output_)),
                  "give another name with -o, or --force");
    }
    ATTUNE_TRY(const LoadedRecipe example, wire.ReadRecipe(recipe));
    const std::string text = fmt::format(
        "schema: attune/recipe/1\n"
        "# The training example of attune. What it says: attune check {0} --print --origins\n"
        "# For a job of your own write workload, command, args, declare and log as it does, and\n"
        "# remove `extends`. Everything below may be changed.\n"
        "extends: \"{1}\"\n"
        "name: my-{2}\n"
        "budget: {{gpu_hours: auto}}\n",
        EscapeForDisplay(output_), JsonEscape(recipe), example_);
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
                              again->recipe.declared.size(), recipe));
    terminal.Note(fmt::format("once: /usr/bin/python3 {}/prepare.py",
                              fs::path(recipe).parent_path().string()));
    terminal.Note(fmt::format("next: attune check {}", ShellWordFor(output_)));
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

  Result<std::string> FindExample() const {
    std::string_view file;
    for (const Example& example : kExamples) {
      if (example.name == example_) {
        file = example.file;
      }
    }
    for (const std::string& folder : ExampleFolders()) {
      const std::string path = fmt::format("{}/{}", folder, file);
      if (access(path.c_str(), R_OK) == 0) {
        return path;
      }
    }
    return Fail(ErrorCode::kNotFound, "the examples that come with attune are not there",
                "they belong in share/attune/examples beside bin/");
  }

  std::string output_ = "recipe.yaml";
  std::string example_ = "gpt";
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInit() { return std::make_unique<Init>(); }

}  // namespace attune::cli
