// Any bytes as a recipe, as words of an args_file, and as a stored recipe: the readers must end,
// keep their bounds, and what they accept must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

void CheckMessage(const Error& error) {
  ATTUNE_CHECK(!error.message.empty(), "an error says something");
  ATTUNE_CHECK(error.message.find('\n') == std::string::npos, "a message is one line");
  ATTUNE_CHECK(IsValidUtf8(error.message), "a message is text");
}

void CheckRecipe(std::string_view text) {
  LoadOptions options;
  options.known_flags = {"--lr", "--seq-length", "--micro-batch-size"};
  options.getenv = [](const std::string& name) {
    return name == "DATA" ? std::optional<std::string>("/data") : std::nullopt;
  };
  // No file of this name: what it extends or names is not there, and nothing is written.
  const auto loaded = LoadRecipeText(text, "/nowhere/recipe.yaml", options);
  if (!loaded) {
    CheckMessage(loaded.error());
    return;
  }
  const auto stored = RecipeFromJson(loaded->canonical_json);
  ATTUNE_CHECK(stored.has_value(), "the stored form reads back");
  ATTUNE_CHECK(RecipeToJson(*stored) == loaded->canonical_json, "to the same text");
  const auto shown = LoadRecipeText(ShowRecipe(*loaded, true), "/nowhere/recipe.yaml", options);
  ATTUNE_CHECK(shown.has_value(), "the printed form reads back");
  ATTUNE_CHECK(shown->canonical_json == loaded->canonical_json, "to the same recipe");
  ATTUNE_CHECK(ParseArguments(loaded->recipe.base.args.Render()) == loaded->recipe.base.args,
               "what is executed is what was read");
}

void CheckWords(std::string_view text) {
  const auto words = ReadShellWords(text, "f.args");
  if (!words) {
    CheckMessage(words.error());
    return;
  }
  std::string again;
  int line = 1;
  for (const ShellWord& word : *words) {
    ATTUNE_CHECK(word.line >= line, "lines go up");
    line = word.line;
    again += ShellQuote(word.text) + "\n";
  }
  const auto same = ReadShellWords(again, "f.args");
  ATTUNE_CHECK(same && same->size() == words->size(), "quoted words are the same words");
  for (std::size_t i = 0; i < words->size(); ++i) {
    ATTUNE_CHECK((*same)[i].text == (*words)[i].text, "quoted words are the same words");
  }
}

}  // namespace
}  // namespace attune

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckRecipe(text);
  CheckWords(text);
  ScanScript(text, "run.sh");
  if (const auto stored = RecipeFromJson(text); !stored) {
    CheckMessage(stored.error());
  }
  LoadOptions set;
  set.set = {std::string(text)};
  const auto with_set = LoadRecipeText("schema: attune/recipe/1\n", "/nowhere/recipe.yaml", set);
  ATTUNE_CHECK(!with_set, "a recipe of one --set lacks what it needs");
  CheckMessage(with_set.error());
  return 0;
}
