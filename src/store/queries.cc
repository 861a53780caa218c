// Read-only answers. Every public call is one read transaction; `status` and `runs` read
// projections only, so that they stay fast on a store of 100,000 runs (tests/bench/store_bench.cc).
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "attune/base/text.h"
#include "attune/store/store.h"
#include "event_json.h"
#include "impl.h"

namespace attune {
namespace {

constexpr std::string_view kSelectCampaign =
    "SELECT id, name, recipe_path, recipe_hash, stack_fingerprint, opened_ms, updated_ms, last_seq,"
    " phase, phase_reason, stop, proposer, policy, run_root FROM campaign ";

Result<CampaignRow> ReadCampaign(const sql::Rows& rows) {
  const std::optional<Phase> phase = ParsePhase(rows.Text(8));
  if (!phase) {
    return Fail(ErrorCode::kCorrupt, fmt::format("campaign {}: unknown phase \"{}\"", rows.Text(0),
                                                 EscapeForDisplay(rows.Text(8), 40)));
  }
  return CampaignRow{.id = CampaignId(rows.Text(0)),
                     .name = rows.Text(1),
                     .recipe_path = rows.Text(2),
                     .recipe_hash = rows.Text(3),
                     .stack_fingerprint = rows.Text(4),
                     .opened_at = {rows.Int(5)},
                     .updated_at = {rows.Int(6)},
                     .last_seq = rows.Int(7),
                     .phase = *phase,
                     .phase_reason = rows.Text(9),
                     .stop = rows.Text(10),
                     .proposer = rows.Text(11),
                     .policy = rows.Text(12),
                     .run_root = rows.Text(13)};
}

constexpr std::string_view kSelectRun =
    "SELECT r.id, r.label, r.launch, r.purpose, r.proposal, coalesce(p.lever, ''),"
    " coalesce(p.change, ''), r.form, l.state, l.intended_ms, r.started_ms, r.ended_ms, r.node,"
    " r.folder, r.steps, r.last_iteration, r.run_end, r.exit_code, r.exit_signal, r.failure_class,"
    " r.cause, r.evidence, r.evidence_at, r.stop_why, r.held_ms, r.startup_ms, r.standing,"
    " r.validity, r.reason, r.gain, m.score, m.mfu, m.median_step_ms, m.cv,"
    " coalesce(m.max_reserved, r.max_reserved), r.leader_rank IS NOT NULL, l.charged_gpu_ms,"
    " l.hold_gpu_ms"
    " FROM run r JOIN launch l ON l.campaign = r.campaign AND l.id = r.launch"
    " LEFT JOIN proposal p ON p.campaign = r.campaign AND p.id = r.proposal"
    " LEFT JOIN measurement m ON m.campaign = r.campaign AND m.run = r.id"
    " WHERE r.campaign = ?1 ";

std::optional<Instant> MaybeInstant(const sql::Rows& rows, int column) {
  const std::optional<std::int64_t> ms = rows.MaybeInt(column);
  return ms ? std::optional<Instant>(Instant{*ms}) : std::nullopt;
}

std::optional<LaunchState> ParseLaunchState(std::string_view word) {
  for (int i = 0; i <= static_cast<int>(LaunchState::kVoid); ++i) {
    if (Word(static_cast<LaunchState>(i)) == word) return static_cast<LaunchState>(i);
  }
  return std::nullopt;
}

Result<RunRow> ReadRun(const sql::Rows& rows) {
  RunRow run;
  run.id = RunId(rows.Text(0));
  const auto unknown = [&](const char* what, const std::string& word) {
    return Fail(ErrorCode::kCorrupt, fmt::format("run {}: unknown {} \"{}\"", run.id.value, what,
                                                 EscapeForDisplay(word, 40)));
  };
  run.label = rows.Text(1);
  run.launch = LaunchId(rows.Text(2));
  const std::optional<Purpose> purpose = ParsePurpose(rows.Text(3));
  if (!purpose) return unknown("purpose", rows.Text(3));
  run.purpose = *purpose;
  run.proposal = ProposalId(rows.Text(4));
  run.lever = rows.Text(5);
  run.change = rows.Text(6);
  run.form = rows.Text(7);
  const std::optional<LaunchState> state = ParseLaunchState(rows.Text(8));
  if (!state) return unknown("launch state", rows.Text(8));
  run.launch_state = *state;
  run.intended_at = {rows.Int(9)};
  run.started_at = MaybeInstant(rows, 10);
  run.ended_at = MaybeInstant(rows, 11);
  run.node = rows.Text(12);
  run.folder = rows.Text(13);
  run.steps = rows.Int(14);
  run.last_iteration = rows.MaybeInt(15);
  if (!rows.Null(16)) {
    run.end = ParseRunEnd(rows.Text(16));
    if (!run.end) return unknown("end", rows.Text(16));
  }
  if (!rows.Null(17)) run.exit_code = rows.Small(17);
  if (!rows.Null(18)) run.signal = rows.Small(18);
  run.failure_class = rows.Text(19);
  run.cause = rows.Text(20);
  run.evidence = rows.Text(21);
  run.evidence_at = rows.Text(22);
  run.stop_why = rows.Text(23);
  run.held = Millis{rows.Int(24)};
  run.startup = Millis{rows.Int(25)};
  if (!rows.Null(26)) {
    run.standing = ParseStanding(rows.Text(26));
    if (!run.standing) return unknown("standing", rows.Text(26));
  }
  run.validity = rows.Text(27);
  run.reason = rows.Text(28);
  run.gain = rows.MaybeReal(29);
  run.score = rows.MaybeReal(30);
  run.mfu = rows.MaybeReal(31);
  run.step_ms = rows.MaybeReal(32);
  run.cv = rows.MaybeReal(33);
  run.max_reserved = rows.MaybeInt(34);
  run.leads = rows.Bool(35);
  run.charged = {rows.Int(36)};
  run.hold = {rows.Int(37)};
  return run;
}

// All rows of one query through `read`.
template <class T>
Result<std::vector<T>> All(sql::Rows rows, Result<T> (*read)(const sql::Rows&)) {
  std::vector<T> all;
  for (;;) {
    ATTUNE_TRY(const bool more, rows.Next());
    if (!more) return all;
    ATTUNE_TRY(T row, read(rows));
    all.push_back(std::move(row));
  }
}

Result<ProposalRow> ReadProposal(const sql::Rows& rows) {
  return ProposalRow{.id = ProposalId(rows.Text(0)),
                     .seq = rows.Int(1),
                     .at = {rows.Int(2)},
                     .admitted = rows.Bool(3),
                     .source = rows.Text(4),
                     .llm_call = rows.Text(5),
                     .lever = rows.Text(6),
                     .label = rows.Text(7),
                     .hypothesis = rows.Text(8),
                     .change = rows.Text(9),
                     .reason = rows.Text(10),
                     .detail = rows.Text(11),
                     .rule = rows.Text(12),
                     .run = RunId(rows.Text(13))};
}

constexpr std::string_view kSelectProposal =
    "SELECT id, seq, at_ms, admitted, source, llm_call, lever, label, hypothesis, change, reason,"
    " detail, rule, run FROM proposal WHERE campaign = ?1 ";

// Words of the ends that count as failed, as a list for IN.
const std::string& FailedEnds() {
  static const std::string list = [] {
    std::vector<std::string> words;
    for (int i = 0; i <= static_cast<int>(RunEnd::kLost); ++i) {
      const auto end = static_cast<RunEnd>(i);
      if (IsFailed(end)) words.push_back(fmt::format("'{}'", Word(end)));
    }
    return Join(words, ", ");
  }();
  return list;
}

// A prefix as a half-open range of the index: no LIKE, whose wildcards would have to be escaped.
std::string AfterPrefix(const std::string& prefix) { return prefix + "\xF4\x8F\xBF\xBF"; }

// Apply (campaign.h) aborts on an event that names what was never there, because that is a bug. In
// a file it is damage, and is found here.
class Plausible {
 public:
  Status Check(const Fact& fact) {
    return std::visit([this](const auto& f) { return Look(f); }, fact);
  }

