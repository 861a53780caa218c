#include "progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "attune/base/text.h"
#include "signals.h"

namespace attune::cli {
namespace {

constexpr Millis kHeartbeat = std::chrono::minutes(10);
constexpr Millis kRedraw{250};

std::string Upper(std::string_view word) {
  std::string out;
  for (const char c : word) {
    out += c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return out;
}

std::string Cut(std::string s, std::size_t n) {
  if (s.size() > n) s = s.substr(0, n - 2) + "..";
  return s;
}

GpuMillis CostOf(const CampaignState& s, const RunRecord& run) {
  const LaunchRecord& launch = s.launches.at(run.launch);
  return launch.end ? launch.end->charged : GpuMillis{};
}

std::string ChangeOf(const CampaignState& s, const RunRecord& run) {
  for (const ProposalRecord& p : s.proposals) {
    if (p.id != run.plan.proposal || !p.proposal) continue;
    std::vector<std::string> parts;
    for (const Edit& e : p.proposal->change.edits) {
      std::string_view name = e.name;
      while (name.starts_with('-')) name.remove_prefix(1);
      const bool off = e.op == Edit::Op::kUnset || e.op == Edit::Op::kUnsetEnv;
      parts.push_back(fmt::format("{} {}", name,
                                  off ? "off" : (e.values.empty() ? "on" : Join(e.values, ","))));
    }
    return Join(parts, ", ");
  }
  return run.plan.of == "baseline" ? "the recipe as given" : std::string();
}

std::string Outcome(const RunRecord& run) {
  const Judged& j = *run.judged;
  if (j.standing == Standing::kFailed && run.end) return Upper(Word(run.end->detail.end));
  return Upper(Word(j.standing));
}

std::string RunLine(const CampaignState& s, const RunRecord& run) {
  const Judged& j = *run.judged;
  std::string line = fmt::format("{} {:<18} {:<30} {:<13}", run.plan.id.value,
                                 Cut(run.plan.label, 18), Cut(ChangeOf(s, run), 30), Outcome(run));
  const bool scored = j.measurement && j.standing != Standing::kStoppedEarly &&
                      j.standing != Standing::kRejected && j.validity == Validity::kValid;
  if (scored) line += fmt::format("  {:.1f}", j.measurement->tokens_per_s_per_slot);
  if (j.gain) line += fmt::format("  {:+.1f}%", 100 * *j.gain);
  if (!scored) line += "  " + Cut(EscapeForDisplay(j.reason), 90);
  line += fmt::format("  {} GPU-h", ShowGpuHours(CostOf(s, run)));
  return line;
}

// Of the open launches the run that goes on, else the one that is next.
const RunRecord* LiveRun(const CampaignState& s) {
  const RunRecord* live = nullptr;
  for (const LaunchRecord* launch : s.OpenLaunches()) {
    for (const RunPlan& plan : launch->intent.runs) {
      const RunRecord& run = s.runs.at(plan.id);
      if (!run.end && (run.started || live == nullptr)) live = &run;
    }
  }
  return live;
}

struct Lines {
  const CampaignState& s;
  using Line = std::optional<std::string>;

  Line operator()(const Opened& f) const {
    const Workload& w = s.recipe.workload;
    std::string line =
        fmt::format("campaign {}  {} x {}  budget {}  tuner {}", f.id.value, w.gpus, w.gpu,
                    f.budget ? ShowGpuHours(*f.budget) + " GPU-h" : std::string("auto"),
                    f.policy.name == f.policy.proposer
                        ? f.policy.proposer
                        : fmt::format("{} ({})", f.policy.proposer, f.policy.name));
    if (!f.policy.skill.empty()) {
      line += fmt::format("  skill {} ({})", EscapeForDisplay(f.policy.skill), f.skill_version);
    }
    return line;
  }
  Line operator()(const Resumed& f) const { return "resumed by " + f.by; }
  Line operator()(const BudgetSet& f) const {
    return fmt::format("budget {} GPU-h ({})", ShowGpuHours(f.budget), f.why);
  }
  Line operator()(const PhaseSet& f) const {
    switch (f.phase) {
      case Phase::kCalibrating:
        return std::nullopt;
      case Phase::kSearching:
        return fmt::format("{}  {} GPU-h", f.reason, ShowGpuHours(s.ledger.calibration));
      case Phase::kFinalizing:
        return fmt::format("{}: {}", f.stop == "agent" ? s.opened->policy.proposer : f.stop,
                           EscapeForDisplay(f.reason));
      case Phase::kShipped:
        return std::nullopt;
      case Phase::kNoGain:
        return "nothing beats the recipe as given beyond the band";
      case Phase::kAborted:
        return "aborted: " + EscapeForDisplay(f.reason, 800);
    }
    return std::nullopt;
  }
  Line operator()(const TurnedBack& f) const {
    const bool refused = f.reason.starts_with("gate.");
    const std::string what =
        f.proposal ? (f.proposal->label.empty() ? f.proposal->change.lever : f.proposal->label)
                   : std::string("-");
    const Finding* rule = f.verdict.FirstRefusal();
    return fmt::format("{} {:<18} {:<30} {:<13}  {}  {}", f.id.value, Cut(what, 18), "",
                       refused ? "REFUSED" : "TURNED BACK", f.reason,
                       Cut(EscapeForDisplay(rule != nullptr ? rule->why : f.detail), 90));
  }
  Line operator()(const LaunchIntended& f) const {
    if (f.purpose == Purpose::kFinal) {
      return fmt::format("verify {} against the baseline, one after the other", s.leader.run.value);
    }
    if (f.purpose == Purpose::kPair) {
      return fmt::format("{} is close to the band: a fresh pair decides",
                         f.runs.front().proposal.value);
    }
    return std::nullopt;
  }
  Line operator()(const Judged& f) const { return RunLine(s, s.runs.at(f.id)); }
  Line operator()(const FinalResult& f) const {
    if (!f.passed) return "not verified: " + EscapeForDisplay(f.reason);
    return fmt::format("verified {} {:.1f} against {:.1f}  {:+.1f}%  strength {}", f.leader.value,
                       f.winner_mean, f.baseline_mean, 100 * f.gain, f.strength);
  }
  Line operator()(const StopAsked& f) const {
    if (f.why == StopWhy::kEnough) return std::nullopt;
    return fmt::format("{} stopped: {}  {}", f.id.value, Word(f.why), EscapeForDisplay(f.detail));
  }
  Line operator()(const UserAsked& f) const {
    const RunRecord* run = LiveRun(s);
    if (f.what != "drain" || run == nullptr) return "asked: " + f.what;
    const LaunchRecord& launch = s.launches.at(run->launch);
    std::string left;
    if (!run->steps.empty() && run->plan.steps_wanted > 0) {
      const auto steps =
          static_cast<double>(run->plan.steps_wanted) - static_cast<double>(run->steps.size());
      const double ms = std::max(steps, 0.0) * run->steps.back().printed_ms;
      left = fmt::format(" (about {})", ShowDuration(Millis{static_cast<std::int64_t>(ms)}));
    }
    return fmt::format("finishing {}{}; Ctrl-C again cancels job {} and leaves", run->plan.id.value,
                       left, launch.handle ? launch.handle->id : launch.intent.id.value);
  }
  Line operator()(const Paused& f) const { return "paused: " + EscapeForDisplay(f.why); }
  Line operator()(const LaunchUncertain& f) const {
    return fmt::format("{} may or may not run ({}): looking for it", f.id.value,
                       EscapeForDisplay(f.why));
  }
  template <class Other>
  Line operator()(const Other&) const {
    return std::nullopt;
  }
};

std::string OnTheWall(Instant at) {
  const auto seconds = static_cast<std::time_t>(at.ms / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

int Width(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string_view ColourOf(const std::string& line) {
  if (line.find(" WIN ") != std::string::npos) return "\x1b[32m";
  if (line.find(" REJECTED ") != std::string::npos || line.find(" OOM") != std::string::npos ||
      line.find(" CRASHED ") != std::string::npos || line.find(" HUNG ") != std::string::npos) {
    return "\x1b[31m";
  }
  return {};
}

}  // namespace

std::optional<std::string> EventLine(const CampaignState& state, const Event& event) {
  return std::visit(Lines{state}, event.fact);
}

std::vector<std::string> LiveLines(const CampaignState& s, Instant now, int width) {
  std::vector<std::string> lines;
  const RunRecord* live = LiveRun(s);
  if (live == nullptr) return lines;
  std::string first =
      fmt::format(" {}  {} {}", Word(s.phase), live->plan.id.value, Cut(live->plan.label, 24));
  if (!live->steps.empty()) {
    const Step& step = live->steps.back();
    first += fmt::format("  step {}  {:.0f} ms/step", live->steps.size(), step.printed_ms);
  } else {
    first += live->started ? "  starting" : "  queued";
  }
  if (s.leader.mean > 0) {
    first += fmt::format("   leader {} {:.1f} ({:+.1f}%)",
                         s.leader.run.empty() ? "baseline" : s.leader.run.value, s.leader.mean,
                         100 * s.leader.gain);
  }
  lines.push_back(first);
  if (s.budget && s.budget->value > 0) {
    constexpr int kBar = 30;
    const double share = static_cast<double>(s.ledger.Charged().value + s.ledger.held.value) /
                         static_cast<double>(s.budget->value);
    const int full = std::clamp(static_cast<int>(share * kBar), 0, kBar);
    lines.push_back(fmt::format(
        " GPU-h [{}{}] {} + {} held of {}", std::string(static_cast<std::size_t>(full), '#'),
        std::string(static_cast<std::size_t>(kBar - full), '.'), ShowGpuHours(s.ledger.Charged()),
        ShowGpuHours(s.ledger.held), ShowGpuHours(*s.budget)));
  }
  const LaunchRecord& launch = s.launches.at(live->launch);
  lines.push_back(fmt::format(" {} {}   last news {} ago   Ctrl-C: finish this run, then stop",
                              launch.handle ? launch.handle->id : launch.intent.id.value,
                              Word(launch.state),
                              ShowDuration(std::max(now - live->last_news_at, Millis{0}))));
  for (std::string& line : lines) {
    if (static_cast<int>(line.size()) > width) line.resize(static_cast<std::size_t>(width));
  }
  return lines;
}

void Progress::Clear() {
  // After Ctrl-Z and fg the shell's own lines stand below what was drawn: those stay.
  if (drawn_ > 0 && WentOn()) drawn_ = 0;
  for (int i = 0; i < drawn_; ++i) std::fputs("\x1b[1A\x1b[2K", out_);
  if (drawn_ > 0) std::fputs("\r", out_);
  drawn_ = 0;
  std::fflush(out_);
}

void Progress::Say(const std::string& line, Instant at) {
  Clear();
  last_line_ = at;
  // UTC for whoever reads it later, the clock on the wall for who sits there.
  const std::string stamp = style_.live ? OnTheWall(at) : Rfc3339(Instant{at.ms / 1000 * 1000});
  const std::string_view colour = style_.colour ? ColourOf(line) : std::string_view();
  // Not fmt::print, which throws: a reader that left must not end the campaign.
  std::fputs(
      fmt::format("{} {}{}{}\n", stamp, colour, line, colour.empty() ? "" : "\x1b[0m").c_str(),
      out_);
  std::fflush(out_);
}

void Progress::Draw(const CampaignState& state, Instant now) {
  if (!style_.live || (now - last_draw_ < kRedraw && drawn_ > 0)) return;
  Clear();
  last_draw_ = now;
  for (const std::string& live : LiveLines(state, now, Width(out_))) {
    std::fputs((live + "\n").c_str(), out_);
    ++drawn_;
  }
  std::fflush(out_);
}

void Progress::OnEvent(const CampaignState& state, const Event& event) {
  if (style_.quiet) return;
  if (const std::optional<std::string> line = EventLine(state, event)) Say(*line, event.at);
  Draw(state, event.at);
}

void Progress::OnTick(const CampaignState& state, Instant now) {
  if (style_.quiet) return;
  if (last_line_.ms == 0) last_line_ = now;
  if (!style_.live && now - last_line_ >= kHeartbeat) {
    const std::size_t open = state.OpenLaunches().size();
    Say(fmt::format("{}: {} launches open, {} GPU-h charged, {} held", Word(state.phase), open,
                    ShowGpuHours(state.ledger.Charged()), ShowGpuHours(state.ledger.held)),
        now);
  }
  Draw(state, now);
}

}  // namespace attune::cli
