// The hidden command that answers the completion scripts: one word a line for the last word given.
// Never an error, since a shell would print it into the line being typed; never writes anything.
// No answer: the shell completes names of files.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "attune/store/store.h"
#include "commands.h"
#include "parse.h"
#include "rule_names.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNewest = 200;  // ids that a person would still look through
constexpr std::string_view kSchemaLine = "schema: attune/recipe/";

// What stands before the word that is being typed.
struct Typed {
  std::string command, sub, waiting;  // waiting: the flag whose value is next
  int positionals = 0;                // of the command, without its sub
  std::string state, campaign, folder, recipe;
};

class Answer {
 public:
  Answer(Wire& wire, const std::vector<std::string>& words, std::string prefix)
      : wire_(wire), prefix_(std::move(prefix)) {
    Read(words);
  }

  std::vector<std::string> Words() {
    if (!typed_.waiting.empty()) return ValuesOf(typed_.waiting);
    if (prefix_.starts_with('-')) return Flags();
    if (typed_.command.empty()) return CommandNames();
    const std::vector<std::string> subs = SubcommandNames(typed_.command);
    if (!subs.empty() && typed_.sub.empty()) return subs;
    return Positionals();
  }

 private:
  void Read(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (!typed_.waiting.empty()) {
        Take(typed_.waiting, word);
        typed_.waiting.clear();
      } else if (word.starts_with('-') && word.size() > 1) {
        const std::size_t equals = word.find('=');
        const FlagShape* shape = Shape(word.substr(0, equals));
        if (shape == nullptr || !shape->takes_value) continue;
        if (equals == std::string::npos) {
          typed_.waiting = shape->names.back();
        } else {
          Take(shape->names.back(), word.substr(equals + 1));
        }
      } else if (typed_.command.empty()) {
        if (FindCommand(word) == nullptr) continue;
        typed_.command = word;
        shapes_.clear();
      } else if (const auto subs = SubcommandNames(typed_.command);
                 typed_.sub.empty() && std::find(subs.begin(), subs.end(), word) != subs.end()) {
        typed_.sub = word;
        shapes_.clear();
      } else {
        ++typed_.positionals;
      }
    }
  }

  void Take(const std::string& flag, const std::string& value) {
    if (flag == "--state") typed_.state = value;
    if (flag == "--campaign") typed_.campaign = value;
    if (flag == "-C") typed_.folder = value;
    if (flag == "--recipe") typed_.recipe = value;
  }

  // `name` as it was typed; its last name is the long one where there is one.
  const FlagShape* Shape(const std::string& name) {
    if (shapes_.empty()) shapes_ = FlagShapes(typed_.command, typed_.sub);
    for (const FlagShape& shape : shapes_) {
      if (std::find(shape.names.begin(), shape.names.end(), name) != shape.names.end()) {
        return &shape;
      }
    }
    return nullptr;
  }

  std::vector<std::string> Flags() const {
    std::vector<std::string> names;
    for (const FlagShape& shape : FlagShapes(typed_.command, typed_.sub)) {
      for (const std::string& name : shape.names) {
        if (name.starts_with("--")) names.push_back(name);
      }
    }
    return names;
  }

  static std::vector<std::string> CommandNames() {
    std::vector<std::string> names;
    for (const CommandRow& row : Commands()) {
      if (!row.hidden) names.emplace_back(row.name);
    }
    return names;
  }

  std::vector<std::string> ValuesOf(const std::string& flag) {
    const FlagShape* shape = Shape(flag);
    if (shape != nullptr && !shape->words.empty()) return shape->words;
    if (flag == "--campaign") return CampaignIds();
    if (flag == "--recipe" || flag == "--against") return Recipes();
    return {};
  }

  std::vector<std::string> Positionals() {
    const std::string& c = typed_.command;
    const bool first = typed_.positionals == 0;
    if (c == "retry" || (first && (c == "show" || c == "logs"))) return RunIds(false);
    if (first && c == "explain") return RunIds(true);
    for (const char* name : {"resume", "stop", "status", "runs", "export", "report"}) {
      if (first && c == name) return CampaignIds();
    }
    for (const char* name : {"check", "plan", "run", "doctor"}) {
      if (first && c == name) return Recipes();
    }
    if (c == "bench" || (c == "sim" && first && typed_.sub != "worlds")) return Recipes();
    if (first && c == "gate" && typed_.sub == "check") return Recipes();
    if (first && c == "gate" && typed_.sub == "explain") return RuleIds();
    if (first && c == "levers" && typed_.sub == "show") return Levers();
    if (first && c == "completion") return {"bash", "zsh", "fish"};
    if (first && c == "schema") return {"recipe", "events", "status"};
    if (first && c == "help") {
      std::vector<std::string> words = CommandNames();
      words.insert(words.end(), {"exit-codes", "environment", "recipe"});
      return words;
    }
    return {};
  }

  static std::vector<std::string> RuleIds() {
    std::vector<std::string> ids;
    for (const Framework framework : {Framework::kMegatronLm, Framework::kCustom}) {
      for (const RuleText& rule : ListRules(BuiltInRules(), framework)) ids.push_back(rule.id);
    }
    return ids;
  }

  std::vector<std::string> Levers() const {
    Recipe recipe;
    recipe.framework = Framework::kMegatronLm;
    if (!typed_.recipe.empty()) {
      auto loaded = wire_.ReadRecipe(InFolder(typed_.recipe));
      if (!loaded) return {};
      recipe = std::move(loaded->recipe);
    }
    return LeverIds(recipe, BuiltInRules());
  }

  std::string InFolder(const std::string& path) const {
    if (typed_.folder.empty()) return path;
    return (fs::path(typed_.folder) / path).string();
  }

  // Recipes where the word points to, and folders, in which there may be more.
  std::vector<std::string> Recipes() const {
    const std::string folder = prefix_.substr(0, prefix_.rfind('/') + 1);
    std::vector<std::string> found;
    std::error_code failed;
    fs::directory_iterator at(InFolder(folder.empty() ? "." : folder), failed);
    for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with('.')) continue;
      std::error_code unknown;
      if (at->is_directory(unknown)) {
        found.push_back(folder + name + "/");
      } else if (name.ends_with(".yaml") || name.ends_with(".yml")) {
        std::string line;
        std::ifstream in(at->path());
        std::getline(in, line);
        if (line.starts_with(kSchemaLine)) found.push_back(folder + name);
      }
    }
    return found;
  }

  std::unique_ptr<Store> OpenStore() const {
    std::string folder = typed_.state.empty() ? "" : InFolder(typed_.state);
    if (folder.empty()) folder = wire_.StateFolder().value_or("");
    StoreOptions options;
    options.read_only = true;
    auto store = Store::Open(folder, options);
    return store ? std::move(*store) : nullptr;
  }

  std::vector<std::string> CampaignIds() const {
    std::vector<std::string> ids;
    const auto store = OpenStore();
    if (store == nullptr) return ids;
    const auto campaigns = store->Campaigns();
    if (!campaigns) return ids;
    for (const CampaignRow& row : *campaigns) {
      if (ids.size() < kNewest) ids.push_back(row.id.value);
    }
    return ids;
  }

  std::vector<std::string> RunIds(bool proposals) const {
    std::vector<std::string> ids;
    const auto store = OpenStore();
    if (store == nullptr) return ids;
    const auto campaign = store->FindCampaign(typed_.campaign.empty() ? "latest" : typed_.campaign);
    if (!campaign) return ids;
    if (const auto runs = store->Runs(campaign->id, {.failed_only = false, .newest = kNewest})) {
      for (const RunRow& row : *runs) ids.push_back(row.id.value);
    }
    if (!proposals) return ids;
    if (const auto rows = store->Proposals(campaign->id)) {
      for (const ProposalRow& row : *rows) ids.push_back(row.id.value);
    }
    return ids;
  }

  Wire& wire_;
  const std::string prefix_;
  Typed typed_;
  std::vector<FlagShape> shapes_;  // of what was typed so far
};

class Complete final : public Command {
 public:
  void Declare(Options& options) override { options.Everything(words_); }

  Result<int> Run(Wire& wire) override {
    std::string prefix;
    if (!words_.empty()) {
      prefix = words_.back();
      words_.pop_back();
    }
    std::vector<std::string> candidates = Answer(wire, words_, prefix).Words();
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    std::string text;
    for (const std::string& candidate : candidates) {
      // A name with a newline would be two answers.
      if (candidate.starts_with(prefix) && candidate.find('\n') == std::string::npos) {
        text += candidate + "\n";
      }
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

 private:
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> MakeComplete() { return std::make_unique<Complete>(); }

}  // namespace attune::cli
