// Secrets have no place in a recipe: it is shared, stored and shown (cli.md section 5). The value
// of what is refused never reaches a message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/recipe_io/tree.h"

namespace attune {

// Refuses a literal under a key that names a secret, a value in the form of a known kind of key,
// and user:password@ in a URL, anywhere in the tree. `allow`: names that the user's own config lets
// through; their values are still looked at.
Status RefuseSecrets(const Node& root, const std::vector<std::string>& allow,
                     const Sources& sources);

// The same for tokens of a command line: "--hf-token X", "--hf-token=X".
struct PlacedText {
  std::string text;
  Where where;
};
Status RefuseSecretArguments(const std::vector<PlacedText>& tokens, const Sources& sources);

// Names of keys and flags: "api_key", "hf-token", "password"; not "pad_token", "use_cls_token",
// "calculate-per-token-loss", "tokenizer".
bool NamesSecret(std::string_view name);

}  // namespace attune