 private:
  template <class F>
  Status Look(const F& f) {
    if constexpr (std::is_same_v<F, LaunchIntended>) {
      if (!launches_.emplace(f.id, LaunchState::kIntended).second) return Odd("launch", f.id.value);
      for (const RunPlan& run : f.runs) {
        if (!runs_.emplace(run.id, f.id).second) return Odd("run", run.id.value);
      }
      return {};
    } else if constexpr (std::is_same_v<F, LaunchBound>) {
      return Move(f.id, LaunchNews::kTaken);
    } else if constexpr (std::is_same_v<F, LaunchEnded>) {
      return Move(f.id, f.reached ? LaunchNews::kReleased : LaunchNews::kNeverReached);
    } else if constexpr (std::is_same_v<F, LaunchUncertain> || std::is_same_v<F, LaunchAbsent>) {
      return launches_.contains(f.id) ? Status() : Odd("launch", f.id.value);
    } else if constexpr (std::is_same_v<F, Calibrated>) {
      for (const RunId& run : f.calibration.runs) {
        if (!runs_.contains(run)) return Odd("run", run.value);
      }
      return f.reused.empty() || offered_ == f.reused ? Status()
                                                      : Odd("calibration of", f.reused.value);
    } else if constexpr (std::is_same_v<F, Opened>) {
      if (f.earlier) offered_ = f.earlier->campaign;
      return {};
    } else if constexpr (std::is_same_v<F, RunStarted>) {
      const auto run = runs_.find(f.id);
      if (run == runs_.end()) return Odd("run", f.id.value);
      LaunchState& state = launches_[run->second];
      if (state == LaunchState::kBound) state = LaunchState::kRunning;
      return {};
    } else if constexpr (std::is_same_v<F, StepsSeen> || std::is_same_v<F, DumpSeen> ||
                         std::is_same_v<F, MemoryNoted> || std::is_same_v<F, StopAsked> ||
                         std::is_same_v<F, StopSent> || std::is_same_v<F, RunEnded> ||
                         std::is_same_v<F, Judged> || std::is_same_v<F, Diagnosed> ||
                         std::is_same_v<F, FailureNoted>) {
      return runs_.contains(f.id) ? Status() : Odd("run", f.id.value);
    } else if constexpr (std::is_same_v<F, AskIntended>) {
      if (!std::exchange(open_call_, f.call).empty()) return Odd("model request", f.call);
      return {};
    } else if constexpr (std::is_same_v<F, Answered>) {
      if (std::exchange(open_call_, "") != f.call) return Odd("answer", f.call);
      return {};
    } else {
      return {};
    }
  }
  Status Move(const LaunchId& id, LaunchNews news) {
    const auto launch = launches_.find(id);
    if (launch == launches_.end()) return Odd("launch", id.value);
    const std::optional<LaunchState> to = Next(launch->second, news);
    if (!to) return Odd("launch", id.value);
    launch->second = *to;
    return {};
  }
  static Status Odd(const char* what, const std::string& id) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{} {} does not fit the events before", what,
                                                 EscapeForDisplay(id, 40)));
  }

  std::map<LaunchId, LaunchState> launches_;
  std::map<RunId, LaunchId> runs_;
  std::string open_call_;
  CampaignId offered_;  // whose calibration the opening offers
};

}  // namespace

