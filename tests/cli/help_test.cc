// What help says, word for word, and that it says nothing that is not so.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "command.h"
#include "golden.h"
#include "parse.h"
#include "run_attune.h"

namespace attune::cli {
namespace {

using Help = Program;

TEST_F(Help, OfAttuneItselfAndTheStartAreAsStored) {
  ExpectGolden("help", Attune({"--help"}).out);
  ExpectGolden("start", Attune({}).out);
}

TEST_F(Help, OfEveryCommandIsAsStored) {
  for (const CommandRow& row : Commands()) {
    if (row.hidden) {
      continue;
    }
    const std::string name(row.name);
    const os::CommandResult help = Attune({name, "--help"});
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_EQ(help.err, "") << name;
    std::string text = help.out;
    for (const std::string& sub : SubcommandNames(name)) {
      text += "\n" + Attune({name, sub, "--help"}).out;
    }
    ExpectGolden("help-" + name, text);
    EXPECT_EQ(Attune({"help", name}).out, help.out) << name;
  }
}

TEST_F(Help, TopicsAreAsStored) {
  ExpectGolden("topic-exit-codes", Attune({"help", "exit-codes"}).out);
  ExpectGolden("topic-environment", Attune({"help", "environment"}).out);
  ExpectGolden("topic-recipe", Attune({"help", "recipe"}).out);
}

TEST_F(Help, TheRecipeOfTheTopicReads) {
  const std::string topic = Attune({"help", "recipe"}).out;
  std::string recipe;
  for (const std::string_view line : SplitLines(topic)) {
    if (line.starts_with("  ")) {
      recipe += std::string(line.substr(2)) + "\n";
    }
  }
  Write("recipe.yaml", recipe);
  const os::CommandResult check = Attune({"check", "recipe.yaml"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
}

std::vector<std::string> CommandWords(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string_view word : Split(line.substr(0, line.find('#')), ' ')) {
    if (word == ">" || word == "|") {
      break;
    }
    if (!word.empty()) {
      words.emplace_back(word);
    }
  }
  return words;
}

// A hint that names a flag that is not there is worse than none.
TEST(Examples, AllParse) {
  int seen = 0;
  for (const CommandRow& row : Commands()) {
    for (const std::string_view line : SplitLines(row.examples)) {
      const std::size_t at = line.find("attune ");
      ASSERT_NE(at, std::string_view::npos) << line;
      std::string text(line.substr(at + 7));
      text.erase(std::min(text.find(')'), text.size()));  // source <(attune completion bash)
      GlobalFlags flags;
      Terminal terminal(-1, -1, -1);
      const Parsed parsed = ParseCommandLine(CommandWords(text), flags, terminal);
      EXPECT_NE(parsed.command, nullptr) << line;
      ++seen;
    }
  }
  EXPECT_GT(seen, 5);
}

TEST(Start, NamesOnlyCommandsThatExist) {
  const std::string start = Slurp(ATTUNE_SOURCE_DIR "/tests/cli/start.golden");
  for (const std::string_view line : SplitLines(start)) {
    const std::vector<std::string> words = CommandWords(line);
    ASSERT_GE(words.size(), 2u);
    EXPECT_EQ(words[0], "attune");
    EXPECT_NE(FindCommand(words[1]), nullptr) << words[1];
  }
}

}  // namespace
}  // namespace attune::cli
