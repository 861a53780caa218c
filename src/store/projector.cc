#include "projector.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <utility>

#include "attune/base/text.h"
#include "attune/model/campaign.h"
#include "event_json.h"

namespace attune {
namespace {

std::string_view FormWord(Form form) { return form == Form::kMeasured ? "measured" : "user"; }

std::optional<LaunchState> LaunchStateOf(std::string_view word) {
  for (const LaunchState s : {LaunchState::kIntended, LaunchState::kBound, LaunchState::kRunning,
                              LaunchState::kEnded, LaunchState::kVoid}) {
    if (Word(s) == word) return s;
  }
  return std::nullopt;
}

std::string_view BookColumn(Purpose purpose) {
  Ledger ledger;
  const GpuMillis* book = &BookOf(ledger, purpose);
  if (book == &ledger.calibration) return "calibration_gpu_ms";
  if (book == &ledger.final) return "final_gpu_ms";
  return "search_gpu_ms";
}

// The counter of a standing or of a reason, as CountsOf (model/campaign.cc) has it.
std::string_view CounterOf(Standing standing) {
  switch (standing) {
    case Standing::kWin:
      return "n_win";
    case Standing::kTie:
      return "n_tie";
    case Standing::kLoss:
      return "n_loss";
    case Standing::kStoppedEarly:
      return "n_stopped_early";
    case Standing::kRejected:
      return "n_rejected";
    case Standing::kFailed:
      return "n_failed";
    case Standing::kReference:
    case Standing::kInvalid:
    case Standing::kEnvironment:
      return {};
  }
  return {};
}

std::string_view CounterOf(std::string_view reason) {
  if (reason == "duplicate") return "n_duplicate";
  return reason.starts_with("gate.") ? "n_refused" : "n_turned_back";
}

std::string DescribeEdits(const std::vector<Edit>& edits) {
  std::vector<std::string> parts;
  for (const Edit& e : edits) {
    const bool off = e.op == Edit::Op::kUnset || e.op == Edit::Op::kUnsetEnv;
    parts.push_back(fmt::format("{} {}", e.name, off ? "off" : Join(e.values, " ")));
  }
  return Join(parts, "; ");
}

}  // namespace

template <class... A>
Status Projector::One(std::string_view what, std::string_view sql, const A&... args) {
  ATTUNE_TRY(const int rows, db_.Run(sql, args...));
  if (rows == 1) return {};
  return Fail(ErrorCode::kInternal,
              fmt::format("an event names {} that {} does not have", what, campaign_.value));
}

template <class... A>
Status Projector::Any(std::string_view sql, const A&... args) {
  ATTUNE_TRY(const int rows, db_.Run(sql, args...));
  (void)rows;
  return {};
}

Status Projector::Project(const Event& event) {
  seq_ = event.seq;
  at_ = event.at;
  return std::visit(*this, event.fact);
}

Status Projector::Findings(std::string_view subject, std::string_view id,
                           const std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& f = findings[i];
    ATTUNE_RETURN_IF_ERROR(Any("INSERT INTO verdict VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                               campaign_, seq_, static_cast<std::int64_t>(i), subject, id,
                               Word(f.severity), f.rule, f.key, f.was, f.now, f.why));
  }
  return {};
}

Result<LaunchState> Projector::Move(const LaunchId& id, LaunchNews news) {
  ATTUNE_TRY(sql::Rows rows,
             db_.Select("SELECT state FROM launch WHERE campaign = ? AND id = ?", campaign_, id));
  ATTUNE_TRY(const bool found, rows.Next());
  if (!found) {
    return Fail(ErrorCode::kInternal, fmt::format("an event names launch {} that {} does not have",
                                                  id.value, campaign_.value));
  }
  const std::string word = rows.Text(0);
  const std::optional<LaunchState> from = LaunchStateOf(word);
  const std::optional<LaunchState> to = from ? Next(*from, news) : std::nullopt;
  if (!to) {
    return Fail(ErrorCode::kInternal,
                fmt::format("launch {} is {}: it can't make the next move", id.value, word));
  }
  return *to;
}