Result<std::vector<CampaignRow>> Store::Campaigns() {
  ATTUNE_TRY(sql::Rows rows, impl_->database.connection().Select(fmt::format(
                                 "{}ORDER BY opened_ms DESC, id DESC", kSelectCampaign)));
  return All<CampaignRow>(std::move(rows), ReadCampaign);
}

Result<CampaignRow> Store::FindCampaign(const std::string& id_or_prefix) {
  sql::Connection& db = impl_->database.connection();
  std::vector<CampaignRow> found;
  if (id_or_prefix == "latest") {
    ATTUNE_TRY(sql::Rows rows, db.Select(fmt::format("{}ORDER BY opened_ms DESC, id DESC LIMIT 1",
                                                     kSelectCampaign)));
    ATTUNE_TRY(found, All<CampaignRow>(std::move(rows), ReadCampaign));
    if (found.empty()) return Fail(ErrorCode::kNotFound, "there are no campaigns yet");
    return std::move(found.front());
  }
  ATTUNE_TRY(sql::Rows rows, db.Select(fmt::format("{}WHERE id >= ? AND id < ? ORDER BY id LIMIT 3",
                                                   kSelectCampaign),
                                       id_or_prefix, AfterPrefix(id_or_prefix)));
  ATTUNE_TRY(found, All<CampaignRow>(std::move(rows), ReadCampaign));
  const std::string shown = EscapeForDisplay(id_or_prefix, 80);
  if (found.empty() || id_or_prefix.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no campaign {}", shown),
                "attune status --all lists them");
  }
  if (found.size() == 1 || found.front().id.value == id_or_prefix) return std::move(found.front());
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("{} fits several campaigns: {}, {}{}", shown, found[0].id.value,
                          found[1].id.value, found.size() > 2 ? " ..." : ""),
              "give more of the id");
}

