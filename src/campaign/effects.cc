#include "effects.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "collect.h"
#include "config_gate.h"
#include "pace.h"

namespace attune {
namespace {

bool RunsStopAsked(StopWhy why) {
  // A run that we end because of its own fatal line or silence is judged by its own failure.
  return why != StopWhy::kFatalLine && why != StopWhy::kHang && why != StopWhy::kLimit;
}

}  // namespace

LaunchSpec SpecOf(const CampaignState& state, const LaunchIntended& intent, const Env& passed,
                  const std::string& script) {
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
    stage.workdir = JobFolder(recipe);
    const bool trains = intent.purpose != Purpose::kComponentTest;
    if (trains) {
      const Workload& w = recipe.workload;
      stage.script = script;
      stage.nodes = std::max(1, (w.gpus + w.gpus_per_node - 1) / w.gpus_per_node);
      stage.kind = recipe.ranks;
      stage.ranks = recipe.ranks == RanksKind::kNone ? 0 : std::min(w.gpus, w.gpus_per_node);
    }
    spec.stages.push_back(std::move(stage));
  }
  return spec;
}

Result<std::vector<Fact>> Effects::Perform(const Action& action, const CampaignState& state) {
  return std::visit(
      [&](const auto& a) -> Facts {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, Record>) {
          return DoRecord(state, a);
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
          if (parts_.notify) parts_.notify(state, a.what);
          return std::vector<Fact>{Noticed{a.what}};
        } else if constexpr (std::is_same_v<T, Wait>) {
          return DoWait(state, a);
        } else {
          ATTUNE_CHECK(false, "Done is not an effect");
        }
      },
      action);
}

namespace {

// The fact that a reply becomes.
Fact FactOf(const CampaignState& state, ProposerReply reply, const ProposerStep& step,
            const std::string& source) {
  if (auto* stop = std::get_if<StopWish>(&reply)) return StopWished{std::move(*stop), source};
  const ProposalId id{fmt::format("p{:03}", state.next_proposal)};
  if (auto* bad = std::get_if<BadReply>(&reply)) {
    TurnedBack back{.id = id,
                    .proposal = {},
                    .source = source,
                    .llm_call = step.llm_call,
                    .reason = step.refused_as.empty() ? "schema" : step.refused_as,
                    .verdict = {},
                    .detail = bad->error};
    if (!bad->excerpt.empty()) back.detail += ": " + bad->excerpt;
    return back;
  }
  return JudgeProposal(state, id, std::get<Proposal>(std::move(reply)), source, step.llm_call);
}

}  // namespace

Pulse Effects::Listen(Heard& heard) const {
  return [this, &heard] {
    if (!heard.wish && parts_.interrupted) heard.wish = parts_.interrupted();
    heard.lease = parts_.journal.CheckLease();
    return heard.lease.has_value() && !heard.wish;
  };
}

Result<std::vector<Fact>> Effects::DoAsk(const CampaignState& state) {
  Heard heard;
  ATTUNE_TRY(ProposerStep step, parts_.proposer.Step(state, MakeVet(state), Listen(heard)));
  if (!heard.lease) return Fail(std::move(heard.lease.error()));
  std::vector<Fact> facts = std::move(step.facts);
  if (step.reply) {
    facts.push_back(FactOf(state, std::move(*step.reply), step, parts_.proposer.Name()));
  }
  if (heard.wish) facts.emplace_back(UserAsked{*heard.wish});
  ATTUNE_CHECK(!facts.empty(), "a proposer's step that says nothing would spin");
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
                                           .detail = inputs.error().message,
                                           .failed_nodes = {}},
                               Paused{inputs.error().message, 75}};
    }
  }
  ATTUNE_TRY(Submitted submitted,
             parts_.launcher.Submit(SpecOf(state, intent, parts_.passed_env, parts_.script)));
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
                                   .detail = std::move(refused->why),
                                   .failed_nodes = {}});
  } else {
    facts.emplace_back(LaunchUncertain{id, std::get<SubmitUnknown>(submitted).why});
  }
  return facts;
}

// Other jobs are watched and wishes heard meanwhile; then it is asked again.
Result<std::vector<Fact>> Effects::AskLater(const CampaignState& state) {
  return DoWait(state, Wait{parts_.clock.Now() + parts_.slice, 1'000'000});
}

Result<std::vector<Fact>> Effects::DoLocate(const CampaignState& state, const LaunchId& id) {
  Result<std::optional<LaunchHandle>> answer =
      parts_.launcher.Find(state.launches.at(id).intent.token);
  if (!answer && answer.error().code == ErrorCode::kUnavailable) return AskLater(state);
  ATTUNE_TRY(std::optional<LaunchHandle> found, std::move(answer));
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
  if (Status said = parts_.launcher.Cancel(*launch.handle, cancel.run); !said) {
    // A host that does not answer now is told later; that it must be told is on record.
    if (said.error().code == ErrorCode::kUnavailable) return AskLater(state);
    return Fail(said.error());
  }
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
  return std::vector<Fact>{Diagnosed{id, DiagnoseRun(state, state.runs.at(id), parts_.launcher)}};
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

// A run in the user's form keeps the user's log interval: its last line says how far it came. In
// the measured form each step prints a line, and one that is missing is missed.
static int StepsDone(const RunRecord& run, std::size_t lines, std::int64_t last_iteration) {
  if (run.plan.form != Form::kUser || last_iteration <= run.plan.start_iteration) {
    return static_cast<int>(lines);
  }
  return static_cast<int>(last_iteration - run.plan.start_iteration);
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
  const std::int64_t last_iteration = !news.steps.empty()
                                          ? news.steps.back().iteration
                                          : (run.steps.empty() ? 0 : run.steps.back().iteration);
  for (Step& step : news.steps) {
    step.cut = step.cut || InProfile(run.plan, step.iteration);
  }
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
      .steps_seen = StepsDone(run, steps_seen, last_iteration),
      .steps_wanted = std::min(run.plan.steps_wanted, PlanWindow(state).expected()),
      .progressing = steps_seen > run.steps.size() || StillProgressing(run, parts_.clock.Now()),
      .log_name = seen.folder.empty() ? std::string("out") : seen.folder + "/out"};
  evidence.asked_for_failure = run.stop && run.stop->why == StopWhy::kFatalLine;
  if (!seen.started && !seen.ended && !evidence.scheduler) {
    evidence.scheduler = RunEnd::kNeverStarted;
  }
  EndDetail detail = RunEndFor(evidence);
  if (evidence.scheduler && detail.end == *evidence.scheduler && !launch.detail.empty()) {
    detail.cause = launch.detail;
  }
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
  const Instant slice_end = parts_.clock.Now() + parts_.slice;
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
        const GpuMillis over = seen[i].charged - seen[i].idle - launch.intent.hold;
        facts.emplace_back(LaunchEnded{.id = launch.intent.id,
                                       .reached = true,
                                       .charged = seen[i].charged,
                                       .overrun = std::max(over, GpuMillis{0}),
                                       .source = seen[i].source,
                                       .nodes = seen[i].nodes,
                                       .detail = seen[i].detail,
                                       .failed_nodes = seen[i].failed_nodes,
                                       .idle = seen[i].idle});
        LookBack(state, launch, facts);
      }
    }
    ATTUNE_RETURN_IF_ERROR(parts_.journal.CheckLease());
  }
}

}  // namespace attune
