// One step of the agent: intend a request, or send the one that is intended and read its answer.
// Everything that a step knows is the state, so a process that takes over makes the same step.
#include "attune/propose/agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <variant>

#include "agent_action.h"
#include "agent_prompt.h"
#include "agent_turn.h"
#include "attune/base/text.h"
#include "enablers.h"
#include "inspect.h"
#include "stop_rules.h"

namespace attune {
namespace {

using llm::TurnKind;

// Answer tokens: a long proposal is under 1,000; hidden reasoning counts too. A cut answer is asked
// for again with twice as many.
constexpr int kAnswerTokens = 4'096, kMostAnswerTokens = 16'384;
// Of the text, what never changes may have this share, so that it stays byte-stable while the
// record grows.
constexpr double kSystemShare = 0.62;
// The schemas of the tools are about 4,000 bytes that can't be cut: part of a large budget, beside
// a small one.
constexpr std::size_t kToolsCountFrom = 16'000;

constexpr int kExitUsage = 2, kExitDenied = 4, kExitLimit = 5, kExitLater = 75;

std::string Dollars(std::int64_t micros) {
  return fmt::format("${:.4f}", static_cast<double>(micros) / 1e6);
}

// Ceilings of model calls: of the campaign, and of the recipe. nullopt: go on.
std::optional<Paused> OverLimit(const CampaignState& s, const llm::Prepared& next) {
  const LlmSpec& limits = s.recipe.llm;
  if (limits.calls && s.calls.size() >= static_cast<std::size_t>(*limits.calls)) {
    return Paused{fmt::format("llm.limits.calls: {} requests were made", s.calls.size()),
                  kExitLimit};
  }
  const ModelTokens used = TokensOf(s);
  if (limits.tokens && used.in + used.out >= *limits.tokens) {
    return Paused{fmt::format("llm.limits.tokens: {} tokens were used", used.in + used.out),
                  kExitLimit};
  }
  const std::optional<std::int64_t> budget = LlmBudgetOf(s);
  if (!budget) return std::nullopt;
  if (!next.bound_usd_micros) {
    return Paused{
        fmt::format("the price of {} is not known, and model calls have a budget", next.model),
        kExitUsage};
  }
  if (s.llm_usd_micros + *next.bound_usd_micros > *budget) {
    return Paused{
        fmt::format("the model budget of {} does not cover the next request: {} spent, at "
                    "most {} more",
                    Dollars(*budget), Dollars(s.llm_usd_micros), Dollars(*next.bound_usd_micros)),
        kExitLimit};
  }
  return std::nullopt;
}

// The end that an answer without an action makes, if any.
std::optional<Paused> EndOf(const llm::Turn& turn, const TurnView& view, std::size_t models) {
  const std::string why = fmt::format("{}: {}", llm::Word(turn.kind), turn.error);
  switch (turn.kind) {
    case TurnKind::kRefusal:
    case TurnKind::kOverloaded:
    case TurnKind::kUnreachable:
      if (view.model + 1 < models) return std::nullopt;
      return Paused{"no model answers; " + why, kExitLater};
    case TurnKind::kTooLong:
      if (!view.too_long) return std::nullopt;
      return Paused{why + " (also at half of llm.prompt_bytes)", kExitUsage};
    case TurnKind::kDenied:
      return Paused{why, kExitDenied};
    case TurnKind::kRejected:
      return Paused{why, kExitUsage};
    case TurnKind::kExhausted:
      return Paused{why, kExitLater};
    case TurnKind::kAction:
    case TurnKind::kFormatError:
    case TurnKind::kTruncated:
    case TurnKind::kInterrupted:
    case TurnKind::kUnknown:
      return std::nullopt;
  }
  return std::nullopt;
}

Answered AnsweredOf(const std::string& call, const llm::Turn& turn) {
  Answered a;
  a.call = call;
  a.outcome = llm::Word(turn.kind);
  a.model = turn.model;
  a.tool = turn.tool;
  a.arguments = turn.arguments;
  a.error = turn.error;
  a.in_tokens = turn.usage.in;
  a.out_tokens = turn.usage.out;
  a.cached_tokens = turn.usage.cached;
  a.cache_written_tokens = turn.usage.cache_written;
  a.reasoning_tokens = turn.usage.reasoning;
  a.usd_micros = turn.usd_micros;
  a.tries = turn.tries;
  a.status = turn.status;
  a.latency = turn.latency;
  a.request_id = turn.request_id;
  return a;
}

// The draft with most votes; of equals the one proposed first.
const Draft& Elected(const TurnView& view, const std::vector<Ballot>& ballots) {
  std::map<std::string, int> votes;
  for (const Ballot& ballot : ballots) ++votes[ballot.vote];
  const Draft* best = &view.drafts.front();
  for (const Draft& draft : view.drafts) {
    if (votes[draft.letter] > votes[best->letter]) best = &draft;
  }
  return *best;
}

// The levers that a change moves, its own first.
std::vector<std::string> LeversOf(const Change& change) {
  std::vector<std::string> levers{change.lever};
  levers.insert(levers.end(), change.enablers.begin(), change.enablers.end());
  return levers;
}

class AgentProposer final : public Proposer {
 public:
  AgentProposer(llm::Client& client, AgentDesk desk) : client_(client), desk_(std::move(desk)) {}

