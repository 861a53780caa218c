// The batch script of a job that attune is no part of: `attune export --as sbatch`.
#include <algorithm>

#include "attune/base/text.h"
#include "slurm_script.h"

namespace attune {
namespace {

constexpr std::string_view kMark = "{{attune}}";

// As sbatch reads a line of #SBATCH: words in quotes where a blank or '#' would end them
// (slurm-22.05, src/sbatch/opt.c, _get_next_opt).
std::string DirectiveLine(const std::string& option) {
  const bool plain = option.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789-_=+,.:/@%[]") == std::string::npos;
  if (plain) {
    return "#SBATCH " + option + "\n";
  }
  const std::size_t value = option.find('=') + 1;
  return "#SBATCH " + option.substr(0, value) + ShellQuote(option.substr(value)) + "\n";
}

std::string Directives(const SlurmOptions& o, const UserScript& script) {
  std::string out = DirectiveLine("--job-name=" + script.job_name);
  // As attune submits: nothing of the submitting shell but what the recipe passes on.
  out +=
      DirectiveLine("--export=" + (script.pass_env.empty() ? "NONE" : Join(script.pass_env, ",")));
  for (const std::string& option : launch::NodesAskedFor(o)) {
    out += DirectiveLine(option);
  }
  for (const auto& [name, value] : o.sbatch) {
    if (value != "false") {
      out += DirectiveLine(launch::OptionOf(name, value));
    }
  }
  return out;
}

std::string Call(const SlurmOptions& o, const Stage& user) {
  Stage stage = launch::OnNodes(o, user, "", "");
  std::string out = "cd " + ShellQuote(stage.workdir) + " || exit 1\n";
  // Without it steps of srun get none of these variables.
  out += "export SLURM_EXPORT_ENV=ALL\n";
  for (const auto& [name, value] : stage.env) {
    out += "export " + name + "=" + ShellQuote(value) + "\n";
  }
  if (user.kind != RanksKind::kNone && user.ranks > 0 && !stage.env.contains("MASTER_PORT")) {
    // Where ranks meet: a port of the job's own, below those that Linux hands out by itself.
    out += "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))\n";
  }
  std::string words;
  for (const std::string& word : stage.argv) {
    words += (words.empty() ? "" : " \\\n  ") + ShellQuote(word);
  }
  return out + words + "\n";
}

// Directives count only before the first command, and of two the later one.
std::size_t FirstCommand(const std::string& text) {
  std::size_t at = 0;
  for (const std::string_view line : SplitLines(text)) {
    const std::string_view word = Trim(line);
    if (!word.empty() && word.front() != '#') {
      break;
    }
    at += line.size() + 1;
  }
  return std::min(at, text.size());
}

}  // namespace

Result<std::string> UserBatchScript(const SlurmOptions& options, const UserScript& script) {
  std::string comments;
  for (const std::string& line : script.heading) {
    comments += "# " + EscapeForDisplay(line, 300) + "\n";
  }
  const std::string head = comments + Directives(options, script);
  const std::string call = Call(options, script.stage);
  if (options.script_template.empty()) {
    return "#!/bin/sh\n" + head + call;
  }
  // The template's own rules are those of the script that attune submits.
  ATTUNE_TRY(const std::string checked, launch::BatchScript(options.script_template, "w", "f"));
  (void)checked;
  std::string body = options.script_template;
  body.insert(FirstCommand(body), head);
  std::string out;
  for (const std::string_view line : SplitLines(body)) {
    out += Trim(line) == kMark ? call : std::string(line) + "\n";
  }
  return out;
}

}  // namespace attune
