#include "secrets.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "attune/base/redact.h"
#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

constexpr std::string_view kHelp =
    "name a variable in launcher.pass_env, or a file outside; the value is not shown here";

std::string Canonical(std::string_view name) {
  while (name.starts_with('-')) {
    name.remove_prefix(1);
  }
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c + 32);
    } else if (c == '-' || c == '.' || c == ' ') {
      c = '_';
    }
  }
  return out;
}

// Whole words at the end of a name: "wandb_api_key" ends in "api_key".
constexpr std::array<std::string_view, 17> kSecretEndings = {
    "api_key",    "apikey",       "access_key", "secret_key",   "private_key", "secret",
    "password",   "passwd",       "passphrase", "credential",   "credentials", "authorization",
    "auth_token", "access_token", "api_token",  "bearer_token", "hub_token"};
// "token" alone is a secret; "pad_token", "cls_token", "per_token" are words of the trade, so only
// these owners make one of it.
constexpr std::array<std::string_view, 14> kTokenOwners = {
    "hf",     "huggingface", "wandb", "github", "gitlab", "git",     "session",
    "secret", "refresh",     "id",    "jwt",    "oauth",  "service", "slack"};

bool EndsInWord(std::string_view name, std::string_view word) {
  if (!name.ends_with(word)) {
    return false;
  }
  return name.size() == word.size() || name[name.size() - word.size() - 1] == '_';
}

tl::unexpected<Error> Refuse(const Sources& sources, const Where& where, std::string_view what) {
  return FailAt(sources, where, what, std::string(kHelp));
}

bool IsLiteral(const Node& value) {
  if (value.IsList()) {
    return std::any_of(value.items.begin(), value.items.end(), IsLiteral);
  }
  return value.IsScalar() && !value.text.empty() &&
         !(value.plain && (value.text == "true" || value.text == "false"));
}

bool Holds(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

Status RefuseSecrets(const Node& node, const std::vector<std::string>& allow,
                     const Sources& sources) {
  if (node.IsScalar() && LooksLikeSecret(node.text)) {
    return Refuse(sources, node.where, "this value looks like a secret");
  }
  for (const Node& item : node.items) {
    ATTUNE_RETURN_IF_ERROR(RefuseSecrets(item, allow, sources));
  }
  for (const Entry& entry : node.entries) {
    if (LooksLikeSecret(entry.key)) {
      return Refuse(sources, entry.where, "this key looks like a secret");
    }
    if (NamesSecret(entry.key) && IsLiteral(entry.value) && !Holds(allow, entry.key)) {
      return Refuse(sources, entry.where,
                    fmt::format("'{}' is a secret by its name; a recipe must not hold one",
                                EscapeForDisplay(entry.key, 80)));
    }
    ATTUNE_RETURN_IF_ERROR(RefuseSecrets(entry.value, allow, sources));
  }
  return {};
}

bool NamesSecret(std::string_view name) {
  const std::string canonical = Canonical(name);
  if (canonical == "token") {
    return true;
  }
  for (const std::string_view ending : kSecretEndings) {
    if (EndsInWord(canonical, ending)) {
      return true;
    }
  }
  if (!EndsInWord(canonical, "token")) {
    return false;
  }
  const std::string_view owner =
      std::string_view(canonical).substr(0, canonical.size() - std::string_view("_token").size());
  return std::any_of(kTokenOwners.begin(), kTokenOwners.end(),
                     [&](std::string_view known) { return EndsInWord(owner, known); });
}

Status RefuseSecretArguments(const std::vector<PlacedText>& tokens, const Sources& sources) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i].text;
    if (LooksLikeSecret(token)) {
      return Refuse(sources, tokens[i].where, "this value looks like a secret");
    }
    if (!token.starts_with('-')) {
      continue;
    }
    const std::size_t equals = token.find('=');
    const std::string_view flag = std::string_view(token).substr(0, equals);
    if (!NamesSecret(flag)) {
      continue;
    }
    const bool has_value = equals != std::string::npos
                               ? equals + 1 < token.size()
                               : i + 1 < tokens.size() && !tokens[i + 1].text.starts_with("--");
    if (has_value) {
      return Refuse(sources, tokens[i].where,
                    fmt::format("{} takes a secret by its name; a recipe must not hold one",
                                EscapeForDisplay(flag, 80)));
    }
  }
  return {};
}

bool IsSecretEnvName(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 32);
    }
  }
  constexpr std::array<std::string_view, 2> kPrefixes = {"ATTUNE_LLM_", "AWS_"};
  constexpr std::array<std::string_view, 4> kSuffixes = {"_TOKEN", "_KEY", "_SECRET", "_PASSWORD"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view p) { return upper.starts_with(p); }) ||
         std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view s) { return upper.ends_with(s); });
}

}  // namespace attune