Result<std::optional<CampaignRow>> Store::NewestOf(const std::string& recipe_hash) {
  ATTUNE_TRY(sql::Rows rows,
             impl_->database.connection().Select(
                 fmt::format("{}WHERE recipe_hash = ? ORDER BY opened_ms DESC, id DESC LIMIT 1",
                             kSelectCampaign),
                 recipe_hash));
  ATTUNE_TRY(std::vector<CampaignRow> found, All<CampaignRow>(std::move(rows), ReadCampaign));
  if (found.empty()) return std::optional<CampaignRow>();
  return std::optional<CampaignRow>(std::move(found.front()));
}

Result<std::optional<CampaignRow>> Store::NewestOfPath(const std::string& recipe_path) {
  ATTUNE_TRY(sql::Rows rows,
             impl_->database.connection().Select(
                 fmt::format("{}WHERE recipe_path = ? ORDER BY opened_ms DESC, id DESC LIMIT 1",
                             kSelectCampaign),
                 recipe_path));
  ATTUNE_TRY(std::vector<CampaignRow> found, All<CampaignRow>(std::move(rows), ReadCampaign));
  if (found.empty()) return std::optional<CampaignRow>();
  return std::optional<CampaignRow>(std::move(found.front()));
}

Result<std::vector<Event>> Store::Load(const CampaignId& campaign, std::int64_t after_seq) {
  ATTUNE_TRY(sql::Rows rows,
             impl_->database.connection().Select("SELECT seq, at_ms, kind, body FROM event"
                                                 " WHERE campaign = ? AND seq > ? ORDER BY seq",
                                                 campaign, after_seq));
  std::vector<Event> events;
  Plausible plausible;
  for (;;) {
    ATTUNE_TRY(const bool more, rows.Next());
    if (!more) break;
    const std::int64_t seq = rows.Int(0);
    const auto at = [&] { return fmt::format("campaign {} event {}", campaign.value, seq); };
    const std::int64_t expected = events.empty() ? after_seq + 1 : events.back().seq + 1;
    if (seq != expected) {
      return Fail(ErrorCode::kCorrupt, fmt::format("{}: event {} is missing", at(), expected));
    }
    Result<Fact> fact = DecodeFact(rows.Text(2), rows.Text(3));
    if (!fact) return Fail(at(), fact.error());
    if (after_seq == 0) {
      if ((seq == 1) != std::holds_alternative<Opened>(*fact)) {
        return Fail(ErrorCode::kCorrupt, at() + ": a campaign is opened by its first event");
      }
      if (Status ok = plausible.Check(*fact); !ok) return Fail(at(), ok.error());
    }
    events.push_back(Event{.seq = seq, .at = {rows.Int(1)}, .fact = *std::move(fact)});
  }
  if (events.empty() && after_seq == 0) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no campaign {}", campaign.value));
  }
  return events;
}

