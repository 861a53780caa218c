// From the merged tree to the Recipe.
#pragma once

#include <string>
#include <vector>

#include "attune/recipe_io/recipe_io.h"
#include "attune/recipe_io/section.h"
#include "attune/recipe_io/tree.h"

namespace attune {

// A file (or a --set option) that the tree was made of.
struct SourceFolder {
  std::string shown;     // as in messages
  std::string absolute;  // relative names in the file start here
};

struct ReadContext {
  Node root;  // merged; ${ENV:} is replaced in place
  Sources& sources;
  std::vector<SourceFolder> folders;  // one a source
  const LoadOptions& options;
};

// Fills recipe, origins, warnings and script_findings.
Status ReadRecipe(ReadContext& context, LoadedRecipe& out);

// ----- shared by the files of the reader

// Replaces ${ENV:NAME} in launcher.env and in paths; anywhere else it is an error.
Status ExpandEnvironment(ReadContext& context);

class PathReader {
 public:
  PathReader(const ReadContext& context, std::string folder)
      : context_(context), folder_(std::move(folder)) {}
  // Relative names start in the folder of the file that says them; `folder` itself is left out.
  std::string Resolve(const std::string& path, const Where& where) const;
  void Path(const Section& section, std::string_view key, std::string& out) const;
  void Paths(const Section& section, std::string_view key, std::vector<std::string>& out) const;

 private:
  const ReadContext& context_;
  std::string folder_;
};

void CheckEnvName(const std::string& name, const Where& where, const LoadOptions& options,
                  Problems& problems);
std::string FlagName(const std::string& key);  // "--" before a name without dashes
bool IsFlag(std::string_view text);

void ReadMeasure(const Section& measure, Recipe& recipe);
void ReadGate(const Section& gate, Recipe& recipe);
void ReadProfile(const Section& profile, Recipe& recipe);
void ReadLauncher(const Section& launcher, const PathReader& paths, const LoadOptions& options,
                  Recipe& recipe);
void ReadBudget(const Section& budget, Recipe& recipe);
void ReadLlm(const Section& llm, Recipe& recipe);
void ReadDeclared(const Section& recipe_section, const LoadOptions& options, Recipe& recipe);
void ReadLevers(const Section& levers, const LoadOptions& options, Recipe& recipe);

}  // namespace attune