Status Projector::KnownRun(const RunId& id) {
  ATTUNE_TRY(sql::Rows rows,
             db_.Select("SELECT 1 FROM run WHERE campaign = ? AND id = ?", campaign_, id));
  ATTUNE_TRY(const bool found, rows.Next());
  if (found) return {};
  return Fail(ErrorCode::kInternal, fmt::format("an event names run {} that {} does not have",
                                                id.value, campaign_.value));
}

Status Projector::Count(std::string_view column, int by) {
  if (column.empty()) return {};
  return Any(fmt::format("UPDATE campaign SET {0} = {0} + ? WHERE id = ?", column), by, campaign_);
}

Status Projector::Recount(std::string_view was, std::string_view is) {
  if (was == is) return {};
  ATTUNE_RETURN_IF_ERROR(Count(was, -1));
  return Count(is, +1);
}

Result<std::optional<Effective>> Projector::LeaderForm() {
  // The plan stands in the event that intended the run; calibration runs are the baseline.
  constexpr std::string_view kPlanOf =
      "SELECT event.kind, event.body, run.id FROM run JOIN event USING (campaign, seq)"
      " WHERE run.campaign = ? ";
  for (const std::string_view which :
       {"AND leader_rank IS NOT NULL ORDER BY leader_rank DESC LIMIT 1",
        "AND purpose = 'calibration' ORDER BY seq, position LIMIT 1"}) {
    ATTUNE_TRY(sql::Rows rows, db_.Select(fmt::format("{}{}", kPlanOf, which), campaign_));
    ATTUNE_TRY(const bool found, rows.Next());
    if (!found) continue;
    const std::string run = rows.Text(2);
    ATTUNE_TRY(const Fact fact, DecodeFact(rows.Text(0), rows.Text(1)));
    if (const auto* intended = std::get_if<LaunchIntended>(&fact)) {
      for (const RunPlan& plan : intended->runs) {
        if (plan.id.value == run) return std::optional<Effective>(plan.user);
      }
    }
  }
  return std::optional<Effective>();
}

Result<std::string> Projector::Describe(const Proposal& proposal, const Effective* candidate) {
  ATTUNE_TRY(const std::optional<Effective> base, LeaderForm());
  if (!base) return DescribeEdits(proposal.change.edits);
  if (candidate != nullptr) return DescribeDifference(*base, *candidate);
  return DescribeDifference(*base, ApplyEdits(*base, proposal.change.edits));
}

Status Projector::operator()(const Opened& f) {
  // The name is read by SQLite: a recipe that is no JSON simply has none here.
  return One("a campaign",
             "INSERT INTO campaign(id, name, recipe_path, recipe_hash, stack_fingerprint,"
             " run_root, proposer, policy, opened_ms, updated_ms, last_seq, phase, budget_gpu_ms)"
             " VALUES(?1, CASE WHEN json_valid(?2)"
             "   THEN coalesce(json_extract(?2, '$.name') || '', '') ELSE '' END,"
             " ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12)",
             campaign_, f.recipe_json, f.recipe_path, f.recipe_hash, f.stack_fingerprint,
             f.run_root, f.policy.proposer, f.policy.name, at_, seq_, Word(Phase::kCalibrating),
             f.budget);
}

Status Projector::operator()(const Resumed&) {
  return Any("UPDATE campaign SET paused = '' WHERE id = ?", campaign_);
}

Status Projector::operator()(const BudgetSet& f) {
  return Any("UPDATE campaign SET budget_gpu_ms = ? WHERE id = ?", f.budget, campaign_);
}

Status Projector::operator()(const PhaseSet& f) {
  return Any(
      "UPDATE campaign SET phase = ?1, phase_reason = ?2,"
      " stop = CASE WHEN ?3 = '' THEN stop ELSE ?3 END WHERE id = ?4",
      Word(f.phase), f.reason, f.stop, campaign_);
}

