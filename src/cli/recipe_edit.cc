#include "recipe_edit.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "attune/base/json_tree.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "json_out.h"
#include "simulate.h"

namespace attune::cli {
namespace {

constexpr std::string_view kSchema = "attune.opened/1";
constexpr std::int64_t kMaxBytes = 1 << 20;
constexpr std::size_t kMostShown = 12;

std::string PathOf(const std::string& state_folder, const CampaignId& campaign) {
  return fmt::format("{}/opened/{}.json", state_folder, campaign.value);
}

// KEY=FILE with a path that means the same from anywhere.
std::string FromAnywhere(const std::string& set_file) {
  const std::size_t equals = set_file.find('=');
  if (equals == std::string::npos) return set_file;
  const std::filesystem::path path(set_file.substr(equals + 1));
  return set_file.substr(0, equals + 1) +
         std::filesystem::absolute(path).lexically_normal().string();
}

std::optional<std::vector<std::string>> Texts(const JsonNode* node) {
  if (node == nullptr || !node->IsArray()) return std::nullopt;
  std::vector<std::string> texts;
  for (const JsonNode& item : node->items) {
    if (!item.IsString()) return std::nullopt;
    texts.push_back(item.text);
  }
  return texts;
}

}  // namespace

Status KeepSource(const std::string& state_folder, const CampaignId& campaign,
                  const RecipeSource& source) {
  std::vector<std::string> set_file;
  for (const std::string& one : source.set_file) set_file.push_back(FromAnywhere(one));
  JsonOut json(kSchema);
  json.Texts("set", source.set);
  json.Texts("set_file", set_file);
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(state_folder + "/opened"));
  return os::WriteFileAtomic(PathOf(state_folder, campaign), json.Take() + "\n");
}

Result<std::optional<RecipeSource>> KeptSource(const std::string& state_folder,
                                               const CampaignId& campaign) {
  const std::string path = PathOf(state_folder, campaign);
  if (!os::Exists(path)) return std::optional<RecipeSource>();
  ATTUNE_TRY(const std::string text, os::ReadFileBounded(path, kMaxBytes));
  JsonBounds bounds;
  bounds.bytes = static_cast<std::size_t>(kMaxBytes);
  const JsonReading reading = ReadJson(text, bounds);
  const JsonNode* schema = reading.root.Find("schema");
  auto set = Texts(reading.root.Find("set"));
  auto set_file = Texts(reading.root.Find("set_file"));
  if (!reading.error.empty() || schema == nullptr || schema->text != kSchema || !set || !set_file) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{} is not what attune wrote there", path),
                "remove it: the recipe's file is then compared without --set");
  }
  return std::optional<RecipeSource>({std::move(*set), std::move(*set_file)});
}

Result<Recipe> RecipeNow(Wire& wire, const CampaignState& state) {
  const std::string& path = state.opened->recipe_path;
  ATTUNE_TRY(const std::string folder, wire.StateFolder());
  ATTUNE_TRY(const std::optional<RecipeSource> source, KeptSource(folder, state.id));
  const RecipeSource words = source.value_or(RecipeSource{});
  Result<LoadedRecipe> loaded = wire.ReadRecipe(path, words.set, words.set_file);
  if (!loaded) {
    wire.terminal().Warn(fmt::format("{}; {} goes on with its recipe as it was",
                                     loaded.error().message, state.id.value));
    return state.recipe;
  }
  if (!state.opened->world.empty()) Rehearse(*loaded);
  return RecipeNow(wire, state, loaded->recipe, source.has_value());
}

Result<Recipe> RecipeNow(Wire& wire, const CampaignState& state, const Recipe& file, bool certain) {
  std::size_t shown = 0;
  std::size_t decisive = 0;
  for (const RecipeChange& change : CompareRecipes(state.recipe, file)) {
    if (!change.free) ++decisive;
    if (change.free || ++shown > kMostShown) continue;
    wire.terminal().Warn(fmt::format("{} has changed: {} {} -> {}", state.opened->recipe_path,
                                     change.key, EscapeForDisplay(change.was, 80),
                                     EscapeForDisplay(change.now, 80)));
  }
  if (decisive == 0) return file;
  if (!certain) {  // a --set that nobody kept looks the same
    wire.terminal().Warn(fmt::format("{} goes on with its recipe as it was", state.id.value));
    return state.recipe;
  }
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("{} was opened with another {}: {} differences", state.id.value,
                          state.opened->recipe_path, decisive),
              "restore the file to go on with this campaign, or start one for the new recipe with "
              "attune run");
}

void TakeOver(Recipe& campaign, const Recipe& now) {
  campaign.price_gpu_hour_usd = now.price_gpu_hour_usd;
  campaign.notify_on = now.notify_on;
  campaign.notify_command = now.notify_command;
  campaign.llm.usd = now.llm.usd;
  campaign.llm.tokens = now.llm.tokens;
  campaign.llm.calls = now.llm.calls;
  campaign.llm.retries = now.llm.retries;
  campaign.launcher.session = now.launcher.session;
}

std::optional<GpuMillis> EditedBudget(const CampaignState& state, const Recipe& now) {
  const std::optional<double>& was = state.recipe.budget.gpu_hours;
  const std::optional<double>& is = now.budget.gpu_hours;
  if (!is || is == was) return std::nullopt;
  const bool by_flag =
      state.opened->budget && (!was || *state.opened->budget != FromGpuHours(*was));
  if (by_flag || (state.budget && FromGpuHours(*is) <= *state.budget)) return std::nullopt;
  return FromGpuHours(*is);
}

}  // namespace attune::cli
