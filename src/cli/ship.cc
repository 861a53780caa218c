#include "ship.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

// Stands at the head of every tuned recipe: how a later run knows that it may replace the file.
constexpr std::string_view kMark = "# made by attune";
constexpr std::int64_t kMaxLogBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMaxTunedBytes = 1 << 20;

Effective ShippedForm(const CampaignState& s) {
  return s.ship->verdict == "gain" ? s.leader.user : s.recipe.base;
}

std::string Evidence(const CampaignState& s) {
  std::string text = fmt::format("campaign {}\nverdict {}\n", s.id.value, s.ship->verdict);
  if (s.calibration) {
    text += fmt::format("baseline {:.6g} tok/s/GPU, sigma {:.4f}%, band {:.4f}% ({})\n",
                        s.calibration->mean, 100 * s.calibration->sigma, 100 * s.calibration->band,
                        s.calibration->how);
  }
  for (const FinalResult& f : s.finals) {
    text += fmt::format(
        "final {}: {}  winner {:.6g} baseline {:.6g} gain {:+.4f}%  p {:.4g} "
        "(lowest possible {:.4g})  strength {}  rehearsed {}\n",
        f.leader.value, f.passed ? "passed" : "not passed", f.winner_mean, f.baseline_mean,
        100 * f.gain, f.p, f.p_floor, f.strength, f.rehearsed ? "yes" : "no");
    for (const double ratio : f.block_ratios) text += fmt::format("  block ratio {:.6f}\n", ratio);
    for (const Finding& x : f.findings) {
      text += fmt::format("  {} {}: {}\n", Word(x.severity), x.rule, EscapeForDisplay(x.why));
    }
  }
  return text;
}

std::string GateReport(const CampaignState& s) {
  std::string text;
  for (const auto& [id, run] : s.runs) {
    if (!run.judged) continue;
    text += fmt::format("{} {} {}\n", id.value, run.plan.label, Word(run.judged->standing));
    for (const Finding& x : run.judged->findings) {
      text += fmt::format("  {} {} {}: {}\n", Word(x.severity), x.rule, EscapeForDisplay(x.key),
                          EscapeForDisplay(x.why));
    }
  }
  for (const ProposalRecord& p : s.proposals) {
    if (p.admitted) continue;
    text +=
        fmt::format("{} turned back: {} {}\n", p.id.value, p.reason, EscapeForDisplay(p.detail));
  }
  return text;
}

// Raw logs of the final runs. A log that is gone is named, not an error: the evidence stands.
Status CopyLogs(const CampaignState& s, const std::string& folder) {
  std::string missing;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose != Purpose::kFinal && run.purpose != Purpose::kRehearsal) continue;
    if (!run.started || !s.opened->world.empty()) continue;
    Result<std::string> log = os::ReadTail(run.started->folder + "/out", kMaxLogBytes);
    if (!log) {
      missing += fmt::format("{}: {}\n", id.value, log.error().message);
      continue;
    }
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(folder + "/" + id.value + ".log", *log));
  }
  if (missing.empty()) return {};
  return os::WriteFileAtomic(folder + "/missing-logs.txt", missing);
}

Result<std::string> TunedText(const CampaignState& s, const std::string& out_path) {
  const FinalResult& final = s.finals.back();
  OverlayRequest request;
  request.user_path = s.opened->recipe_path;
  request.out_path = out_path;
  request.shipped = ShippedForm(s);
  request.comments = {
      fmt::format("{}: campaign {}", kMark.substr(2), s.id.value),
      fmt::format("gain {:+.2f}% over the re-measured recipe ({:.6g} -> {:.6g} tok/s/GPU), band "
                  "{:.2f}%",
                  100 * final.gain, final.baseline_mean, final.winner_mean,
                  100 * s.calibration->band),
      "changes: " + DescribeDifference(s.recipe.base, request.shipped)};
  if (!s.opened->world.empty()) {
    request.comments.emplace_back("simulated: no real GPU has run this");
  }
  return TunedOverlay(request);
}

bool MayReplace(const std::string& path) {
  if (!os::Exists(path)) return true;
  const Result<std::string> old = os::ReadFileBounded(path, kMaxTunedBytes);
  // Below the schema line, where the overlay puts its comments.
  return old && old->find("\n" + std::string(kMark)) != std::string::npos;
}

}  // namespace

std::string TunedPath(const std::string& recipe_path) {
  const fs::path path(recipe_path);
  return (path.parent_path() / (path.stem().string() + ".tuned.yaml")).string();
}