Status Projector::operator()(const Calibrated& f) {
  const Calibration& c = f.calibration;
  std::int64_t runs = static_cast<std::int64_t>(c.runs.size());
  if (!f.reused.empty()) {
    // It was made from runs of another campaign: how many stands in the opening of this one.
    ATTUNE_TRY(
        sql::Rows rows,
        db_.Select("SELECT json_array_length(body, '$.earlier_calibration.scores') FROM event"
                   " WHERE campaign = ? AND seq = 1",
                   campaign_));
    ATTUNE_TRY(const bool known, rows.Next());
    if (known) runs = rows.Int(0);
  }
  return Any("INSERT OR REPLACE INTO calibration VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
             campaign_, seq_, at_, runs, c.mean, c.sigma, c.band, c.quick, c.how, c.launch_cost,
             c.startup, c.step_ms);
}

Status Projector::operator()(const Proposed& f) {
  ATTUNE_TRY(const std::string change, Describe(f.proposal, &f.candidate));
  ATTUNE_RETURN_IF_ERROR(
      Any("INSERT INTO proposal(campaign, id, seq, at_ms, admitted, source, llm_call, lever, label,"
          " hypothesis, change, hash) VALUES(?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)",
          campaign_, f.id, seq_, at_, f.source, f.llm_call, f.proposal.change.lever,
          f.proposal.label, f.proposal.hypothesis, change, f.hash));
  return Findings("proposal", f.id.value, f.verdict.findings);
}

Status Projector::operator()(const TurnedBack& f) {
  const Finding* refusal = f.verdict.FirstRefusal();
  const std::string rule = refusal != nullptr ? refusal->rule : std::string();
  Proposal none;
  const Proposal& p = f.proposal ? *f.proposal : none;
  std::string change;
  if (f.proposal) {
    ATTUNE_TRY(change, Describe(p, nullptr));
  }
  // An admitted proposal that can't be paid for is turned back under its own id.
  std::string before;
  {
    ATTUNE_TRY(sql::Rows rows,
               db_.Select("SELECT reason FROM proposal WHERE campaign = ? AND id = ?"
                          " AND admitted = 0",
                          campaign_, f.id));
    ATTUNE_TRY(const bool found, rows.Next());
    if (found) before = rows.Text(0);
  }
  ATTUNE_RETURN_IF_ERROR(
      Recount(before.empty() ? std::string_view() : CounterOf(before), CounterOf(f.reason)));
  ATTUNE_RETURN_IF_ERROR(
      Any("INSERT INTO proposal(campaign, id, seq, at_ms, admitted, source, llm_call, lever, label,"
          " hypothesis, change, reason, detail, rule)"
          " VALUES(?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
          " ON CONFLICT(campaign, id) DO UPDATE SET admitted = 0, reason = ?11, detail = ?12,"
          " rule = ?13",
          campaign_, f.id, seq_, at_, f.source, f.llm_call, p.change.lever, p.label, p.hypothesis,
          change, f.reason, f.detail, rule));
  return Findings("proposal", f.id.value, f.verdict.findings);
}

Status Projector::operator()(const AskIntended& f) {
  ATTUNE_RETURN_IF_ERROR(Count("n_llm_calls", 1));
  return Any(
      "INSERT INTO llm_call(campaign, id, seq, asked_ms, body_hash, model, profile, role, repeats,"
      " bound_usd_micros) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      campaign_, f.call, seq_, at_, f.body_hash, f.model, f.profile, f.role, f.repeats,
      f.bound_usd_micros);
}

Status Projector::operator()(const Answered& f) {
  return One("a model request",
             "UPDATE llm_call SET answered_ms = ?, outcome = ?, answered_by = ?, tool = ?,"
             " error = ?, usd_micros = ?, tries = ?, status = ?, latency_ms = ?, in_tokens = ?,"
             " cached_tokens = ?, cache_written_tokens = ?, out_tokens = ?, reasoning_tokens = ?,"
             " request_id = ? WHERE campaign = ? AND id = ?",
             at_, f.outcome, f.model, f.tool, f.error, f.usd_micros, f.tries, f.status, f.latency,
             f.in_tokens, f.cached_tokens, f.cache_written_tokens, f.out_tokens, f.reasoning_tokens,
             f.request_id, campaign_, f.call);
}

Status Projector::operator()(const StopWished&) { return {}; }

