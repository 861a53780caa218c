#include "effects.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/logs/diagnose_log.h"
#include "config_gate.h"
#include "pace.h"

namespace attune {
namespace {

// The lease is beaten and wishes are read at least this often while a job runs.
constexpr Millis kSlice{2'000};

bool RunsStopAsked(StopWhy why) {
  // A run that we end because of its own fatal line or silence is judged by its own failure.
  return why != StopWhy::kFatalLine && why != StopWhy::kHang && why != StopWhy::kLimit;
}

LaunchSpec SpecOf(const CampaignState& state, const LaunchIntended& intent, const Env& passed) {
  const Recipe& recipe = state.recipe;
  LaunchSpec spec;
  spec.token = intent.token;
  spec.slots = intent.slots;
  spec.limit = intent.limit;
  spec.exclude = intent.exclude;
  for (const RunPlan& plan : intent.runs) {
    Env env = recipe.launcher.env;
    for (const auto& [name, value] : passed) env[name] = value;
    for (const auto& [name, value] : plan.executed.env) env[name] = value;
    Stage stage;
    stage.run = plan.id;
    stage.argv = plan.argv;
    stage.env = std::move(env);
    stage.workdir = recipe.launcher.workdir.empty() ? recipe.folder : recipe.launcher.workdir;
    const bool trains = intent.purpose != Purpose::kComponentTest;
    if (trains && recipe.ranks == RanksKind::kEnv) stage.ranks = recipe.workload.gpus_per_node;
    spec.stages.push_back(std::move(stage));
  }
  return spec;
}

}  // namespace

Result<std::vector<Fact>> Effects::Perform(const Action& action, const CampaignState& state) {
  return std::visit(
      [&](const auto& a) -> Facts {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, Record>) {
          ATTUNE_CHECK(!a.facts.empty(), "Record without facts would spin");
          return a.facts;
        } else if constexpr (std::is_same_v<T, Ask>) {
          return DoAsk(state);
        } else if constexpr (std::is_same_v<T, Submit>) {
          return DoSubmit(state, a.launch);
        } else if constexpr (std::is_same_v<T, Locate>) {
          return DoLocate(state, a.launch);
        } else if constexpr (std::is_same_v<T, Cancel>) {
          return DoCancel(state, a);
        } else if constexpr (std::is_same_v<T, Collect>) {
          return DoCollect(state, a.run);
        } else if constexpr (std::is_same_v<T, Ship>) {
          return DoShip(state);
        } else if constexpr (std::is_same_v<T, Notify>) {
          if (parts_.notify) ATTUNE_RETURN_IF_ERROR(parts_.notify(state, a.what));
          return std::vector<Fact>{Noticed{a.what}};
        } else if constexpr (std::is_same_v<T, Wait>) {
          return DoWait(state, a);
        } else {
          ATTUNE_CHECK(false, "Done is not an effect");
        }
      },
      action);
}

Result<std::vector<Fact>> Effects::DoAsk(const CampaignState& state) {
  ATTUNE_TRY(ProposerReply reply, parts_.proposer.Propose(state, MakeVet(state)));
  const std::string source = parts_.proposer.Name();
  const ProposalId id{fmt::format("p{:03}", state.next_proposal)};
  std::vector<Fact> facts;
  if (auto* stop = std::get_if<StopWish>(&reply)) {
    facts.emplace_back(StopWished{std::move(*stop), source});
    return facts;
  }
  if (auto* bad = std::get_if<BadReply>(&reply)) {
    TurnedBack back{.id = id,
                    .proposal = {},
                    .source = source,
                    .llm_call = {},
                    .reason = "schema",
                    .verdict = {},
                    .detail = bad->error};
    if (!bad->excerpt.empty()) back.detail += ": " + bad->excerpt;
    facts.emplace_back(std::move(back));
    return facts;
  }
  facts.push_back(JudgeProposal(state, id, std::get<Proposal>(std::move(reply)), source));
  return facts;
}

Result<std::vector<Fact>> Effects::DoSubmit(const CampaignState& state, const LaunchId& id) {
  const LaunchIntended& intent = state.launches.at(id).intent;
  if (parts_.check_inputs) {
    if (Status inputs = parts_.check_inputs(state); !inputs) {
      return std::vector<Fact>{LaunchEnded{.id = id,
                                           .reached = false,
                                           .charged = {},
                                           .overrun = {},
                                           .source = ChargeSource::kNeverStarted,
                                           .nodes = {},
                                           .detail = inputs.error().message},
                               Paused{inputs.error().message, 75}};
    }
  }
  ATTUNE_TRY(Submitted submitted, parts_.launcher.Submit(SpecOf(state, intent, parts_.passed_env)));
  std::vector<Fact> facts;
  if (auto* bound = std::get_if<Bound>(&submitted)) {
    facts.emplace_back(LaunchBound{id, std::move(bound->handle)});
  } else if (auto* refused = std::get_if<SubmitRefused>(&submitted)) {
    facts.emplace_back(LaunchEnded{.id = id,
                                   .reached = false,
                                   .charged = {},
                                   .overrun = {},
                                   .source = ChargeSource::kNeverStarted,
                                   .nodes = {},
                                   .detail = std::move(refused->why)});
  } else {
    facts.emplace_back(LaunchUncertain{id, std::get<SubmitUnknown>(submitted).why});
  }
  return facts;
}

Result<std::vector<Fact>> Effects::DoLocate(const CampaignState& state, const LaunchId& id) {
  ATTUNE_TRY(std::optional<LaunchHandle> found,
             parts_.launcher.Find(state.launches.at(id).intent.token));
  std::vector<Fact> facts;
  if (found) {
    facts.emplace_back(LaunchBound{id, std::move(*found)});
  } else {
    facts.emplace_back(LaunchAbsent{id});
  }
  return facts;
}

Result<std::vector<Fact>> Effects::DoCancel(const CampaignState& state, const Cancel& cancel) {
  const LaunchRecord& launch = state.launches.at(cancel.launch);
  ATTUNE_CHECK(launch.handle.has_value(), "a cancel needs a launch that is bound");
  ATTUNE_RETURN_IF_ERROR(parts_.launcher.Cancel(*launch.handle, cancel.run));
  std::vector<Fact> facts;
  for (const RunPlan& plan : launch.intent.runs) {
    const RunRecord* run = state.FindRun(plan.id);
    if (cancel.run && plan.id != *cancel.run) continue;
    if (run->stop && !run->stop_sent) facts.emplace_back(StopSent{plan.id});
  }
  ATTUNE_CHECK(!facts.empty(), "a cancel that nobody asked for");
  return facts;
}

Result<std::vector<Fact>> Effects::DoCollect(const CampaignState& state, const RunId& id) {
  const RunRecord& run = state.runs.at(id);
  LogEvidence evidence;
  evidence.steps = run.steps;
  if (run.memory.max_reserved > 0) evidence.memory = run.memory;
  evidence.device_bytes = DeviceMemory(state.recipe).value_or(0);
  evidence.warmup_steps = state.recipe.measure.warmup_steps;
  if (run.end) {
    evidence.failure_class = run.end->detail.failure_class;
    evidence.failure_evidence = run.end->detail.evidence;
  }
  return std::vector<Fact>{Diagnosed{id, DiagnoseLog(evidence)}};
}

Result<std::vector<Fact>> Effects::DoShip(const CampaignState& state) {
  ATTUNE_TRY(Shipped shipped, parts_.ship(state));
  return std::vector<Fact>{std::move(shipped)};
}

Effects::Reader& Effects::ReaderOf(const RunRecord& run) {
  const auto [it, fresh] = readers_.try_emplace(run.plan.id);
  if (fresh) it->second.to_skip = run.steps.size();
  return it->second;
}

Result<LogNews> Effects::ReadLog(const CampaignState& state, Reader& reader,
                                 const StageObservation& seen) {
  for (const LogChunk& chunk : seen.log) {
    std::unique_ptr<LogParser>& parser = reader.parsers[chunk.rank];
    if (!parser) {
      ATTUNE_TRY(parser, MakeLogParser(state.recipe.log));
    }
    parser->Feed(chunk.bytes, chunk.arrival_ms);
    if (chunk.rank == 0) reader.tail.Feed(chunk.bytes);
  }
  const bool finish = seen.ended && !reader.finished;
  reader.finished = reader.finished || seen.ended;
  LogNews all;
  for (auto& [rank, parser] : reader.parsers) {
    if (finish) parser->Finish();
    LogNews news = parser->Take();
    if (!news.steps.empty() && !reader.step_rank) reader.step_rank = rank;
    if (reader.step_rank == rank) all.steps = std::move(news.steps);
    if (!all.argument_block) all.argument_block = std::move(news.argument_block);
    if (news.memory) {
      if (!all.memory) all.memory = MemorySeen{};
      all.memory->max_allocated = std::max(all.memory->max_allocated, news.memory->max_allocated);
      all.memory->max_reserved = std::max(all.memory->max_reserved, news.memory->max_reserved);
    }
    if (!all.failure) all.failure = std::move(news.failure);
  }
  return all;
}

Status Effects::ReadStage(const CampaignState& state, const RunRecord& run,
                          const StageObservation& seen, const Observation& launch,
                          std::vector<Fact>& facts) {
  const RunId& id = run.plan.id;
  if (run.end) return {};
  if (seen.started && !run.started) {
    facts.emplace_back(RunStarted{id, seen.node, seen.folder});
  }
  Reader& reader = ReaderOf(run);
  ATTUNE_TRY(LogNews news, ReadLog(state, reader, seen));
  const std::size_t known = std::min(reader.to_skip, news.steps.size());
  reader.to_skip -= known;
  news.steps.erase(news.steps.begin(), news.steps.begin() + static_cast<std::ptrdiff_t>(known));
  if (news.argument_block && run.block.empty()) {
    facts.emplace_back(DumpSeen{id, std::move(*news.argument_block)});
  }
  if (news.memory && (news.memory->max_reserved > run.memory.max_reserved ||
                      news.memory->max_allocated > run.memory.max_allocated)) {
    facts.emplace_back(MemoryNoted{id, *news.memory});
  }
  const std::size_t steps_seen = run.steps.size() + news.steps.size();
  const std::int64_t first_step_ms =
      !run.steps.empty() ? run.steps.front().arrival_ms
                         : (news.steps.empty() ? -1 : news.steps.front().arrival_ms);
  if (!news.steps.empty()) facts.emplace_back(StepsSeen{id, std::move(news.steps)});
  std::optional<FailureSign> failure = std::move(news.failure);
  // A sign with an empty class takes the last one back: the run lived on.
  if (failure && (run.failure || !failure->cls.empty()) &&
      (!run.failure || run.failure->line != failure->line || run.failure->cls != failure->cls ||
       run.failure->fatal != failure->fatal)) {
    facts.emplace_back(FailureNoted{id, failure->cls, failure->line, failure->detail,
                                    failure->line_number, failure->fatal});
  }
  const bool over = seen.ended || launch.state == Observation::State::kEnded;
  if (!over) return {};

  if (!failure && run.failure) {
    failure = FailureSign{run.failure->cls, run.failure->line, run.failure->line_number,
                          run.failure->detail, run.failure->fatal};
  }
  EndEvidence evidence{
      .failure = failure,
      .exit_code = seen.exit_code,
      .signal = seen.signal,
      .scheduler = launch.end_hint,
      .asked = run.stop && RunsStopAsked(run.stop->why),
      .limit_hit = seen.limit_hit,
      .hang_judged = run.stop && run.stop->why == StopWhy::kHang,
      .steps_seen = static_cast<int>(steps_seen),
      .steps_wanted = std::min(run.plan.steps_wanted, PlanWindow(state).expected()),
      .progressing = steps_seen > run.steps.size() || StillProgressing(run, parts_.clock.Now()),
      .log_name = seen.folder.empty() ? std::string("out") : seen.folder + "/out"};
  evidence.asked_for_failure = run.stop && run.stop->why == StopWhy::kFatalLine;
  if (!seen.started && !seen.ended && !evidence.scheduler) {
    evidence.scheduler = RunEnd::kNeverStarted;
  }
  EndDetail detail = RunEndFor(evidence);
  if (detail.end == RunEnd::kCrashed && detail.evidence.empty()) {
    if (auto last = reader.tail.Last()) {
      detail.evidence_at = fmt::format("{}:{}", evidence.log_name, last->number);
      detail.cause += "; its last line: " + last->text;
      detail.evidence = std::move(last->text);
    }
  }
  facts.emplace_back(RunEnded{.id = id,
                              .detail = std::move(detail),
                              .held = seen.held,
                              .startup = Millis{std::max<std::int64_t>(first_step_ms, 0)}});
  readers_.erase(id);
  return {};
}

Result<std::vector<Fact>> Effects::DoWait(const CampaignState& state, const Wait& wait) {
  std::vector<const LaunchRecord*> launches;
  std::vector<LaunchHandle> handles;
  for (const LaunchRecord* launch : state.OpenLaunches()) {
    if (!launch->handle) continue;
    launches.push_back(launch);
    handles.push_back(*launch->handle);
  }
  std::vector<Fact> facts;
  // At most a slice: the loop takes the wishes of other processes between two waits.
  const Instant slice_end = parts_.clock.Now() + kSlice;
  for (;;) {
    if (parts_.interrupted) {
      if (auto what = parts_.interrupted()) facts.emplace_back(UserAsked{std::move(*what)});
    }
    if (!facts.empty()) return facts;
    const Instant now = parts_.clock.Now();
    const Instant slice = std::min(wait.until, slice_end);
    if (now >= slice) return facts;
    if (handles.empty()) {
      parts_.clock.SleepUntil(slice);
    } else {
      ATTUNE_TRY(const std::vector<Observation> seen,
                 parts_.launcher.Observe(handles, slice, wait.steps));
      ATTUNE_CHECK(seen.size() == handles.size(), "a launcher answers for each handle");
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const LaunchRecord& launch = *launches[i];
        for (const RunPlan& plan : launch.intent.runs) {
          const auto stage =
              std::find_if(seen[i].stages.begin(), seen[i].stages.end(),
                           [&](const StageObservation& st) { return st.run == plan.id; });
          StageObservation none;
          none.run = plan.id;
          ATTUNE_RETURN_IF_ERROR(ReadStage(state, state.runs.at(plan.id),
                                           stage == seen[i].stages.end() ? none : *stage, seen[i],
                                           facts));
        }
        if (seen[i].state != Observation::State::kEnded) continue;
        const GpuMillis over = seen[i].charged - launch.intent.hold;
        facts.emplace_back(LaunchEnded{.id = launch.intent.id,
                                       .reached = true,
                                       .charged = seen[i].charged,
                                       .overrun = std::max(over, GpuMillis{0}),
                                       .source = seen[i].source,
                                       .nodes = seen[i].nodes,
                                       .detail = seen[i].detail});
      }
    }
    ATTUNE_RETURN_IF_ERROR(parts_.journal.CheckLease());
  }
}

}  // namespace attune
