// status: where a campaign stands, from the projections: fast on any number of runs, and never a
// recomputed verdict.
#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/propose/agent.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"
#include "ship.h"

namespace attune::cli {
namespace {

constexpr Millis kWatchPause{2'000};

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

// What no projection holds: it takes the events to tell.
struct Told {
  std::optional<GpuMillis> reserved;
  bool asked_model = false;
  std::int64_t usd_micros = 0;
  ModelTokens tokens;
  std::optional<std::int64_t> budget_micros;
};

// A campaign with more events than a real one has keeps status fast by not being read.
constexpr std::int64_t kMostEvents = 2'000;

Result<Told> TellFromEvents(Store& store, const CampaignSummary& summary) {
  const CampaignRow& campaign = summary.campaign;
  Told told;
  if (campaign.Ended()) told.reserved = GpuMillis{};
  const bool silent = campaign.Ended() && summary.llm_calls == 0;
  if (!silent && campaign.last_seq > kMostEvents) return told;
  told.asked_model = summary.llm_calls > 0 || campaign.proposer == "agent";
  if (silent) return told;
  ATTUNE_TRY(const CampaignState state, LoadState(store, campaign.id));
  if (!state.Ended()) told.reserved = Reserve(state);
  told.usd_micros = state.llm_usd_micros;
  told.budget_micros = LlmBudgetOf(state);
  told.tokens = TokensOf(state);
  return told;
}

class StatusCommand final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Flag("--all", all_, "every campaign, a line each");
    options.Flag("--watch", watch_, "again whenever it changes, until the campaign has ended");
    options.Flag("--exit-status", exit_status_, "exit 8 while it goes on, 10 without a gain");
  }

  Result<int> Run(Wire& wire) override {
    if (all_) return All(wire);
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, campaign_));
    CampaignSummary s;
    std::string last;
    for (;;) {
      ATTUNE_TRY(s, reading.store->Summary(reading.campaign.id));
      s.shipped_recipe = ShippedPlace(reading.store->folder(), s.shipped_recipe);
      const Instant now = wire.clock().Now();
      const WriterSeen seen =
          s.lease ? reading.store->Seen(s.campaign.id, *s.lease, now) : WriterSeen::kNone;
      ATTUNE_TRY(const Told told, TellFromEvents(*reading.store, s));
      Print(wire, s, seen, told, now, last);
      if (!watch_ || s.campaign.Ended()) break;
      wire.clock().SleepUntil(now + kWatchPause);
    }
    if (!exit_status_) return kExitDone;
    if (!s.campaign.Ended()) return kExitInProgress;
    if (s.campaign.phase == Phase::kNoGain) return kExitNoGain;
    return s.campaign.phase == Phase::kAborted ? kExitNoLaunch : kExitDone;
  }

 private:
  // Once; with --watch again where something has changed. A terminal shows every step, over the
  // text before; a pipe gets a block when the record itself is another.
  void Print(Wire& wire, const CampaignSummary& s, WriterSeen seen, const Told& told, Instant now,
             std::string& last) const {
    Terminal& terminal = wire.terminal();
    const std::string json = Json(s, seen, told);
    const std::string text = wire.flags().json ? json + "\n" : Text(s, seen, told, now);
    const bool redraw = watch_ && !wire.flags().json && terminal.out_is_terminal();
    const std::string seen_now = redraw ? text : json.substr(0, json.find(",\"updated\""));
    if (seen_now == last) return;
    if (redraw && !last.empty()) {
      const auto lines = std::count(last.begin(), last.end(), '\n');
      terminal.Out(fmt::format("\x1b[{}F\x1b[J", lines));
    }
    last = seen_now;
    terminal.Out(text);
  }

  static std::string Text(const CampaignSummary& s, WriterSeen seen, const Told& told,
                          Instant now) {
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
    text += fmt::format("\n  {} charged + {} held of {} GPU-h", ShowGpuHours(s.ledger.Charged()),
                        ShowGpuHours(s.ledger.held),
                        s.budget ? ShowGpuHours(*s.budget) : std::string("auto"));
    if (told.reserved && told.reserved->value > 0) {
      text += fmt::format("   {} kept for the final stage", ShowGpuHours(*told.reserved));
    }
    if (told.asked_model) {
      text += fmt::format("   llm ${:.2f}", static_cast<double>(told.usd_micros) / 1e6);
    }
    text += "\n";
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

  static std::string Json(const CampaignSummary& s, WriterSeen seen, const Told& told) {
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
    hours.Number("reserved", told.reserved ? std::optional<double>(told.reserved->Hours())
                                           : std::nullopt);
    hours.Number("calibration", s.ledger.calibration.Hours());
    hours.Number("search", s.ledger.search.Hours());
    hours.Number("final", s.ledger.final.Hours());
    hours.Number("failed", s.ledger.failed.Hours());
    hours.Number("idle", s.ledger.idle.Hours());
    hours.Number("overrun", s.ledger.overrun.Hours());
    json.Raw("gpu_hours", hours.Take());
    if (told.asked_model) {
      const auto dollars = [](std::int64_t micros) { return static_cast<double>(micros) / 1e6; };
      JsonOut llm("");
      llm.Number("usd", dollars(told.usd_micros));
      llm.Number("budget_usd", told.budget_micros
                                   ? std::optional<double>(dollars(*told.budget_micros))
                                   : std::nullopt);
      llm.Int("input_tokens", told.tokens.in);
      llm.Int("output_tokens", told.tokens.out);
      json.Raw("llm", llm.Take());
    } else {
      json.Null("llm");
    }
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
  bool all_ = false, exit_status_ = false, watch_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeStatus() { return std::make_unique<StatusCommand>(); }

}  // namespace attune::cli
