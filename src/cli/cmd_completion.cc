// completion: scripts that ask the binary itself, so that they never know less than it does.
// The binary's side is cmd_complete.cc.
#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

constexpr std::string_view kBash = R"(# attune completion for bash
_attune() {
  local IFS=$'\n'
  COMPREPLY=($(attune __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
    compopt -o default
  elif [[ ${COMPREPLY[0]} == */ ]]; then
    compopt -o nospace
  fi
}
complete -F _attune attune
)";

constexpr std::string_view kZsh = R"(#compdef attune
# attune completion for zsh
_attune() {
  local -a answers
  answers=("${(@f)$(attune __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  answers=(${answers:#})
  if (( ! ${#answers} )); then _files; return; fi
  local -a folders
  folders=(${(M)answers:#*/})
  answers=(${answers:#*/})
  compadd -S '' -a folders
  compadd -a answers
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

}  // namespace

std::unique_ptr<Command> MakeCompletion() { return std::make_unique<Completion>(); }

}  // namespace attune::cli
