#include "agent_turn.h"

#include <fmt/core.h>

#include <algorithm>
#include <variant>

#include "agent_prompt.h"

namespace attune {
namespace {

// Questions that the state itself answers.
constexpr std::string_view kOwnQuestions[] = {"run", "diagnosis", "trace", "lever"};

std::vector<std::string> QuestionsOf(const CampaignState& s, const AgentDesk& desk, int asked) {
  const Policy policy = s.opened ? s.opened->policy : Policy{};
  std::vector<std::string> questions;
  if (asked >= policy.inspections || IsCompact(s)) return questions;  // no room for an answer
  for (const std::string_view what : kOwnQuestions) {
    if ((what == "diagnosis" || what == "trace") && !policy.diagnosis) continue;
    questions.emplace_back(what);
  }
  for (const auto& [what, answer] : desk.answers) {
    if (what == "catalog" && policy.catalog != "full") continue;
    if (what == "lesson" && !policy.lessons) continue;
    questions.push_back(what);
  }
  return questions;
}

// A model that can't answer gives way to the next of the list.
bool MovesOn(const std::string& outcome) {
  return outcome == llm::Word(llm::TurnKind::kRefusal) ||
         outcome == llm::Word(llm::TurnKind::kOverloaded) ||
         outcome == llm::Word(llm::TurnKind::kUnreachable);
}

void Count(const Answered& a, TurnView& view) {
  const bool action = a.outcome == llm::Word(llm::TurnKind::kAction) && a.error.empty();
  // An answer that was cut off with its process says nothing about the model.
  if (a.outcome == llm::Word(llm::TurnKind::kUnknown) ||
      a.outcome == llm::Word(llm::TurnKind::kInterrupted)) {
    return;
  }
  if (MovesOn(a.outcome)) {
    ++view.model;
    return;
  }
  const bool truncated = a.outcome == llm::Word(llm::TurnKind::kTruncated);
  const bool format = a.outcome == llm::Word(llm::TurnKind::kFormatError);
  // Only a good answer begins a count again: answers that are cut and malformed in turn are no
  // progress, and each is paid for.
  view.truncated_in_a_row = action ? 0 : view.truncated_in_a_row + (truncated ? 1 : 0);
  view.errors_in_a_row = action ? 0 : view.errors_in_a_row + (format ? 1 : 0);
  if (action && a.tool == "inspect") ++view.inspections;
}

void Seat(const ModelCall& call, const CampaignState& s, TurnView& view) {
  const Answered& a = *call.answer;
  if (a.outcome != llm::Word(llm::TurnKind::kAction) || !a.error.empty()) return;
  if (a.tool == "propose") {
    AgentAction action = ReadAction(ActionRules{}, s, a.tool, a.arguments);
    if (auto* proposal = std::get_if<Proposal>(&action)) {
      const std::string letter(1, static_cast<char>('A' + view.drafts.size()));
      view.drafts.push_back({letter, a.arguments, std::move(*proposal), a.call});
    }
  } else if (a.tool == "vote") {
    ActionRules rules;
    for (const Draft& d : view.drafts) rules.ballot.push_back(d.letter);
    AgentAction action = ReadAction(rules, s, a.tool, a.arguments);
    if (auto* ballot = std::get_if<Ballot>(&action)) view.ballots.push_back(std::move(*ballot));
  }
}

}  // namespace

TurnView ViewOf(const CampaignState& s, const AgentDesk& desk) {
  TurnView view;
  view.too_long = std::any_of(s.calls.begin(), s.calls.end(), [](const ModelCall& call) {
    return call.answer && call.answer->outcome == llm::Word(llm::TurnKind::kTooLong);
  });
  for (std::size_t i = s.decision_from; i < s.calls.size(); ++i) {
    if (!s.calls[i].answer) continue;
    view.answered.push_back(&s.calls[i]);
    Count(*s.calls[i].answer, view);
    Seat(s.calls[i], s, view);
  }
  view.rules.questions = QuestionsOf(s, desk, view.inspections);
  const int agents = s.opened ? s.opened->policy.agents : 1;
  if (agents <= 1) {
    view.role = "decide";
    return view;
  }
  view.voting = static_cast<int>(view.drafts.size()) >= agents;
  if (!view.voting) {
    view.role = fmt::format("propose {}", view.drafts.size() + 1);
    // The search ends by the first member's word alone; the others weigh what it proposes.
    view.rules.stop = view.drafts.empty();
    return view;
  }
  view.role = fmt::format("vote {}", view.ballots.size() + 1);
  for (const Draft& d : view.drafts) view.rules.ballot.push_back(d.letter);
  return view;
}

}  // namespace attune
