// completion: scripts that ask the binary itself, so that they never know less than it does.
#include <dirent.h>
#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "commands.h"
#include "json_out.h"
#include "parse.h"

namespace attune::cli {
namespace {

constexpr std::string_view kBash = R"(# attune completion for bash
_attune() {
  local IFS=$'\n'
  COMPREPLY=($(attune __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default
}
complete -F _attune attune
)";

constexpr std::string_view kZsh = R"(#compdef attune
# attune completion for zsh
_attune() {
  local -a answers
  answers=("${(@f)$(attune __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  answers=(${answers:#})
  if (( ${#answers} )); then compadd -a answers; else _files; fi
}
compdef _attune attune
)";

constexpr std::string_view kFish = R"(# attune completion for fish
function __attune_complete
  set -l words (commandline -opc) (commandline -ct)
  attune __complete $words[2..-1] 2>/dev/null
end
complete -c attune -a '(__attune_complete)'
)";

class Completion final : public Command {
 public:
  void Declare(Options& options) override {
    options.Word("SHELL", shell_, {"bash", "zsh", "fish"}, "which shell");
  }

  Result<int> Run(Wire& wire) override {
    if (shell_.empty()) {
      return Fail(ErrorCode::kInvalidInput, "which shell?", "attune completion bash");
    }
    const std::string_view script = shell_ == "bash" ? kBash : shell_ == "zsh" ? kZsh : kFish;
    if (wire.flags().json) {
      JsonOut json("attune.completion/1");
      json.Text("shell", shell_);
      json.Text("script", script);
      wire.terminal().Out(json.Take() + "\n");
    } else {
      wire.terminal().Out(script);
    }
    return kExitDone;
  }

 private:
  std::string shell_;
};

// Answers one word a line; the last word given is the one to complete. Never an error: a shell
// would print it into the line being typed.
class Complete final : public Command {
 public:
  void Declare(Options& options) override { options.Everything(words_); }

  Result<int> Run(Wire& wire) override {
    std::string prefix;
    if (!words_.empty()) {
      prefix = words_.back();
      words_.pop_back();
    }
    std::string command;
    for (const std::string& word : words_) {
      if (FindCommand(word) != nullptr) {
        command = word;
        break;
      }
    }
    std::vector<std::string> candidates;
    if (prefix.starts_with('-')) {
      candidates = FlagNames(command);
      const std::vector<std::string> global = FlagNames("");
      candidates.insert(candidates.end(), global.begin(), global.end());
    } else if (command.empty()) {
      for (const CommandRow& row : Commands()) {
        if (!row.hidden) {
          candidates.emplace_back(row.name);
        }
      }
    } else {
      candidates = FixedWords(command);
    }
    std::string text;
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    for (const std::string& candidate : candidates) {
      if (candidate.starts_with(prefix)) {
        text += candidate + "\n";
      }
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

 private:
  std::vector<std::string> FixedWords(const std::string& command) const {
    const std::size_t given = words_.size();
    const bool first = given > 0 && words_.back() == command;
    if (!first) {
      return {};
    }
    if (command == "completion") {
      return {"bash", "zsh", "fish"};
    }
    if (command == "schema") {
      return {"recipe"};
    }
    if (command == "help") {
      std::vector<std::string> words = {"exit-codes", "environment", "recipe"};
      for (const CommandRow& row : Commands()) {
        if (!row.hidden) {
          words.emplace_back(row.name);
        }
      }
      return words;
    }
    return SubcommandNames(command);
  }

  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> MakeCompletion() { return std::make_unique<Completion>(); }
std::unique_ptr<Command> MakeComplete() { return std::make_unique<Complete>(); }

}  // namespace attune::cli
