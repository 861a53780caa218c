// What ships. The user's file stays as it is; ours extends it and says what changed.
#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"
#include "file_text.h"
#include "yaml_emit.h"

namespace attune {
namespace {

std::string ArgumentLine(const Edit& edit) {
  const std::string key =
      YamlScalar(edit.name.starts_with("--") ? edit.name.substr(2) : edit.name, false);
  const auto scalar = [](const std::string& text) {
    return YamlScalar(text, ParseDouble(text).has_value());
  };
  if (edit.op == Edit::Op::kUnset) {
    return fmt::format("  {}: false\n", key);
  }
  if (edit.values.empty()) {
    return fmt::format("  {}: true\n", key);
  }
  if (edit.values.size() == 1) {
    return fmt::format("  {}: {}\n", key, scalar(edit.values.front()));
  }
  std::vector<std::string> values;
  for (const std::string& value : edit.values) {
    values.push_back(scalar(value));
  }
  return fmt::format("  {}: [{}]\n", key, Join(values, ", "));
}

std::string OverlayText(const OverlayRequest& request, const LoadedRecipe& user) {
  std::string text = "schema: attune/recipe/1\n";
  for (const std::string& comment : request.comments) {
    text += fmt::format("# {}\n", EscapeForDisplay(comment, 2000));
  }
  const std::string below = RelativeTo(Normal(AbsolutePath(request.user_path)),
                                       FolderOf(Normal(AbsolutePath(request.out_path))));
  text += fmt::format("extends: {}\n", YamlScalar(below, false));
  std::string args;
  std::string env;
  for (const Edit& edit : Difference(user.recipe.base, request.shipped)) {
    switch (edit.op) {
      case Edit::Op::kSet:
      case Edit::Op::kUnset:
        args += ArgumentLine(edit);
        break;
      case Edit::Op::kEnv:
        env += fmt::format("    {}: {}\n", YamlScalar(edit.name, false),
                           YamlScalar(edit.values.front(), false));
        break;
      case Edit::Op::kUnsetEnv:
        env += fmt::format("    {}:\n", YamlScalar(edit.name, false));
        break;
    }
  }
  if (!args.empty()) {
    text += "args:\n" + args;
  }
  if (!env.empty()) {
    text += "launcher:\n  env:\n" + env;
  }
  return text;
}

// Order of flags is the file's business, not the winner's: compared as the gates compare.
bool SameEffective(const Effective& a, const Effective& b) {
  return CanonicalHash(a) == CanonicalHash(b) && a.env == b.env;
}

}  // namespace

Result<std::string> TunedOverlay(const OverlayRequest& request) {
  ATTUNE_TRY(const LoadedRecipe user, LoadRecipe(request.user_path, request.options));
  std::string text = OverlayText(request, user);
  const Result<LoadedRecipe> again = LoadRecipeText(text, request.out_path, request.options);
  if (!again) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the tuned recipe does not read back: {}", again.error().message));
  }
  if (!SameEffective(again->recipe.base, request.shipped)) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the tuned recipe reads back otherwise: {}",
                            DescribeDifference(request.shipped, again->recipe.base)));
  }
  if (again->recipe.command != user.recipe.command || again->recipe.folder != user.recipe.folder) {
    return Fail(ErrorCode::kInternal, "the tuned recipe starts another command");
  }
  return text;
}

}  // namespace attune