Status Projector::operator()(const LaunchIntended& f) {
  ATTUNE_RETURN_IF_ERROR(
      Any("INSERT INTO launch(campaign, id, seq, token, purpose, state, slots, hold_gpu_ms,"
          " limit_ms, attempt, intended_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          campaign_, f.id, seq_, f.token, Word(f.purpose), Word(LaunchState::kIntended), f.slots,
          f.hold, f.limit, f.attempt, at_));
  ATTUNE_RETURN_IF_ERROR(
      Any("UPDATE campaign SET held_gpu_ms = held_gpu_ms + ?, n_runs = n_runs + ?,"
          " n_launched = n_launched + ? WHERE id = ?",
          f.hold, static_cast<std::int64_t>(f.runs.size()), f.purpose == Purpose::kCandidate,
          campaign_));
  for (std::size_t i = 0; i < f.runs.size(); ++i) {
    const RunPlan& run = f.runs[i];
    ATTUNE_RETURN_IF_ERROR(
        Any("INSERT INTO run(campaign, id, launch, seq, position, label, recipe_of, purpose,"
            " proposal, form) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            campaign_, run.id, f.id, seq_, static_cast<std::int64_t>(i), run.label, run.of,
            Word(f.purpose), run.proposal, FormWord(run.form)));
    if (f.purpose != Purpose::kCandidate || run.proposal.empty()) continue;
    ATTUNE_RETURN_IF_ERROR(Any("UPDATE proposal SET run = ? WHERE campaign = ? AND id = ?", run.id,
                               campaign_, run.proposal));
  }
  return {};
}

Status Projector::operator()(const LaunchBound& f) {
  ATTUNE_TRY(const LaunchState to, Move(f.id, LaunchNews::kTaken));
  return One("a launch",
             "UPDATE launch SET state = ?, bound_ms = ?, handle = ?, folder = ?"
             " WHERE campaign = ? AND id = ?",
             Word(to), at_, f.handle.id, f.handle.folder, campaign_, f.id);
}

Status Projector::operator()(const LaunchEnded& f) {
  ATTUNE_TRY(const LaunchState to,
             Move(f.id, f.reached ? LaunchNews::kReleased : LaunchNews::kNeverReached));
  ATTUNE_RETURN_IF_ERROR(One("a launch",
                             "UPDATE launch SET state = ?, ended_ms = ?, charged_gpu_ms = ?,"
                             " overrun_gpu_ms = ?, charge_source = ?, nodes = ?, detail = ?"
                             " WHERE campaign = ? AND id = ?",
                             Word(to), at_, f.charged, f.overrun, Word(f.source), f.nodes, f.detail,
                             campaign_, f.id));
  GpuMillis hold;
  Purpose purpose = Purpose::kCandidate;
  bool failed = false;
  {
    ATTUNE_TRY(sql::Rows rows,
               db_.Select("SELECT purpose, hold_gpu_ms FROM launch WHERE campaign = ? AND id = ?",
                          campaign_, f.id));
    ATTUNE_TRY(const bool found, rows.Next());
    if (found) {
      purpose = ParsePurpose(rows.Text(0)).value_or(Purpose::kCandidate);
      hold = {rows.Int(1)};
    }
  }
  if (purpose == Purpose::kCandidate) {
    if (!f.reached) ATTUNE_RETURN_IF_ERROR(Count("n_launched", -1));  // it never was one
    ATTUNE_TRY(
        sql::Rows rows,
        db_.Select("SELECT run_end FROM run WHERE campaign = ? AND launch = ?", campaign_, f.id));
    for (;;) {
      ATTUNE_TRY(const bool more, rows.Next());
      if (!more) break;
      const std::optional<RunEnd> end = ParseRunEnd(rows.Text(0));
      failed = failed || (end && IsFailed(*end));
    }
  }
  const GpuMillis booked = f.charged - f.overrun - f.idle;
  return Any(
      fmt::format("UPDATE campaign SET held_gpu_ms = held_gpu_ms - ?1, {0} = {0} + ?2,"
                  " overrun_gpu_ms = overrun_gpu_ms + ?3, failed_gpu_ms = failed_gpu_ms + ?4,"
                  " idle_gpu_ms = idle_gpu_ms + ?5 WHERE id = ?6",
                  BookColumn(purpose)),
      hold, booked, f.overrun, failed ? booked : GpuMillis{}, f.idle, campaign_);
}

