// status: where a campaign stands, from the projections alone: fast on any number of runs, and
// never a recomputed verdict.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

// running, interrupted and paused are derived from lease and open launches, never stored.
std::string StateWord(const CampaignSummary& s, WriterSeen seen) {
  if (s.campaign.Ended()) return std::string(Word(s.campaign.phase));
  if (seen == WriterSeen::kAlive) return "running";
  if (!s.paused.empty()) return "paused";
  if (seen == WriterSeen::kNone) return s.campaign.last_seq <= 1 ? "opened" : "stopped";
  return "interrupted";
}

std::string Writer(const CampaignSummary& s, WriterSeen seen, Instant now) {
  if (!s.lease || s.campaign.Ended() || seen == WriterSeen::kNone) return {};
  const std::string who = fmt::format("{} pid {}", s.lease->host, s.lease->pid);
  switch (seen) {
    case WriterSeen::kAlive:
      return fmt::format(" ({})", who);
    case WriterSeen::kGone:
      return fmt::format(" (was {}, which is gone)", who);
    case WriterSeen::kSilent:
      return fmt::format(" (no beat of {} since {})", who, Ago(s.lease->last_beat, now));
    case WriterSeen::kElsewhere:
      return fmt::format(" ({}, last beat {})", who, Ago(s.lease->last_beat, now));
    case WriterSeen::kNone:
      break;
  }
  return {};
}

std::string ResultOf(const RunRow& run) {
  if (run.standing) return std::string(Word(*run.standing));
  if (run.end) return std::string(Word(*run.end));
  if (run.started_at) return fmt::format("running, {} steps", run.steps);
  return std::string(Word(run.launch_state));
}

