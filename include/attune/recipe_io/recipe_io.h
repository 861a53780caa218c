// Recipe files: a strict reader with a place for every message, the canonical form that a campaign
// stores, and the overlay that ships a winner. What a file may say is docs/formats/recipe.md.
//
// Every function is pure but for the files it reads. Errors are kInvalidInput (kNotFound for a file
// that is not there) with a message of one line, "recipe.yaml:18:5: unknown key 'micro_batchsize'
// in levers", and `help` with what to do. No message ever holds the value of a refused secret.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/recipe.h"

namespace attune {

// Limits on foreign text: a recipe is a page or two, everything above is an accident or an attack.
inline constexpr std::size_t kMaxRecipeBytes = 1 << 20;
inline constexpr int kMaxRecipeDepth = 64;
inline constexpr int kMaxRecipeNodes = 20'000;
inline constexpr int kMaxExtendsDepth = 8;

struct LoadOptions {
  std::vector<std::string> set;       // "measure.steps=15"; "key=" removes
  std::vector<std::string> set_file;  // "key=FILE": the value is the file's text
  // Flags that the framework knows (gates' table). Only `framework: megatron-lm` reads them: an
  // abbreviation of one of them is an error, as argparse would quietly accept it. May be empty.
  std::vector<std::string> known_flags;
  // Lever ids of the framework (gates' table): `levers:` may name no other. Empty: not checked.
  std::vector<std::string> lever_ids;
  // Environment names that look like secrets and that the user's own config lets through.
  std::vector<std::string> allow_env;
  // Defaults of the user's own config, below everything a recipe says.
  double price_gpu_hour_usd = 0;
  std::vector<std::string> notify_command;
  // Reads ${ENV:NAME}; unset: the process environment.
  std::function<std::optional<std::string>(const std::string&)> getenv;
};

// Where a value of the effective recipe comes from.
struct Origin {
  std::string key;    // "measure.steps"; "args.--lr"; "declare.0.values"
  std::string value;  // as written
  std::string at;     // "recipe.yaml:18:5", "site/base.yaml:3:1", "--set", "base.args:12"
};

struct LoadWarning {
  std::string at;
  std::string text;
};

// Of the user's own launch script (launcher.script).
inline constexpr std::int64_t kMaxScriptBytes = 4 << 20;

// A word in the user's own script that starts or ends jobs that are not ours to touch
// (control_plane.md section 2b). `run` refuses them unless launcher.script.trusted.
struct ScriptFinding {
  std::string at;    // "run.sh:12"
  std::string word;  // "scontrol requeue"
};

struct LoadedRecipe {
  Recipe recipe;
  std::string canonical_json;  // RecipeToJson(recipe)
  std::string hash;            // RecipeHash(recipe)
  std::string path;            // as given
  std::vector<Origin> origins;
  std::vector<LoadWarning> warnings;
  std::vector<ScriptFinding> script_findings;
  std::vector<std::string> sources;  // the file itself, then what it extends, in reading order
};

Result<LoadedRecipe> LoadRecipe(const std::string& path, const LoadOptions& options = {});
// The same for text that is (or will be) the file `path`: relative names start in its folder.
Result<LoadedRecipe> LoadRecipeText(std::string_view text, const std::string& path,
                                    const LoadOptions& options = {});

// The effective recipe as a recipe file, block style, keys in the order of the documentation; with
// `origins` every line ends with "# file:line:column".
std::string ShowRecipe(const LoadedRecipe& loaded, bool origins);

// Canonical JSON: every field, fixed order, one line; RecipeToJson(RecipeFromJson(t)) == t. A key
// that this attune does not know is kNewerFormat; one that an older attune did not write has its
// default; anything else that is not what we wrote is kCorrupt.
std::string RecipeToJson(const Recipe& recipe);
Result<Recipe> RecipeFromJson(std::string_view text);

// SHA-256 over what decides the job and how it is measured and judged. Left out, since a campaign
// may go on with other values (control_plane.md section 0): name, description, tags, budget,
// price, notify, llm and the launcher's polling interval.
std::string RecipeHash(const Recipe& recipe);

// What differs between a frozen recipe and the file as it is now.
struct RecipeChange {
  std::string key, was, now;
  bool free = false;  // budget, price, notify, llm ...: resume may take it over
};
std::vector<RecipeChange> CompareRecipes(const Recipe& was, const Recipe& now);

// What ships: a recipe file that extends the user's own and says only what changed in args and env.
struct OverlayRequest {
  std::string user_path;              // the user's recipe, never rewritten
  std::string out_path;               // where the text will be written; decides the relative name
  Effective shipped;                  // arguments and environment of the winner
  std::vector<std::string> comments;  // lines for the head of the file: gain, campaign, evidence
  LoadOptions options;                // without `set`: an overlay must stand alone
};
// The text, read back with LoadRecipeText and compared before it is returned: its arguments and
// environment are exactly `shipped`, its command the user's.
Result<std::string> TunedOverlay(const OverlayRequest& request);

// Shell words with comments and continuations, as an args_file holds them; no shell ever reads
// them. `$`, backquote, globbing and operators outside single quotes are errors naming the line.
struct ShellWord {
  std::string text;
  int line = 0;  // from 1, where the word starts
};
Result<std::vector<ShellWord>> ReadShellWords(std::string_view text, const std::string& name);

// Words of control_plane.md section 2b in a script, comments skipped.
std::vector<ScriptFinding> ScanScript(std::string_view text, const std::string& name);

// JSON Schema (2020-12) of a recipe file, for editors: `attune schema recipe`.
std::string RecipeJsonSchema();

// Names of variables that may hold a secret: ATTUNE_LLM_*, AWS_*, *_TOKEN, *_KEY, *_SECRET,
// *_PASSWORD (DESIGN section 6).
bool IsSecretEnvName(std::string_view name);

}  // namespace attune