  std::string Name() const override { return "agent"; }

  Result<ProposerStep> Step(const CampaignState& s, const Vet& vet, const Pulse& pulse) override {
    const ModelCall* open = s.OpenCall();
    if (open == nullptr) return Intend(s);
    if (open->uncertain) return Repeat(s, *open);
    return Send(s, *open, vet, pulse);
  }

  // The steps of one decision on a copy of the state, for callers that keep no record.
  Result<ProposerReply> Propose(const CampaignState& state, const Vet& vet) override {
    CampaignState s = state;
    for (;;) {
      ATTUNE_TRY(ProposerStep step, Step(s, vet, {}));
      if (step.reply) return std::move(*step.reply);
      for (Fact& fact : step.facts) {
        if (const auto* paused = std::get_if<Paused>(&fact)) {
          return Fail(ErrorCode::kUnavailable, paused->why);
        }
        s = Apply(std::move(s), Event{s.seq + 1, s.last_at, std::move(fact)});
      }
    }
  }

 private:
  static std::string NextCall(const CampaignState& s) {
    return fmt::format("q{:03}", s.calls.size() + 1);
  }

  static AskIntended IntentOf(std::string call, const llm::Prepared& prepared, std::string role) {
    AskIntended ask;
    ask.call = std::move(call);
    ask.body_hash = prepared.body_hash;
    ask.model = prepared.model;
    ask.profile = prepared.profile;
    ask.role = std::move(role);
    ask.bound_usd_micros = prepared.bound_usd_micros;
    return ask;
  }

  Result<ProposerStep> Intend(const CampaignState& s) {
    const TurnView view = ViewOf(s, desk_);
    ATTUNE_TRY(const llm::Request request, AgentRequest(s, desk_));
    ATTUNE_TRY(const llm::Prepared prepared, client_.Prepare(request, view.model));
    ProposerStep step;
    if (auto paused = OverLimit(s, prepared)) {
      step.facts.emplace_back(std::move(*paused));
      return step;
    }
    const std::string call = NextCall(s);
    ATTUNE_RETURN_IF_ERROR(client_.Keep(call, prepared));
    step.facts.emplace_back(IntentOf(call, prepared, view.role));
    return step;
  }

  // Sent or not, nobody knows: the provider may bill both, so both are counted, and the very same
  // bytes are asked once more.
  Result<ProposerStep> Repeat(const CampaignState& s, const ModelCall& open) {
    ATTUNE_TRY(const llm::Prepared prepared, client_.Kept(open.asked.call));
    Answered unknown;
    unknown.call = open.asked.call;
    unknown.outcome = llm::Word(TurnKind::kUnknown);
    unknown.error = "the process ended before an answer came";
    unknown.usd_micros = open.asked.bound_usd_micros;
    // Both count: the second one has to fit beside the first.
    CampaignState counted = s;
    counted.llm_usd_micros += unknown.usd_micros.value_or(0);
    if (auto paused = OverLimit(counted, prepared)) {
      ProposerStep over;
      over.facts.emplace_back(std::move(unknown));
      over.facts.emplace_back(std::move(*paused));
      return over;
    }
    const std::string call = NextCall(s);
    ATTUNE_RETURN_IF_ERROR(client_.Keep(call, prepared));
    AskIntended again = IntentOf(call, prepared, open.asked.role);
    again.repeats = open.asked.call;
    ProposerStep step;
    step.facts.emplace_back(std::move(unknown));
    step.facts.emplace_back(std::move(again));
    return step;
  }

  Result<ProposerStep> Send(const CampaignState& s, const ModelCall& open, const Vet& vet,
                            const Pulse& pulse) {
    const std::string& call = open.asked.call;
    ATTUNE_TRY(const llm::Prepared prepared, client_.Kept(call));
    llm::SendLimits limits{.pulse = pulse, .usd_micros = {}};
    if (const auto budget = LlmBudgetOf(s)) limits.usd_micros = *budget - s.llm_usd_micros;
    ATTUNE_TRY(const llm::Turn turn, client_.Send(call, prepared, limits));
    const TurnView view = ViewOf(s, desk_);
    Answered answered = AnsweredOf(call, turn);
    ProposerStep step;
    step.llm_call = call;
    if (turn.kind == TurnKind::kAction) Read(s, view, vet, answered, step);
    if (answered.outcome == llm::Word(TurnKind::kFormatError) &&
        view.errors_in_a_row + 1 >= kErrorsInARow) {
      step.reply = BadReply{answered.error, EscapeForDisplay(turn.arguments + turn.text, 400)};
    }
    if (turn.kind == TurnKind::kTruncated && view.truncated_in_a_row + 1 >= kErrorsInARow) {
      step.reply = BadReply{"the answer was cut off at the most tokens it may have", {}};
      step.refused_as = "truncated";
    }
    step.facts.emplace_back(std::move(answered));
    if (auto paused = EndOf(turn, view, client_.Models().size())) {
      step.facts.emplace_back(std::move(*paused));
    }
    return step;
  }