namespace {

Status ReadMoney(sql::Connection& db, const CampaignId& campaign, CampaignSummary& s) {
  ATTUNE_TRY(sql::Rows rows,
             db.Select("SELECT budget_gpu_ms, held_gpu_ms, calibration_gpu_ms, search_gpu_ms,"
                       " final_gpu_ms, idle_gpu_ms, overrun_gpu_ms, failed_gpu_ms, paused,"
                       " shipped_bundle, shipped_recipe, final_leader, final_passed,"
                       " final_baseline, final_winner, final_gain, final_ratios, final_p,"
                       " final_p_floor, final_rehearsed, final_strength, final_reason"
                       " FROM campaign WHERE id = ?",
                       campaign));
  ATTUNE_TRY(const bool found, rows.Next());
  if (!found) return Fail(ErrorCode::kNotFound, "there is no campaign " + campaign.value);
  if (!rows.Null(0)) s.budget = GpuMillis{rows.Int(0)};
  s.ledger = Ledger{.calibration = {rows.Int(2)},
                    .search = {rows.Int(3)},
                    .final = {rows.Int(4)},
                    .idle = {rows.Int(5)},
                    .overrun = {rows.Int(6)},
                    .failed = {rows.Int(7)},
                    .held = {rows.Int(1)}};
  s.paused = rows.Text(8);
  s.shipped_bundle = rows.Text(9);
  s.shipped_recipe = rows.Text(10);
  if (rows.Null(12)) return {};
  FinalRow final_row{.leader = RunId(rows.Text(11)),
                     .passed = rows.Bool(12),
                     .rehearsed = rows.Bool(19),
                     .baseline = rows.Real(13),
                     .winner = rows.Real(14),
                     .gain = rows.Real(15),
                     .p = rows.Real(17),
                     .p_floor = rows.Real(18),
                     .block_ratios = {},
                     .strength = rows.Text(20),
                     .reason = rows.Text(21)};
  const std::string ratios = rows.Text(16);
  for (const std::string_view part : Split(ratios, ' ')) {
    if (const std::optional<double> ratio = ParseDouble(part)) {
      final_row.block_ratios.push_back(*ratio);
    }
  }
  s.final_result = std::move(final_row);
  return {};
}

Status ReadCounts(sql::Connection& db, const CampaignId& campaign, CampaignSummary& s) {
  ATTUNE_TRY(sql::Rows rows,
             db.Select("SELECT n_launched, n_win, n_tie, n_loss, n_failed, n_stopped_early,"
                       " n_rejected, n_refused, n_turned_back, n_duplicate, n_runs, n_llm_calls"
                       " FROM campaign WHERE id = ?",
                       campaign));
  ATTUNE_TRY(const bool found, rows.Next());
  if (!found) return Fail(ErrorCode::kNotFound, "there is no campaign " + campaign.value);
  s.counts = Counts{.launched = rows.Small(0),
                    .win = rows.Small(1),
                    .tie = rows.Small(2),
                    .loss = rows.Small(3),
                    .failed = rows.Small(4),
                    .stopped_early = rows.Small(5),
                    .rejected = rows.Small(6),
                    .refused = rows.Small(7),
                    .turned_back = rows.Small(8),
                    .duplicate = rows.Small(9)};
  s.runs = rows.Int(10);
  s.llm_calls = rows.Int(11);
  return {};
}

Status ReadScores(sql::Connection& db, const CampaignId& campaign, CampaignSummary& s) {
  ATTUNE_TRY(
      sql::Rows calibration,
      db.Select("SELECT mean, sigma, band, runs FROM calibration WHERE campaign = ?", campaign));
  ATTUNE_TRY(const bool calibrated, calibration.Next());
  if (calibrated) {
    s.baseline_mean = calibration.Real(0);
    s.sigma = calibration.Real(1);
    s.band = calibration.Real(2);
    s.calibration_runs = calibration.Small(3);
  }
  ATTUNE_TRY(sql::Rows leader,
             db.Select("SELECT r.id, r.label, m.score FROM run r LEFT JOIN measurement m"
                       " ON m.campaign = r.campaign AND m.run = r.id"
                       " WHERE r.campaign = ? AND r.leader_rank IS NOT NULL"
                       " ORDER BY r.leader_rank DESC LIMIT 1",
                       campaign));
  ATTUNE_TRY(const bool led, leader.Next());
  if (!led) {
    s.leader = LeaderRow{.run = {}, .label = "baseline", .score = s.baseline_mean, .gain = {}};
    return {};
  }
  s.leader = LeaderRow{.run = RunId(leader.Text(0)),
                       .label = leader.Text(1),
                       .score = leader.MaybeReal(2),
                       .gain = {}};
  if (s.leader.score && s.baseline_mean && *s.baseline_mean > 0) {
    s.leader.gain = *s.leader.score / *s.baseline_mean - 1;
  }
  return {};
}

}  // namespace

