#include "transcript.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "attune/base/text.h"
#include "attune/llm/profile.h"
#include "json_out.h"

namespace attune::cli {
namespace {

constexpr std::size_t kMaxLine = 4000;

// Line by line, so that the text keeps its shape and nothing in it reaches the terminal raw.
std::string Indented(std::string_view text) {
  std::string out;
  for (const std::string_view line : SplitLines(text)) {
    out += "    " + EscapeForDisplay(line, kMaxLine) + "\n";
  }
  return out;
}

std::vector<const ModelCall*> CallsOf(const CampaignState& state, const ProposalId& id) {
  std::vector<const ModelCall*> found;
  std::string last;    // the call that made it
  std::string before;  // the last call of an earlier decision
  for (const ProposalRecord& proposal : state.proposals) {
    if (proposal.id == id) {
      last = proposal.llm_call;
      break;
    }
    if (!proposal.llm_call.empty()) before = proposal.llm_call;
  }
  if (last.empty()) return found;
  bool inside = before.empty();
  for (const ModelCall& call : state.calls) {
    if (inside) found.push_back(&call);
    if (call.asked.call == before) inside = true;
    if (call.asked.call == last) break;
  }
  return found;
}

std::string Money(const std::optional<std::int64_t>& usd_micros) {
  return usd_micros ? fmt::format("${:.4f}", static_cast<double>(*usd_micros) / 1e6)
                    : std::string("price not known");
}

std::string Headline(const ModelCall& call) {
  if (!call.answer) return fmt::format("{} {}: no answer yet", call.asked.call, call.asked.model);
  const Answered& a = *call.answer;
  return fmt::format(
      "{} {}{}: {}, {} tries, {} tokens in, {} out, {}, {}", call.asked.call,
      EscapeForDisplay(call.asked.model, 100),
      call.asked.role.empty() || call.asked.role == "decide" ? std::string()
                                                             : " (" + call.asked.role + ")",
      a.outcome, a.tries, a.in_tokens, a.out_tokens, Money(a.usd_micros), ShowDuration(a.latency));
}

std::string AnswerText(const Answered& a) {
  std::string out;
  if (!a.tool.empty()) out += "  called " + EscapeForDisplay(a.tool, 100) + "\n";
  if (!a.arguments.empty()) out += Indented(a.arguments);
  if (!a.error.empty()) out += "  error\n" + Indented(a.error);
  if (!a.shown.empty()) out += "  shown to it next\n" + Indented(a.shown);
  return out;
}

}  // namespace

Result<std::string> TranscriptText(const CampaignState& state, const ProposalId& proposal,
                                   const std::string& folder) {
  std::string out;
  for (const ModelCall* call : CallsOf(state, proposal)) {
    out += "\n" + Headline(*call) + "\n";
    const Result<llm::Exchange> exchange = llm::ReadExchange(folder, call->asked.call);
    if (exchange) {
      for (const auto& [role, text] : exchange->texts) out += "  " + role + "\n" + Indented(text);
      for (const llm::Exchange::Try& one : exchange->tries) {
        if (one.trouble.empty() && one.status == 200) continue;
        out += fmt::format("  a try: {}\n", one.trouble.empty() ? fmt::format("HTTP {}", one.status)
                                                                : EscapeForDisplay(one.trouble));
      }
    } else if (exchange.error().code == ErrorCode::kNotFound) {
      out += "  its request is not kept any more\n";
    } else {
      return Fail(Error(exchange.error()));
    }
    if (call->answer) out += AnswerText(*call->answer);
  }
  return out.empty() ? "\nno model was asked for it\n" : out;
}

Result<std::string> TranscriptJson(const CampaignState& state, const ProposalId& proposal,
                                   const std::string& folder) {
  std::vector<std::string> calls;
  for (const ModelCall* call : CallsOf(state, proposal)) {
    JsonOut json("");
    json.Text("call", call->asked.call);
    json.Text("model", call->asked.model);
    json.Text("repeats", call->asked.repeats);
    const Result<llm::Exchange> exchange = llm::ReadExchange(folder, call->asked.call);
    if (!exchange && exchange.error().code != ErrorCode::kNotFound) {
      return Fail(Error(exchange.error()));
    }
    json.Text("request", exchange ? exchange->request : std::string());
    if (call->answer) {
      const Answered& a = *call->answer;
      json.Text("outcome", a.outcome);
      json.Text("tool", a.tool);
      json.Text("arguments", a.arguments);
      json.Text("error", a.error);
      json.Int("tries", a.tries);
      json.Int("input_tokens", a.in_tokens);
      json.Int("output_tokens", a.out_tokens);
    }
    calls.push_back(json.Take());
  }
  JsonOut json("attune.transcript/1");
  json.Text("campaign", state.id.value);
  json.Text("proposal", proposal.value);
  json.Objects("calls", calls);
  return json.Take();
}

}  // namespace attune::cli