  void Read(const CampaignState& s, const TurnView& view, const Vet& vet, Answered& answered,
            ProposerStep& step) {
    AgentAction action = ReadAction(view.rules, s, answered.tool, answered.arguments);
    if (auto* bad = std::get_if<BadReply>(&action)) {
      answered.outcome = llm::Word(TurnKind::kFormatError);
      answered.error = std::move(bad->error);
    } else if (const auto* question = std::get_if<Question>(&action)) {
      answered.shown = AnswerTo(s, desk_, *question);
    } else if (auto* wish = std::get_if<StopWish>(&action)) {
      Stop(s, vet, std::move(*wish), step);
    } else if (auto* ballot = std::get_if<Ballot>(&action)) {
      Vote(s, view, vet, std::move(*ballot), step);
    } else if (s.opened->policy.agents <= 1) {
      Take(s, vet, std::get<Proposal>(std::move(action)), step);
    }
  }

  static void Stop(const CampaignState& s, const Vet& vet, StopWish wish, ProposerStep& step) {
    std::string why = WhyNotStop(s, vet, wish);
    if (why.empty()) {
      step.reply = std::move(wish);
      return;
    }
    step.reply = BadReply{std::move(why), EscapeForDisplay(wish.reason, 400)};
    step.refused_as = "stop";
  }

  void Vote(const CampaignState& s, const TurnView& view, const Vet& vet, Ballot ballot,
            ProposerStep& step) const {
    std::vector<Ballot> ballots = view.ballots;
    ballots.push_back(std::move(ballot));
    if (static_cast<int>(ballots.size()) < s.opened->policy.agents) return;
    const Draft& elected = Elected(view, ballots);
    step.llm_call = elected.call;
    Take(s, vet, elected.proposal, step);
  }

  // What the agent is held to beside the gates: an arm's fixed space, and one lever at a time.
  void Take(const CampaignState& s, const Vet& vet, Proposal proposal, ProposerStep& step) const {
    for (const std::string& lever : LeversOf(proposal.change)) {
      if (InSpace(s.opened->policy, lever)) continue;
      step.reply = BadReply{"this policy has a fixed list of knobs, and the lever is none of them",
                            EscapeForDisplay(lever, 60)};
      step.refused_as = "policy.space";
      return;
    }
    if (std::string why = WhyNotTogether(s, desk_, vet, proposal); !why.empty()) {
      step.reply = BadReply{std::move(why), {}};
      step.refused_as = "policy.one_lever";
      return;
    }
    step.reply = std::move(proposal);
  }

  llm::Client& client_;
  AgentDesk desk_;
};

}  // namespace

ModelTokens TokensOf(const CampaignState& s) {
  ModelTokens used;
  for (const ModelCall& call : s.calls) {
    if (!call.answer) continue;
    used.in += call.answer->in_tokens;
    used.out += call.answer->out_tokens;
  }
  return used;
}

std::optional<std::int64_t> LlmBudgetOf(const CampaignState& s) {
  std::optional<std::int64_t> budget = s.llm_budget_usd_micros;
  for (const std::optional<double>& usd : {s.recipe.llm.usd, s.recipe.budget.llm_usd}) {
    if (!usd) continue;
    const auto micros = static_cast<std::int64_t>(*usd * 1e6);
    budget = budget ? std::min(*budget, micros) : micros;
  }
  return budget;
}

Result<llm::Request> AgentRequest(const CampaignState& s, const AgentDesk& desk) {
  const TurnView view = ViewOf(s, desk);
  llm::Request request;
  request.tools = ToolsOf(view.rules);
  request.max_tokens =
      std::min(kAnswerTokens << std::min(view.truncated_in_a_row, 8), kMostAnswerTokens);
  auto bytes = static_cast<std::size_t>(s.recipe.llm.prompt_bytes);
  if (view.too_long) bytes /= 2;
  if (bytes >= kToolsCountFrom) bytes -= RequestBytes(request);
  const auto fixed = static_cast<std::size_t>(static_cast<double>(bytes) * kSystemShare);
  ATTUNE_TRY(request.system, SystemText(s, desk, fixed));
  ATTUNE_TRY(request.user, UserText(s, desk, view, bytes - request.system.size()));
  return request;
}

std::size_t RequestBytes(const llm::Request& request) {
  std::size_t bytes = request.system.size() + request.user.size();
  for (const llm::Tool& tool : request.tools) {
    bytes += tool.name.size() + tool.description.size() + tool.schema.size();
  }
  return bytes;
}

std::unique_ptr<Proposer> MakeAgentProposer(llm::Client& client, AgentDesk desk) {
  return std::make_unique<AgentProposer>(client, std::move(desk));
}

}  // namespace attune
