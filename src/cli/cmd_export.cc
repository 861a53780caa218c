// export: what a campaign found, in a form to run or to paste.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"
#include "ship.h"

namespace attune::cli {
namespace {

class Export final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Word("--as", as_, {"recipe", "command", "env", "diff"}, "what to print");
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
    ATTUNE_TRY(const std::string text, Text(s, form));
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
  Result<std::string> Text(const CampaignState& s, const Effective& form) const {
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
