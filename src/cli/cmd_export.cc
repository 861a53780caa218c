// export: what a campaign found, in a form to run or to paste.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/launch/slurm.h"
#include "attune/os/files.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"
#include "ship.h"

namespace attune::cli {
namespace {

constexpr std::int64_t kMaxTemplate = 1 << 20;

// The job as a person submits it: the form that ships, on the nodes that were measured.
Result<std::string> BatchScriptFor(const CampaignState& s, const Effective& form,
                                   const std::string& what) {
  const Recipe& recipe = s.recipe;
  const LauncherSpec& launcher = recipe.launcher;
  if (launcher.kind != "slurm" && launcher.sbatch.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: its recipe names no Slurm job (launcher.kind is {})", s.id.value,
                            launcher.kind),
                "attune export --as command prints what starts it");
  }
  SlurmOptions options = attune::SlurmOptionsOf(recipe);
  if (!launcher.batch_template.empty()) {
    const std::string path =
        (std::filesystem::path(recipe.folder) / launcher.batch_template).string();
    ATTUNE_TRY(options.script_template, os::ReadFileBounded(path, kMaxTemplate));
  }
  const Workload& w = recipe.workload;
  UserScript script;
  script.job_name = recipe.name;
  script.heading = {what};
  script.pass_env = launcher.pass_env;
  script.stage.argv = RenderCommand(recipe, form.args);
  script.stage.env = launcher.env;
  for (const auto& [name, value] : form.env) script.stage.env[name] = value;
  if (!launcher.script.empty()) {
    script.stage.argv = {"/bin/bash", "-c",
                         ScriptLine(recipe, script.stage.env, script.stage.argv)};
  }
  script.stage.workdir = JobFolder(recipe);
  script.stage.kind = recipe.ranks;
  script.stage.nodes = std::max(1, (w.gpus + w.gpus_per_node - 1) / w.gpus_per_node);
  script.stage.ranks = recipe.ranks == RanksKind::kNone ? 0 : std::min(w.gpus, w.gpus_per_node);
  return UserBatchScript(options, script);
}

class Export final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Word("--as", as_, {"recipe", "command", "sbatch", "env", "diff"}, "what to print");
    options.Flag("--baseline", baseline_, "of the recipe as given instead of the leader");
    options.Text("-o,--output", output_, "FILE", "write there instead of stdout");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, campaign_));
    ATTUNE_TRY(const CampaignState s, LoadState(*reading.store, reading.campaign.id));
    const Effective& form = baseline_ ? s.recipe.base : s.leader.user;
    const bool verified = !s.finals.empty() && s.finals.back().passed;
    if (!baseline_ && !s.leader.run.empty() && !verified) {
      wire.terminal().Warn(
          fmt::format("{} is the leader of the search; it is not verified", s.leader.run.value));
    }
    if (!output_.empty() && SameFile(output_, s.opened->recipe_path)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("-o {} is the campaign's own recipe", EscapeForDisplay(output_)),
                  "attune leaves it as it is: give another name");
    }
    ATTUNE_TRY(const std::string text, Text(s, form, verified));
    if (wire.flags().json) {
      JsonOut json("attune.export/1");
      json.Text("campaign", s.id.value);
      json.Text("as", as_.empty() ? "recipe" : as_);
      json.Bool("verified", verified);
      json.Text("text", text);
      wire.terminal().Out(json.Take() + "\n");
    } else if (output_.empty()) {
      wire.terminal().Out(text);
    }
    if (!output_.empty()) ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(output_, text));
    return kExitDone;
  }

 private:
  static bool SameFile(const std::string& a, const std::string& b) {
    std::error_code none;  // a file that is not there is no other's
    return std::filesystem::equivalent(a, b, none);
  }

  Result<std::string> Text(const CampaignState& s, const Effective& form, bool verified) const {
    if (as_ == "sbatch") {
      return BatchScriptFor(s, form,
                            fmt::format("attune export: {} of campaign {}{}",
                                        baseline_ ? "the recipe as given" : "the leader",
                                        s.id.value, baseline_ || verified ? "" : ", not verified"));
    }
    if (as_ == "command") return CommandLine(s.recipe, form) + "\n";
    if (as_ == "diff") {
      const std::string diff = DescribeDifference(s.recipe.base, form);
      return (diff.empty() ? "no change" : diff) + "\n";
    }
    if (as_ == "env") {
      std::string text;
      for (const auto& [name, value] : form.env) text += name + "=" + ShellQuote(value) + "\n";
      return text;
    }
    OverlayRequest request;
    request.user_path = s.opened->recipe_path;
    request.out_path = output_.empty() ? TunedPath(s.opened->recipe_path) : output_;
    request.shipped = form;
    request.comments = {"exported from campaign " + s.id.value};
    return TunedOverlay(request);
  }

  std::string campaign_, as_, output_;
  bool baseline_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<Export>(); }

}  // namespace attune::cli