Status Projector::operator()(const RunStarted& f) {
  ATTUNE_RETURN_IF_ERROR(One("a run",
                             "UPDATE run SET started_ms = ?, node = ?, folder = ?"
                             " WHERE campaign = ? AND id = ?",
                             at_, f.node, f.folder, campaign_, f.id));
  // The launch runs since its first run does.
  return Any(
      "UPDATE launch SET state = ?1 WHERE campaign = ?2 AND state = ?3 AND id ="
      " (SELECT launch FROM run WHERE campaign = ?2 AND id = ?4)",
      Word(LaunchState::kRunning), campaign_, Word(LaunchState::kBound), f.id);
}

Status Projector::operator()(const StepsSeen& f) {
  const std::optional<std::int64_t> last =
      f.steps.empty() ? std::nullopt : std::optional(f.steps.back().iteration);
  return One("a run",
             "UPDATE run SET steps = steps + ?, last_iteration = coalesce(?, last_iteration)"
             " WHERE campaign = ? AND id = ?",
             static_cast<std::int64_t>(f.steps.size()), last, campaign_, f.id);
}

Status Projector::operator()(const DumpSeen& f) { return KnownRun(f.id); }

Status Projector::operator()(const MemoryNoted& f) {
  return One("a run",
             "UPDATE run SET max_reserved = max(coalesce(max_reserved, 0), ?)"
             " WHERE campaign = ? AND id = ?",
             f.memory.max_reserved, campaign_, f.id);
}

Status Projector::operator()(const StopAsked& f) {
  ATTUNE_RETURN_IF_ERROR(One("a run", "UPDATE run SET stop_why = ? WHERE campaign = ? AND id = ?",
                             Word(f.why), campaign_, f.id));
  return Findings("stop", f.id.value, f.findings);
}

Status Projector::operator()(const StopSent& f) { return KnownRun(f.id); }

Status Projector::operator()(const RunEnded& f) {
  const EndDetail& d = f.detail;
  return One("a run",
             "UPDATE run SET ended_ms = ?, run_end = ?, exit_code = ?, exit_signal = ?,"
             " failure_class = ?, cause = ?, evidence = ?, evidence_at = ?, held_ms = ?,"
             " startup_ms = ? WHERE campaign = ? AND id = ?",
             at_, Word(d.end), d.exit_code, d.signal, d.failure_class, d.cause, d.evidence,
             d.evidence_at, f.held, f.startup, campaign_, f.id);
}

Status Projector::operator()(const Judged& f) {
  std::string_view was, is;
  {
    ATTUNE_TRY(sql::Rows rows,
               db_.Select("SELECT purpose, standing FROM run WHERE campaign = ? AND id = ?",
                          campaign_, f.id));
    ATTUNE_TRY(const bool found, rows.Next());
    if (found && rows.Text(0) == Word(Purpose::kCandidate)) {
      const std::optional<Standing> before = ParseStanding(rows.Text(1));
      if (before) was = CounterOf(*before);
      is = CounterOf(f.standing);
    }
  }
  ATTUNE_RETURN_IF_ERROR(Recount(was, is));
  ATTUNE_RETURN_IF_ERROR(
      One("a run",
          "UPDATE run SET validity = ?1, standing = ?2, gain = ?3, reason = ?4,"
          " leader_rank = CASE WHEN ?5 THEN"
          "   1 + (SELECT coalesce(max(leader_rank), 0) FROM run WHERE campaign = ?6"
          "        AND leader_rank IS NOT NULL)"
          "   ELSE leader_rank END"
          " WHERE campaign = ?6 AND id = ?7",
          Word(f.validity), Word(f.standing), f.gain, f.reason, f.leads, campaign_, f.id));
  if (f.measurement) {
    const Measurement& m = *f.measurement;
    const auto allocated =
        m.memory ? std::optional(m.memory->max_allocated) : std::optional<std::int64_t>();
    const auto reserved =
        m.memory ? std::optional(m.memory->max_reserved) : std::optional<std::int64_t>();
    ATTUNE_RETURN_IF_ERROR(Any(
        "INSERT OR REPLACE INTO measurement"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        campaign_, f.id, m.first_iteration, m.last_iteration, m.steps, m.short_window, m.cut_steps,
        m.seconds, m.tokens_per_s_per_slot, m.median_step_ms, m.p95_step_ms, m.mad_step_ms, m.cv,
        m.half_drift, m.drift, m.lag1, m.mfu, m.clock_ratio, m.step0_loss, allocated, reserved));
  }
  return Findings("run", f.id.value, f.findings);
}