std::string ScriptLine(const Recipe& recipe, const Env& env, const std::vector<std::string>& argv) {
  const auto lines = [](const std::vector<std::string>& words, const char* file) {
    std::string text = words.empty() ? ":" : "printf '%s\\n'";
    for (const std::string& word : words) text += " " + ShellQuote(word);
    return fmt::format("{} > \"$d/{}\" &&", text, file);
  };
  std::vector<std::string> settings;
  for (const auto& [name, value] : env) settings.push_back(name + "=" + value);
  std::string line = "d=$(mktemp -d) && cp " + ShellQuote(ScriptPath(recipe)) +
                     " \"$d/script\" && chmod u+x \"$d/script\" && " + lines(argv, "args") + " " +
                     lines(settings, "env") + " env";
  for (const std::string& setting : settings) line += " " + ShellQuote(setting);
  line += " ATTUNE_ARGS_FILE=\"$d/args\" ATTUNE_ENV_FILE=\"$d/env\" ATTUNE_RUN_DIR=\"$d\" ";
  return line + "\"$d/script\"";
}

std::string ShellLine(const Recipe& recipe, const Env& env, const std::vector<std::string>& argv) {
  std::string line = "cd " + ShellQuote(JobFolder(recipe)) + " &&";
  if (!recipe.launcher.script.empty()) return line + " " + ScriptLine(recipe, env, argv);
  if (!env.empty()) line += " env";
  for (const auto& [name, value] : env) line += " " + ShellQuote(name + "=" + value);
  for (const std::string& token : argv) line += " " + ShellQuote(token);
  return line;
}

std::string CommandLine(const Recipe& recipe, const Effective& user) {
  Env env = recipe.launcher.env;
  for (const auto& [name, value] : user.env) env[name] = value;
  return ShellLine(recipe, env, RenderCommand(recipe, user.args));
}

std::string ShippedPlace(const std::string& state_dir, const std::string& path) {
  if (path.empty() || path.front() == '/' || state_dir.empty()) return path;
  return state_dir + "/" + path;
}

Result<Shipped> WriteBundle(const CampaignState& s, const std::string& state_dir) {
  const std::string target = state_dir + "/shipped/" + s.ship->bundle;
  const bool gain = s.ship->verdict == "gain";
  const bool simulated = !s.opened->world.empty();
  Shipped shipped;
  // A simulated campaign's record holds nothing of this machine: names below the state folder.
  shipped.bundle = simulated ? "shipped/" + s.ship->bundle : target;
  shipped.gain = gain && !s.finals.empty() ? s.finals.back().gain : 0;
  shipped.recipe_path = s.opened->recipe_path;

  if (!os::Exists(target)) {
    const std::string draft = target + ".draft";
    std::error_code ignored;
    fs::remove_all(draft, ignored);  // of a crash before the rename
    ATTUNE_RETURN_IF_ERROR(os::MakeFolder(draft + "/logs"));
    const Effective form = ShippedForm(s);
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(draft + "/recipe.json", RecipeToJson(s.recipe)));
    ATTUNE_RETURN_IF_ERROR(
        os::WriteFileAtomic(draft + "/diff.txt", DescribeDifference(s.recipe.base, form) + "\n"));
    ATTUNE_RETURN_IF_ERROR(
        os::WriteFileAtomic(draft + "/command.sh", CommandLine(s.recipe, form) + "\n"));
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(draft + "/baseline-command.sh",
                                               CommandLine(s.recipe, s.recipe.base) + "\n"));
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(draft + "/evidence.txt", Evidence(s)));
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(draft + "/gates.txt", GateReport(s)));
    std::string stack;
    for (const auto& [key, value] : s.recipe.stack) stack += key + ": " + value + "\n";
    stack += "fingerprint: " + s.opened->stack_fingerprint + "\n";
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(draft + "/stack.txt", stack));
    ATTUNE_RETURN_IF_ERROR(CopyLogs(s, draft + "/logs"));
    if (gain) {
      ATTUNE_TRY(const std::string tuned, TunedText(s, target + "/recipe.tuned.yaml"));
      ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(draft + "/recipe.tuned.yaml", tuned));
    }
    std::error_code failed;
    fs::rename(draft, target, failed);
    if (failed) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("renaming {} to {}: {}", draft, target, failed.message()));
    }
    ATTUNE_RETURN_IF_ERROR(os::SyncFolder(state_dir + "/shipped"));
  }
  if (!gain) return shipped;
  if (simulated) {  // a rehearsal's recipe stays in its bundle
    shipped.recipe_path = shipped.bundle + "/recipe.tuned.yaml";
    return shipped;
  }

  const std::string beside = TunedPath(s.opened->recipe_path);
  shipped.recipe_path = target + "/recipe.tuned.yaml";
  if (MayReplace(beside)) {
    ATTUNE_TRY(const std::string tuned, TunedText(s, beside));
    // A folder of the user's that can't be written is no reason to lose a verified result.
    if (os::WriteFileAtomic(beside, tuned)) shipped.recipe_path = beside;
  }
  return shipped;
}

}  // namespace attune::cli