Result<CampaignSummary> Store::Summary(const CampaignId& campaign, int recent) {
  sql::Connection& db = impl_->database.connection();
  CampaignSummary s;
  const auto read = [&]() -> Status {
    ATTUNE_TRY(sql::Rows row, db.Select(fmt::format("{}WHERE id = ?", kSelectCampaign), campaign));
    ATTUNE_TRY(const bool found, row.Next());
    if (!found) return Fail(ErrorCode::kNotFound, "there is no campaign " + campaign.value);
    ATTUNE_TRY(s.campaign, ReadCampaign(row));
    ATTUNE_RETURN_IF_ERROR(ReadMoney(db, campaign, s));
    ATTUNE_RETURN_IF_ERROR(ReadCounts(db, campaign, s));
    ATTUNE_RETURN_IF_ERROR(ReadScores(db, campaign, s));
    // The partial index of open launches answers this without a look at the others; the plus signs
    // keep SQLite from walking all runs in order instead.
    ATTUNE_TRY(sql::Rows open,
               db.Select(fmt::format("{}AND r.launch IN (SELECT id FROM launch WHERE campaign = ?1"
                                     " AND ended_ms IS NULL) ORDER BY +r.seq, +r.position",
                                     kSelectRun),
                         campaign));
    ATTUNE_TRY(s.open_runs, All<RunRow>(std::move(open), ReadRun));
    ATTUNE_TRY(sql::Rows last, db.Select(fmt::format("{}AND l.ended_ms IS NOT NULL"
                                                     " ORDER BY r.seq DESC, r.position DESC"
                                                     " LIMIT ?2",
                                                     kSelectRun),
                                         campaign, recent));
    ATTUNE_TRY(s.recent_runs, All<RunRow>(std::move(last), ReadRun));
    std::reverse(s.recent_runs.begin(), s.recent_runs.end());
    ATTUNE_TRY(s.lease, Lease(campaign));
    ATTUNE_TRY(const std::vector<Wish> wishes, Wishes(campaign));
    for (const Wish& wish : wishes) s.pending_wishes.push_back(wish.what);
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(impl_->database.Snapshot(read));
  return s;
}

Result<std::vector<RunRow>> Store::Runs(const CampaignId& campaign, const RunFilter& filter) {
  const std::string which =
      filter.failed_only ? fmt::format("AND r.run_end IN ({}) ", FailedEnds()) : std::string();
  const std::string order = "ORDER BY r.seq DESC, r.position DESC LIMIT ?2";
  const std::int64_t limit = filter.newest > 0 ? filter.newest : -1;
  ATTUNE_TRY(sql::Rows rows, impl_->database.connection().Select(
                                 fmt::format("{}{}{}", kSelectRun, which, order), campaign, limit));
  ATTUNE_TRY(std::vector<RunRow> runs, All<RunRow>(std::move(rows), ReadRun));
  std::reverse(runs.begin(), runs.end());
  return runs;
}

Result<RunRow> Store::FindRun(const CampaignId& campaign, const std::string& id_or_label) {
  sql::Connection& db = impl_->database.connection();
  const std::string shown = EscapeForDisplay(id_or_label, 80);
  const auto ambiguous = [&](const std::vector<RunRow>& found) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} fits several runs: {}, {}{}", shown, found[0].id.value,
                            found[1].id.value, found.size() > 2 ? " ..." : ""),
                "give the run's id");
  };
  if (id_or_label.empty()) return Fail(ErrorCode::kInvalidInput, "an empty run id");
  ATTUNE_TRY(
      sql::Rows ids,
      db.Select(fmt::format("{}AND r.id >= ?2 AND r.id < ?3 ORDER BY r.id LIMIT 3", kSelectRun),
                campaign, id_or_label, AfterPrefix(id_or_label)));
  ATTUNE_TRY(std::vector<RunRow> by_id, All<RunRow>(std::move(ids), ReadRun));
  if (!by_id.empty() && (by_id.size() == 1 || by_id[0].id.value == id_or_label)) {
    return std::move(by_id[0]);
  }
  ATTUNE_TRY(sql::Rows labels,
             db.Select(fmt::format("{}AND r.label = ?2 ORDER BY r.seq LIMIT 3", kSelectRun),
                       campaign, id_or_label));
  ATTUNE_TRY(std::vector<RunRow> by_label, All<RunRow>(std::move(labels), ReadRun));
  if (by_label.size() == 1) return std::move(by_label[0]);
  if (by_label.size() > 1) return ambiguous(by_label);
  if (by_id.size() > 1) return ambiguous(by_id);
  return Fail(ErrorCode::kNotFound, fmt::format("campaign {} has no run {}", campaign.value, shown),
              "attune runs lists them");
}