Status Projector::operator()(const Diagnosed& f) {
  const Diagnosis& d = f.diagnosis;
  ATTUNE_RETURN_IF_ERROR(
      One("a run", "UPDATE run SET diagnosis_from = ?, diagnosis = ? WHERE campaign = ? AND id = ?",
          d.source, d.summary, campaign_, f.id));
  ATTUNE_RETURN_IF_ERROR(
      Any("DELETE FROM diagnosis WHERE campaign = ? AND run = ?", campaign_, f.id));
  for (std::size_t i = 0; i < d.bottlenecks.size(); ++i) {
    const Bottleneck& b = d.bottlenecks[i];
    ATTUNE_RETURN_IF_ERROR(Any("INSERT INTO diagnosis VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", campaign_,
                               f.id, static_cast<std::int64_t>(i), b.cls, b.share, b.metric,
                               b.threshold, b.named, b.evidence));
  }
  return {};
}

Status Projector::operator()(const FinalResult& f) {
  // Shortest decimal text that reads back as the same number.
  const std::string ratios = fmt::format("{}", fmt::join(f.block_ratios, " "));
  ATTUNE_RETURN_IF_ERROR(
      Any("UPDATE campaign SET final_leader = ?, final_passed = ?, final_baseline = ?,"
          " final_winner = ?, final_gain = ?, final_ratios = ?, final_p = ?, final_p_floor = ?,"
          " final_rehearsed = ?, final_strength = ?, final_reason = ? WHERE id = ?",
          f.leader, f.passed, f.baseline_mean, f.winner_mean, f.gain, ratios, f.p, f.p_floor,
          f.rehearsed, f.strength, f.reason, campaign_));
  if (!f.passed) {  // the leader before it leads again
    ATTUNE_RETURN_IF_ERROR(
        Any("UPDATE run SET leader_rank = NULL WHERE campaign = ?1 AND"
            " leader_rank ="
            " (SELECT max(leader_rank) FROM run WHERE campaign = ?1"
            "  AND leader_rank IS NOT NULL)",
            campaign_));
  }
  return Findings("final", f.leader.value, f.findings);
}

Status Projector::operator()(const ShipIntended&) { return {}; }

Status Projector::operator()(const Shipped& f) {
  return Any("UPDATE campaign SET shipped_bundle = ?, shipped_recipe = ? WHERE id = ?", f.bundle,
             f.recipe_path, campaign_);
}

Status Projector::operator()(const NoticeIntended&) { return {}; }
Status Projector::operator()(const Noticed&) { return {}; }
Status Projector::operator()(const UserAsked&) { return {}; }

Status Projector::operator()(const Paused& f) {
  return Any("UPDATE campaign SET paused = ? WHERE id = ?", f.why, campaign_);
}

Status Projector::operator()(const LaunchUncertain& f) {
  return One("a launch", "UPDATE launch SET detail = ? WHERE campaign = ? AND id = ?", f.why,
             campaign_, f.id);
}

Status Projector::operator()(const LaunchAbsent& f) {
  return One("a launch", "UPDATE launch SET detail = ? WHERE campaign = ? AND id = ?",
             "not found: submitted again under the same token", campaign_, f.id);
}

Status Projector::operator()(const FailureNoted& f) { return KnownRun(f.id); }

Status Projector::operator()(const LlmBudgetSet&) { return {}; }

}  // namespace attune
