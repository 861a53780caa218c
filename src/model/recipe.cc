#include "attune/model/recipe.h"

#include <algorithm>

#include "attune/base/check.h"

namespace attune {

std::string_view Word(Framework f) {
  switch (f) {
    case Framework::kMegatronLm:
      return "megatron-lm";
    case Framework::kCustom:
      return "custom";
  }
  ATTUNE_CHECK(false, "a framework without a word");
}

bool IsHostName(std::string_view name) {
  return !name.empty() && name.size() <= 253 && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::string WhyNotHeld(const LauncherSpec& launcher, Millis session) {
  constexpr Millis kShortest = std::chrono::minutes(2);
  if (launcher.kind != "slurm" || !launcher.login.empty()) {
    return "goes with launcher.kind slurm, without launcher.login";
  }
  if (!launcher.batch_template.empty()) {
    return "has no place for launcher.batch_template, which is the script of one launch";
  }
  if (session < kShortest) return "must be at least " + ShowDuration(kShortest);
  return {};
}

std::vector<std::string> RenderCommand(const Recipe& recipe, const Arguments& args) {
  const std::vector<std::string> rendered = args.Render();
  std::vector<std::string> argv;
  bool placed = false;
  for (const std::string& token : recipe.command) {
    if (token == "{{args}}") {
      argv.insert(argv.end(), rendered.begin(), rendered.end());
      placed = true;
    } else {
      argv.push_back(token);
    }
  }
  if (!placed) argv.insert(argv.end(), rendered.begin(), rendered.end());
  return argv;
}

const std::string& JobFolder(const Recipe& recipe) {
  return recipe.launcher.workdir.empty() ? recipe.folder : recipe.launcher.workdir;
}

std::string ScriptPath(const Recipe& recipe) {
  const std::string& script = recipe.launcher.script;
  return script.empty() || script.front() == '/' ? script : recipe.folder + "/" + script;
}

}  // namespace attune