Result<std::string> Store::LineOf(const CampaignId& campaign, const Event& event) {
  return EventLine(campaign, event);
}

Result<std::optional<Diagnosis>> Store::DiagnosisOf(const CampaignId& campaign, const RunId& run) {
  ATTUNE_TRY(sql::Rows rows, impl_->database.connection().Select(
                                 "SELECT body FROM event WHERE campaign = ? AND kind = 'diagnosed'"
                                 " AND json_extract(body, '$.run') = ? ORDER BY seq DESC LIMIT 1",
                                 campaign, run));
  ATTUNE_TRY(const bool any, rows.Next());
  if (!any) return std::optional<Diagnosis>();
  ATTUNE_TRY(Fact fact, DecodeFact("diagnosed", rows.Text(0)));
  return std::optional<Diagnosis>(std::get<Diagnosed>(std::move(fact)).diagnosis);
}

Result<std::vector<ProposalRow>> Store::Proposals(const CampaignId& campaign) {
  ATTUNE_TRY(sql::Rows rows, impl_->database.connection().Select(
                                 fmt::format("{}ORDER BY seq", kSelectProposal), campaign));
  return All<ProposalRow>(std::move(rows), ReadProposal);
}

Result<ProposalRow> Store::FindProposal(const CampaignId& campaign,
                                        const std::string& id_or_prefix) {
  ATTUNE_TRY(sql::Rows rows,
             impl_->database.connection().Select(
                 fmt::format("{}AND id >= ?2 AND id < ?3 ORDER BY id LIMIT 3", kSelectProposal),
                 campaign, id_or_prefix, AfterPrefix(id_or_prefix)));
  ATTUNE_TRY(std::vector<ProposalRow> found, All<ProposalRow>(std::move(rows), ReadProposal));
  const std::string shown = EscapeForDisplay(id_or_prefix, 80);
  if (found.empty() || id_or_prefix.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("campaign {} has no proposal {}", campaign.value, shown));
  }
  if (found.size() == 1 || found[0].id.value == id_or_prefix) return std::move(found[0]);
  return Fail(
      ErrorCode::kInvalidInput,
      fmt::format("{} fits several proposals: {}, {}", shown, found[0].id.value, found[1].id.value),
      "give more of the id");
}

Result<std::vector<Wish>> Store::Wishes(const CampaignId& campaign) {
  ATTUNE_TRY(sql::Rows rows,
             impl_->database.connection().Select("SELECT id, at_ms, what, asked_by FROM wish"
                                                 " WHERE campaign = ? AND seq IS NULL ORDER BY id",
                                                 campaign));
  std::vector<Wish> wishes;
  for (;;) {
    ATTUNE_TRY(const bool more, rows.Next());
    if (!more) return wishes;
    wishes.push_back(
        Wish{.id = rows.Int(0), .at = {rows.Int(1)}, .what = rows.Text(2), .by = rows.Text(3)});
  }
}

}  // namespace attune
