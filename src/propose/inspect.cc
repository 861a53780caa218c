#include "inspect.h"

#include <fmt/core.h>

#include <algorithm>

#include "agent_prompt.h"
#include "attune/base/text.h"
#include "forecasts.h"
#include "untrusted.h"

namespace attune {
namespace {

constexpr std::size_t kAnswerBytes = 6'000;
constexpr std::size_t kLineBytes = 600;

Error NotFound(std::string what) { return {ErrorCode::kNotFound, std::move(what), {}}; }

Result<std::string> AboutRun(const CampaignState& s, const Question& q) {
  const RunRecord* run = s.FindRun(RunId{q.of});
  if (run == nullptr) return Fail(NotFound("no such run"));
  if (!run->judged) return Fail(NotFound("the run has no verdict yet"));
  std::string text = RunLine(s, *run);
  text += "\nverdict: " + run->judged->reason;
  if (run->judged->measurement) {
    const Measurement& m = *run->judged->measurement;
    text += fmt::format(
        "\nwindow: iterations {} to {}, {} steps, median {:.4g} ms, p95 {:.4g} ms, cv {:.2f}%",
        m.first_iteration, m.last_iteration, m.steps, m.median_step_ms, m.p95_step_ms, 100 * m.cv);
    if (m.mfu) text += fmt::format(", MFU {:.1f}%", 100 * *m.mfu);
  }
  for (const Finding& f : run->judged->findings) {
    text += fmt::format("\n{} {} {}: {}", Word(f.severity), f.rule, f.key, f.why);
  }
  if (run->end && !run->end->detail.cause.empty()) {
    text += fmt::format("\nended {}: {}", Word(run->end->detail.end),
                        Quoted(run->end->detail.cause, kLineBytes / 2));
  }
  for (const Forecast& f : ForecastsOf(s)) {
    if (f.run == run->plan.id) text += "\nforecast: " + ForecastLine(f);
  }
  const std::string diff = DescribeDifference(s.recipe.base, run->plan.user);
  return text + "\ndiff to the baseline: " + (diff.empty() ? "none" : diff);
}

Result<std::string> AboutDiagnosis(const CampaignState& s, const Question& q) {
  const RunRecord* run = s.FindRun(RunId{q.of});
  if (run == nullptr) return Fail(NotFound("no such run"));
  if (!run->diagnosis) return Fail(NotFound("the run has no diagnosis"));
  std::string text = run->diagnosis->source + ": " + run->diagnosis->summary;
  for (const Bottleneck& b : run->diagnosis->bottlenecks) {
    text += fmt::format("\n{}{}: metric {:.4g}, named past {:.4g}; {}", b.cls,
                        b.named ? " (named)" : "", b.metric, b.threshold, b.evidence);
  }
  return text;
}

// Where each traced rank's time went.
Result<std::string> AboutTrace(const CampaignState& s, const Question& q) {
  const RunRecord* run = s.FindRun(RunId{q.of});
  if (run == nullptr) return Fail(NotFound("no such run"));
  if (!run->diagnosis || run->diagnosis->times.empty()) {
    return Fail(NotFound("the run left no trace"));
  }
  std::string text;
  for (const TimeSplit& t : run->diagnosis->times) {
    const double span = t.span > 0 ? static_cast<double>(t.span) : 1;
    const auto share = [&](std::int64_t part) { return 100 * static_cast<double>(part) / span; };
    text += fmt::format(
        "{}{}: {} steps in {}: compute {:.1f}%, copies {:.1f}%, exposed communication {:.1f}%, "
        "waiting for the host {:.1f}%, other idle {:.1f}%",
        text.empty() ? "" : "\n", RankName(t.rank), t.steps, ShowNanoseconds(t.span),
        share(t.compute), share(t.memory), share(t.exposed), share(t.host_wait),
        share(t.other_idle));
  }
  for (const std::string& note : run->diagnosis->notes) text += "\nnote: " + note;
  return text;
}

Result<std::string> AboutLever(const CampaignState&, const AgentDesk& desk, const Question& q) {
  const auto it = std::find_if(desk.levers.begin(), desk.levers.end(),
                               [&](const LeverOffer& lever) { return lever.id == q.of; });
  if (it == desk.levers.end()) return Fail(NotFound("no such lever is offered"));
  return LeverLine(*it);
}

Result<std::string> Read(const CampaignState& s, const AgentDesk& desk, const Question& q) {
  if (q.what == "run") return AboutRun(s, q);
  if (q.what == "diagnosis") return AboutDiagnosis(s, q);
  if (q.what == "trace") return AboutTrace(s, q);
  if (q.what == "lever") return AboutLever(s, desk, q);
  const auto answer = desk.answers.find(q.what);
  if (answer == desk.answers.end()) return Fail(NotFound("not available here"));
  return answer->second(s, q);
}

// Every line made plain; what exceeds the bound is counted.
std::string Bounded(std::string_view text) {
  std::string out;
  const std::vector<std::string_view> lines = SplitLines(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string line = PlainWords(lines[i], kLineBytes);
    if (out.size() + line.size() + 1 > kAnswerBytes) {
      return out + fmt::format("\n({} more lines)", lines.size() - i);
    }
    if (!out.empty()) out += '\n';
    out += line;
  }
  return out;
}

}  // namespace

std::string AnswerTo(const CampaignState& s, const AgentDesk& desk, const Question& q) {
  std::string head = fmt::format("## inspect {} {}", q.what, PlainWords(q.of, 60));
  if (!q.candidate.edits.empty()) head += " " + PlainWords(EditsText(q.candidate.edits), 300);
  const Result<std::string> text = Read(s, desk, q);
  if (!text) return head + "\nnot answered: " + PlainWords(text.error().message, 200);
  return head + "\n" + (q.what == "log" ? FencedLog(*text) : Bounded(*text));
}

}  // namespace attune
