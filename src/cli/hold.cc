#include "hold.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/launch/slurm_hold.h"
#include "exit_code.h"
#include "json_out.h"
#include "launchers.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> OwnWords() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> words;
  std::size_t at = 0;
  for (std::size_t end; (end = bytes.find('\0', at)) != std::string::npos; at = end + 1) {
    words.push_back(bytes.substr(at, end - at));
  }
  return words;
}

}  // namespace

std::vector<std::string> WordsInside(const std::vector<std::string>& words,
                                     const std::string& program, const std::string& state_folder) {
  std::vector<std::string> out = {program};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--hold" || word == "--state" || word == "-C") {
      ++i;  // and its value
    } else if (!word.starts_with("--hold=") && !word.starts_with("--state=") &&
               !word.starts_with("-C") && word != "--detach" && word != "--no-input" &&
               word != "--in-allocation") {
      out.push_back(word);
    }
  }
  for (const std::string& word : {std::string("--in-allocation"), std::string("--no-input"),
                                  std::string("--state"), state_folder}) {
    out.push_back(word);
  }
  return out;
}

std::optional<Millis> SessionToHold(std::optional<Millis> flag, const Recipe& recipe,
                                    bool in_allocation, const CampaignState* campaign) {
  if (flag) return flag;
  // A rehearsal has no nodes to hold.
  if (in_allocation || recipe.launcher.kind != "slurm") return std::nullopt;
  if (campaign != nullptr && campaign->phase == Phase::kFinalizing) return std::nullopt;
  return recipe.launcher.session;
}

Result<int> AskToHold(Wire& wire, const Recipe& recipe, const std::string& recipe_path,
                      const HoldAsked& asked) {
  if (const std::string why = WhyNotHeld(recipe.launcher, asked.time); !why.empty()) {
    return Fail(ErrorCode::kInvalidInput, "an allocation that is held " + why,
                "a batch script of your own may end with attune run --in-allocation");
  }
  ATTUNE_TRY(std::string state, wire.StateFolder());
  state = fs::absolute(state).lexically_normal().string();
  const std::string path = fs::absolute(recipe_path).lexically_normal().string();
  HoldSpec spec;
  // One a recipe and state folder, as one attune at a time works on a campaign.
  spec.name = "attune-hold-" + Sha256Hex(state + "\n" + path).substr(0, 16);
  spec.time = asked.time;
  spec.argv = WordsInside(OwnWords(), fs::read_symlink("/proc/self/exe").string(), state);
  spec.argv.insert(spec.argv.end(), asked.more.begin(), asked.more.end());
  if (asked.campaign != nullptr) spec.exclude = ExcludedNodes(*asked.campaign);
  spec.workdir = fs::current_path().string();
  spec.folder = fmt::format("{}/held/{}", state, spec.name);
  ATTUNE_TRY(const std::string job,
             AskForAllocation(SlurmOptionsOf(recipe, state, wire.clock()), spec));
  const std::string log = fmt::format("{}/slurm-{}.out", spec.folder, job);
  if (wire.flags().json) {
    JsonOut json("attune.held/1");
    json.Text("job", job);
    json.Text("log", log);
    wire.terminal().Out(json.Take() + "\n");
  } else {
    wire.terminal().Out(
        fmt::format("job {} is to hold the nodes for {}; the campaign runs in it\n"
                    "  attune status   or {}\n"
                    "  attune stop     ends the campaign, and with it the job\n",
                    job, ShowDuration(asked.time), log));
  }
  return kExitDone;
}

}  // namespace attune::cli
