#include "session_files.h"

#include <fmt/core.h>

#include <map>

#include "attune/base/log.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "attune/propose/agent.h"

namespace attune::cli {
namespace {

// A label's value: backslash, quote and newline are escaped.
std::string Label(std::string_view value) {
  std::string out;
  for (const char c : EscapeForDisplay(value, 200)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

class Metrics {
 public:
  explicit Metrics(const CampaignState& s) : campaign_(Label(s.id.value)) {}

  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void Add(double value, std::string_view label = {}, std::string_view of = {}) {
    out_ += fmt::format("{}{{campaign=\"{}\"", name_, campaign_);
    if (!label.empty()) out_ += fmt::format(",{}=\"{}\"", label, Label(of));
    out_ += fmt::format("}} {}\n", value);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string campaign_, out_;
  std::string_view name_;
};

bool ChangesFigures(const Fact& fact) {
  return std::holds_alternative<Opened>(fact) || std::holds_alternative<Resumed>(fact) ||
         std::holds_alternative<PhaseSet>(fact) || std::holds_alternative<BudgetSet>(fact) ||
         std::holds_alternative<Calibrated>(fact) || std::holds_alternative<TurnedBack>(fact) ||
         std::holds_alternative<LaunchIntended>(fact) ||
         std::holds_alternative<LaunchEnded>(fact) || std::holds_alternative<Judged>(fact) ||
         std::holds_alternative<Answered>(fact) ||
         std::holds_alternative<Shipped>(fact);
}

}  // namespace

std::string MetricsText(const CampaignState& s) {
  Metrics m(s);
  m.Family("attune_campaign_state", "gauge", "1 for the phase that the campaign is in.");
  m.Add(1, "state", Word(s.phase));
  m.Family("attune_gpu_hours_total", "counter", "GPU-hours charged, by what they were for.");
  m.Add(s.ledger.calibration.Hours(), "kind", "calibration");
  m.Add(s.ledger.search.Hours(), "kind", "search");
  m.Add(s.ledger.final.Hours(), "kind", "final");
  m.Add(s.ledger.idle.Hours(), "kind", "idle");
  m.Add(s.ledger.overrun.Hours(), "kind", "overrun");
  m.Family("attune_failed_gpu_hours_total", "counter",
           "GPU-hours of candidates that ran out of memory, hung or crashed; part of search.");
  m.Add(s.ledger.failed.Hours());
  if (s.budget) {
    m.Family("attune_budget_gpu_hours", "gauge", "GPU-hours that the campaign may charge.");
    m.Add(s.budget->Hours());
  }
  if (s.calibration) {
    m.Family("attune_baseline_score", "gauge", "Tokens a second and GPU of the recipe as given.");
    m.Add(s.calibration->mean);
    m.Family("attune_leader_score", "gauge", "Tokens a second and GPU of the best so far.");
    m.Add(s.leader.mean > 0 ? s.leader.mean : s.calibration->mean);
  }
  const Counts counts = CountsOf(s);
  m.Family("attune_runs_total", "counter", "Launched candidates, by result.");
  m.Add(counts.win, "result", "win");
  m.Add(counts.tie, "result", "tie");
  m.Add(counts.loss, "result", "loss");
  m.Add(counts.failed, "result", "failed");
  m.Add(counts.stopped_early, "result", "stopped_early");
  m.Add(counts.rejected, "result", "rejected");
  if (!s.calls.empty()) {
    const ModelTokens used = TokensOf(s);
    m.Family("attune_llm_tokens_total", "counter", "Tokens of model requests.");
    m.Add(static_cast<double>(used.in), "type", "input");
    m.Add(static_cast<double>(used.out), "type", "output");
    m.Family("attune_llm_cost_usd_total", "counter", "Dollars for model requests.");
    m.Add(static_cast<double>(s.llm_usd_micros) / 1e6);
  }
  std::map<std::string, int> refusals;
  for (const ProposalRecord& p : s.proposals) {
    if (p.reason.starts_with("gate.")) ++refusals[p.reason.substr(5)];
  }
  if (!refusals.empty()) {
    m.Family("attune_gate_refusals_total", "counter", "Proposals that the gate refused, by rule.");
    for (const auto& [rule, count] : refusals) m.Add(count, "rule", rule);
  }
  if (s.phase == Phase::kShipped || s.phase == Phase::kNoGain) {
    m.Family("attune_last_success_timestamp_seconds", "gauge", "When a campaign last ended well.");
    m.Add(static_cast<double>(s.last_at.ms / 1000));
  }
  return m.Take();
}

Result<std::unique_ptr<SessionFiles>> SessionFiles::Open(Store& store, const CampaignId& campaign,
                                                         const std::string& events,
                                                         const std::string& metrics) {
  std::unique_ptr<SessionFiles> files(new SessionFiles(store, campaign, metrics));
  if (!events.empty()) {
    files->events_ = std::fopen(events.c_str(), "we");
    if (files->events_ == nullptr) {
      return Fail(ErrorCode::kDenied,
                  fmt::format("--events: {} cannot be written", EscapeForDisplay(events)));
    }
  }
  if (!metrics.empty()) {
    ATTUNE_TRY(const std::vector<Event> so_far, store.Load(campaign));
    CampaignState state;
    for (const Event& event : so_far) state = Apply(std::move(state), event);
    if (Status written = os::ReplaceFile(metrics, MetricsText(state)); !written) {
      return Fail("--metrics-textfile", std::move(written.error()));
    }
  }
  return files;
}

SessionFiles::~SessionFiles() {
  if (events_ != nullptr) std::fclose(events_);
}

Status SessionFiles::Catch(std::int64_t up_to) {
  // From the database, so that no event is left out that another part of the session committed.
  ATTUNE_TRY(const std::vector<Event> events, store_.Load(campaign_, written_));
  for (const Event& event : events) {
    if (event.seq > up_to) break;
    ATTUNE_TRY(const std::string line, Store::LineOf(campaign_, event));
    if (std::fputs((line + "\n").c_str(), events_) < 0) {
      return Fail(ErrorCode::kFull, "the event file cannot be written");
    }
    written_ = event.seq;
  }
  if (std::fflush(events_) != 0) return Fail(ErrorCode::kFull, "the event file cannot be written");
  return {};
}

void SessionFiles::OnEvent(const CampaignState& state, const Event& event) {
  if (failed_) return;
  Status done;
  if (events_ != nullptr) done = Catch(event.seq);
  if (done && !metrics_.empty() && ChangesFigures(event.fact)) {
    done = os::ReplaceFile(metrics_, MetricsText(state));
  }
  if (done) return;
  failed_ = true;
  log::Warn("{}; the campaign goes on without it", done.error().message);
}

}  // namespace attune::cli