std::string RunLine(const RunRow& run) {
  std::string line =
      fmt::format("  {:<5} {:<18} {:<30} {:<16}", run.id.value, EscapeForDisplay(run.label, 18),
                  EscapeForDisplay(run.change, 30), ResultOf(run));
  line += run.score ? fmt::format(" {:>10.1f}", *run.score) : fmt::format(" {:>10}", "-");
  line += run.gain ? fmt::format(" {:>+7.1f}%", 100 * *run.gain) : fmt::format(" {:>8}", "-");
  line += fmt::format(
      " {:>8}  {}", ShowGpuHours(run.charged),
      EscapeForDisplay(
          !run.cause.empty() && run.standing == Standing::kFailed ? run.cause : run.reason, 70));
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

class StatusCommand final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Flag("--all", all_, "every campaign, a line each");
    options.Flag("--exit-status", exit_status_, "exit 8 while it goes on, 10 without a gain");
  }

  Result<int> Run(Wire& wire) override {
    if (all_) return All(wire);
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, campaign_));
    ATTUNE_TRY(const CampaignSummary s, reading.store->Summary(reading.campaign.id));
    const Instant now = wire.clock().Now();
    const WriterSeen seen =
        s.lease ? reading.store->Seen(s.campaign.id, *s.lease, now) : WriterSeen::kNone;
    wire.terminal().Out(wire.flags().json ? Json(s, seen) + "\n" : Text(s, seen, now));
    if (!exit_status_) return kExitDone;
    if (!s.campaign.Ended()) return kExitInProgress;
    if (s.campaign.phase == Phase::kNoGain) return kExitNoGain;
    return s.campaign.phase == Phase::kAborted ? kExitNoLaunch : kExitDone;
  }

 private:
  static std::string Text(const CampaignSummary& s, WriterSeen seen, Instant now) {
    std::string text = fmt::format("{}  {}{}   {}\n", s.campaign.id.value, StateWord(s, seen),
                                   Writer(s, seen, now), EscapeForDisplay(s.campaign.name));
    text += fmt::format("  phase {}", Word(s.campaign.phase));
    if (s.baseline_mean) {
      text += fmt::format("   baseline {:.1f} tok/s/GPU", *s.baseline_mean);
      if (s.band)
        text += fmt::format(" (band {:.2f}%, {} runs)", 100 * *s.band, s.calibration_runs);
    }
    if (!s.leader.run.empty() && s.leader.score) {
      text += fmt::format("   leader {} {:.1f}", s.leader.run.value, *s.leader.score);
      if (s.leader.gain) {
        text += fmt::format(" ({:+.1f}%{})", 100 * *s.leader.gain,
                            s.final_result && s.final_result->passed ? "" : ", not verified");
      }
    }
    text += fmt::format("\n  {} charged + {} held of {} GPU-h\n", ShowGpuHours(s.ledger.Charged()),
                        ShowGpuHours(s.ledger.held),
                        s.budget ? ShowGpuHours(*s.budget) : std::string("auto"));
    if (!s.paused.empty()) text += "  paused: " + EscapeForDisplay(s.paused) + "\n";
    if (s.campaign.Ended() && !s.campaign.phase_reason.empty()) {
      text += fmt::format("  ended: {}\n", EscapeForDisplay(s.campaign.phase_reason, 600));
    }
    if (s.final_result) {
      text += fmt::format("  final: {} {:+.1f}% ({:.1f} against {:.1f}), {}\n",
                          s.final_result->passed ? "verified" : "not verified",
                          100 * s.final_result->gain, s.final_result->winner,
                          s.final_result->baseline, EscapeForDisplay(s.final_result->reason));
    }
    if (!s.recent_runs.empty() || !s.open_runs.empty()) {
      text += fmt::format("  {:<5} {:<18} {:<30} {:<16} {:>10} {:>8} {:>8}  WHY\n", "RUN", "LABEL",
                          "CHANGE", "RESULT", "TOK/S/GPU", "GAIN", "GPU-H");
    }
    for (const RunRow& run : s.recent_runs) text += RunLine(run);
    for (const RunRow& run : s.open_runs) text += RunLine(run);
    for (const std::string& wish : s.pending_wishes)
      text += "  asked, not taken yet: " + wish + "\n";
    if (!s.shipped_recipe.empty()) text += "  recipe " + s.shipped_recipe + "\n";
    if (!s.campaign.Ended() && seen != WriterSeen::kAlive) {
      text += fmt::format("next: attune resume {}\n", s.campaign.id.value);
    }
    return text;
  }

  static std::string Json(const CampaignSummary& s, WriterSeen seen) {
    JsonOut json("attune.status/1");
    json.Text("campaign", s.campaign.id.value);
    json.Text("state", StateWord(s, seen));
    json.Text("phase", Word(s.campaign.phase));
    json.Text("recipe_fingerprint", s.campaign.recipe_hash);
    json.Text("score_unit", "tok/s/GPU");
    if (s.baseline_mean) {
      JsonOut baseline("");
      baseline.Number("mean", *s.baseline_mean);
      baseline.Number("sigma_pct", s.sigma ? std::optional<double>(100 * *s.sigma) : std::nullopt);
      baseline.Int("n", s.calibration_runs);
      json.Raw("baseline", baseline.Take());
    } else {
      json.Null("baseline");
    }
    json.Number("band_pct", s.band ? std::optional<double>(100 * *s.band) : std::nullopt);
    if (!s.leader.run.empty()) {
      JsonOut leader("");
      leader.Text("run", s.leader.run.value);
      leader.Number("score", s.leader.score);
      leader.Number("gain_pct",
                    s.leader.gain ? std::optional<double>(100 * *s.leader.gain) : std::nullopt);
      json.Raw("leader", leader.Take());
    } else {
      json.Null("leader");
    }
    if (s.final_result) {
      JsonOut final("");
      final.Number("gain_pct", 100 * s.final_result->gain);
      final.Number("baseline", s.final_result->baseline);
      final.Number("winner", s.final_result->winner);
      final.Int("blocks", static_cast<std::int64_t>(s.final_result->block_ratios.size()));
      final.Bool("verified", s.final_result->passed);
      json.Raw("final", final.Take());
    } else {
      json.Null("final");
    }
    JsonOut hours("");
    hours.Number("used", s.ledger.Charged().Hours());
    hours.Number("budget", s.budget ? std::optional<double>(s.budget->Hours()) : std::nullopt);
    hours.Number("held", s.ledger.held.Hours());
    hours.Number("calibration", s.ledger.calibration.Hours());
    hours.Number("search", s.ledger.search.Hours());
    hours.Number("final", s.ledger.final.Hours());
    hours.Number("failed", s.ledger.failed.Hours());
    hours.Number("idle", s.ledger.idle.Hours());
    hours.Number("overrun", s.ledger.overrun.Hours());
    json.Raw("gpu_hours", hours.Take());
    JsonOut counts("");
    counts.Int("launched", s.counts.launched);
    counts.Int("win", s.counts.win);
    counts.Int("tie", s.counts.tie);
    counts.Int("loss", s.counts.loss);
    counts.Int("failed", s.counts.failed);
    counts.Int("stopped_early", s.counts.stopped_early);
    counts.Int("rejected", s.counts.rejected);
    counts.Int("refused", s.counts.refused);
    counts.Int("turned_back", s.counts.turned_back);
    counts.Int("duplicate", s.counts.duplicate);
    json.Raw("counts", counts.Take());
    if (!s.open_runs.empty()) {
      json.Text("current", s.open_runs.front().id.value);
    } else {
      json.Null("current");
    }
    if (s.campaign.stop.empty()) {
      json.Null("stop_reason");
    } else {
      json.Text("stop_reason", s.campaign.stop);
    }
    json.Text("updated", Rfc3339(s.campaign.updated_at));
    return json.Take();
  }

  static Result<int> All(Wire& wire) {
    ATTUNE_TRY(const std::string folder, wire.StateFolder());
    StoreOptions options;
    options.read_only = true;
    ATTUNE_TRY(const std::unique_ptr<Store> store, Store::Open(folder, options));
    ATTUNE_TRY(const std::vector<CampaignRow> rows, store->Campaigns());
    std::vector<std::string> objects;
    for (const CampaignRow& row : rows) {
      if (!wire.flags().json) {
        wire.terminal().Out(fmt::format("{}  {:<12} {:<24} {}\n", row.id.value, Word(row.phase),
                                        EscapeForDisplay(row.name, 24), Rfc3339(row.updated_at)));
        continue;
      }
      JsonOut one("");
      one.Text("campaign", row.id.value);
      one.Text("phase", Word(row.phase));
      one.Text("name", row.name);
      one.Text("recipe", row.recipe_path);
      one.Text("updated", Rfc3339(row.updated_at));
      objects.push_back(one.Take());
    }
    if (wire.flags().json) {
      JsonOut json("attune.campaigns/1");
      json.Objects("campaigns", objects);
      wire.terminal().Out(json.Take() + "\n");
    }
    return kExitDone;
  }

  std::string campaign_;
  bool all_ = false, exit_status_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeStatus() { return std::make_unique<StatusCommand>(); }

}  // namespace attune::cli
