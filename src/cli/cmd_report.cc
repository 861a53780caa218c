// report: what a campaign came to, as text, JSON, Markdown or one offline HTML file.
#include "attune/os/files.h"
#include "attune/report/report.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "session.h"
#include "ship.h"

namespace attune::cli {
namespace {

class ReportCommand final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Text("--html", html_, "FILE", "write one offline page with charts; - is stdout");
    options.Text("--md", markdown_, "FILE", "write Markdown, for a pull request; - is stdout");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, campaign_));
    ATTUNE_TRY(const CampaignState state, LoadState(*reading.store, reading.campaign.id));
    const SkillInUse skill = SkillToShow(wire, state);
    Report report = attune::MakeReport(state, skill.Get().catalog);
    report.bundle = ShippedPlace(reading.store->folder(), report.bundle);
    report.shipped_recipe = ShippedPlace(reading.store->folder(), report.shipped_recipe);
    const bool to_stdout = html_ == "-" || markdown_ == "-";
    if (to_stdout && (wire.flags().json || html_ == markdown_)) {
      return Fail(ErrorCode::kInvalidInput, "stdout takes one format at a time",
                  "give --html or --md a file");
    }
    if (!to_stdout) {
      wire.terminal().Out(wire.flags().json ? ReportJson(report) + "\n" : ReportText(report));
    }
    if (!html_.empty()) ATTUNE_RETURN_IF_ERROR(Put(wire, html_, ReportHtml(report)));
    if (!markdown_.empty()) ATTUNE_RETURN_IF_ERROR(Put(wire, markdown_, ReportMarkdown(report)));
    return kExitDone;
  }

 private:
  static Status Put(Wire& wire, const std::string& path, const std::string& text) {
    if (path == "-") {
      wire.terminal().Out(text);
      return {};
    }
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(path, text));
    // Under --json stdout is one object.
    if (wire.flags().json) {
      wire.terminal().Note("written: " + path);
    } else {
      wire.terminal().Out(path + "\n");
    }
    return {};
  }

  std::string campaign_, html_, markdown_;
};

}  // namespace

std::unique_ptr<Command> MakeReport() { return std::make_unique<ReportCommand>(); }

}  // namespace attune::cli
