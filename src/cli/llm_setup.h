// From flags, variables and the user's own configuration to a client that can ask a model. The one
// place where a key is read (docs/formats/config.md): it goes into the client and the redactors and
// nowhere else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/llm/profile.h"
#include "attune/model/recipe.h"
#include "attune/os/process.h"
#include "attune/recipe_io/user_config.h"
#include "options.h"

namespace attune::cli {

struct LlmFlags {
  std::string replay;  // --llm replay:CAMPAIGN or :DIR, without the word
  std::string model, key_file;
  std::optional<double> budget_usd;

  void Declare(Options& options);         // of run and resume
  void DeclareOpening(Options& options);  // what a campaign is opened with
  Status Check();                         // of --llm's form; called after parsing
  bool Any() const { return !llm_.empty() || !model.empty() || budget_usd.has_value(); }

 private:
  std::string llm_;
};

// The models to ask, first choice first: --model, then ATTUNE_LLM_MODEL, the recipe's llm.profile
// and llm.model, the configuration; after it what `fallback` names. kDenied: a key is missing, lies
// open or is meant for another origin. kInvalidInput: no model, no endpoint.
struct ModelSetup {
  const UserConfig& config;
  const LlmFlags& flags;
  GetEnv getenv;
  os::ProcessRunner& runner;  // api_key_command
  // Told once: "key file is readable by group (mode 0640)".
  std::function<void(const std::string&)> warn;
  // Told of each key as soon as it is read, before anything can be said about it.
  std::function<void(std::string_view name, std::string_view value)> hide;
};
Result<std::vector<llm::Profile>> ModelProfiles(const ModelSetup& setup, const LlmSpec& recipe);

// Tries and waits: the configuration's, then the recipe's llm.retries.
llm::Patience PatienceOf(const LlmConfig& config, const LlmSpec& recipe);

// --llm-budget, else the recipe's; in micro-dollars. kInvalidInput: a model whose price is unknown.
Result<std::optional<std::int64_t>> LlmBudget(const LlmFlags& flags, const Recipe& recipe,
                                              const std::vector<llm::Profile>& models);

}  // namespace attune::cli
