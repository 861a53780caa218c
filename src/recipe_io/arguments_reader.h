// `args` and `args_file` of a recipe as one ordered list of flags.
#pragma once

#include <string>
#include <vector>

#include "attune/model/arguments.h"
#include "attune/recipe_io/recipe_io.h"
#include "secrets.h"
#include "attune/recipe_io/tree.h"

namespace attune {

struct ArgumentsRequest {
  const Node* args = nullptr;    // list, map, or list with edits; nullptr: none
  std::vector<PlacedText> file;  // words of args_file
  bool argparse = false;         // framework megatron-lm: what argparse would guess at is wrong
  const std::vector<std::string>* known_flags = nullptr;
};
struct PlacedArguments {
  Arguments args;
  std::vector<Origin> origins;  // "args.--lr"
};

// Tokens first (args_file, or the list), then the map's entries by flag: a value sets, `true` is a
// bare flag, `false` removes. The result reads back from its own rendering.
Result<PlacedArguments> ReadArguments(const ArgumentsRequest& request, const Sources& sources);

}  // namespace attune
