// Secrets, shell words, merging, writing YAML.
#include <gtest/gtest.h>

#include "attune/recipe_io/recipe_io.h"
#include "merge.h"
#include "secrets.h"
#include "attune/recipe_io/tree.h"
#include "yaml_emit.h"

namespace attune {
namespace {

TEST(NamesSecret, KnowsKeysFromWordsOfTheTrade) {
  for (const char* secret :
       {"api_key", "API-KEY", "wandb_api_key", "token", "hf_token", "--hf-token", "auth_token",
        "password", "db_password", "client_secret", "aws_secret_access_key", "authorization",
        "private_key", "credentials", "my.hf.token"}) {
    EXPECT_TRUE(NamesSecret(secret)) << secret;
  }
  for (const char* word : {"use_cls_token", "pad_token", "--calculate-per-token-loss", "eos_token",
                           "mask_token", "tokenizer", "--tokenizer-type", "tokens", "max_tokens",
                           "--moe-token-dispatcher-type", "image_token", "num_key_value_heads",
                           "key", "keys", "secretary", "passwordless", "query_key", "monkey"}) {
    EXPECT_FALSE(NamesSecret(word)) << word;
  }
}

TEST(IsSecretEnvName, FollowsTheListOfTheDesign) {
  for (const char* secret : {"ATTUNE_LLM_ENDPOINT", "AWS_REGION", "HF_TOKEN", "WANDB_API_KEY",
                             "DB_PASSWORD", "CLIENT_SECRET", "hf_token"}) {
    EXPECT_TRUE(IsSecretEnvName(secret)) << secret;
  }
  for (const char* name : {"TOKENIZERS_PARALLELISM", "HF_HOME", "NCCL_DEBUG", "KEYBOARD", "PATH"}) {
    EXPECT_FALSE(IsSecretEnvName(name)) << name;
  }
}

std::vector<std::string> Words(std::string_view text) {
  const auto words = ReadShellWords(text, "f");
  if (!words) {
    return {"error: " + words.error().message};
  }
  std::vector<std::string> out;
  for (const ShellWord& word : *words) {
    out.push_back(word.text);
  }
  return out;
}

// Each row: what /bin/sh gives for the same text.
TEST(ReadShellWords, SplitsAsAShellDoes) {
  using V = std::vector<std::string>;
  EXPECT_EQ(Words("--lr 1e-4  --bf16\n--x\t'a b'"), (V{"--lr", "1e-4", "--bf16", "--x", "a b"}));
  EXPECT_EQ(Words("a\\\nb c \\\n d"), (V{"ab", "c", "d"}));
  EXPECT_EQ(Words("a # comment $x\n# more\nb#c"), (V{"a", "b#c"}));
  EXPECT_EQ(Words("'a'\"b\"c"), (V{"abc"}));
  EXPECT_EQ(Words("'' \"\" x"), (V{"", "", "x"}));
  EXPECT_EQ(Words(R"("a\"b\\c\d\$e")"), (V{R"(a"b\c\d$e)"}));
  EXPECT_EQ(Words(R"(a\ b \$x \* '$y*`')"), (V{"a b", "$x", "*", "$y*`"}));
  EXPECT_EQ(Words("a~b --x=1,2"), (V{"a~b", "--x=1,2"}));
  EXPECT_EQ(Words("\"a\\\nb\""), (V{"ab"}));
  EXPECT_EQ(Words(""), V{});
}

TEST(ReadShellWords, NamesTheLineOfWhatAShellWouldExpand) {
  for (const char* text : {"$x", "\"$x\"", "`x`", "\"`x`\"", "*", "a?", "[a]", "~", "a;b", "a|b",
                           "a&", "<x", ">x", "(a", "{a,b}", "'a", "\"a", "a\\", "a\x01"}) {
    const auto words = ReadShellWords(std::string("ok\n\n") + text, "f");
    ASSERT_FALSE(words) << text;
    EXPECT_TRUE(words.error().message.starts_with("f:3: ")) << words.error().message;
  }
}

TEST(ReadShellWords, WordsKnowTheirLine) {
  const auto words = ReadShellWords("a \\\n b\n\nc", "f");
  ASSERT_TRUE(words);
  EXPECT_EQ((*words)[1].line, 2);
  EXPECT_EQ((*words)[2].line, 4);
}

TEST(ScanScript, SeesWordsInCommandsAndNotInComments) {
  EXPECT_EQ(ScanScript("x=$(sbatch job)\n", "s").size(), 1u);
  EXPECT_EQ(ScanScript("ray stop; killall python", "s").size(), 2u);
  EXPECT_EQ(
      ScanScript("# pkill\nray start\nscontrol show job\nmy-ssh-tool\nsshd_config", "s").size(),
      0u);
}

Node Parse(std::string_view text) {
  Sources sources;
  const int source = sources.Add("t");
  auto node = ParseYaml(text, source, sources);
  EXPECT_TRUE(node) << (node ? "" : node.error().message);
  return node ? std::move(*node) : Node();
}

bool Same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size() ||
      a.entries.size() != b.entries.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!Same(a.items[i], b.items[i])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].key != b.entries[i].key || !Same(a.entries[i].value, b.entries[i].value)) {
      return false;
    }
  }
  return true;
}

TEST(EmitYaml, ReadsBackToTheSameTree) {
  const Node tree = Parse(R"(a: "yes"
"on": "x: y # z"
c: ["a, b", "[x]", "", "null", "~", " lead", "trail ", "010", 1e-4, true, "true", "é", "a\tb"]
d: {e: {f: 1, "g h": "{x}"}, empty: {}, list: []}
h:
  - {i: 1, j: [2, 3], k: [{l: "!x"}, {m: "&y"}]}
  - {n: "-", o: "- x", p: "?", q: "@", r: "%", s: "`", t: ">", u: "|", v: "'", w: "\""}
long: "a very long text with many words that a folding writer would break into several lines ok"
multi: "two\nlines"
)");
  const std::string text = EmitYaml(tree);
  EXPECT_TRUE(Same(Parse(text), tree)) << text;
}

TEST(ParseYaml, KeepsQuotesApartFromPlainWords) {
  const Node tree = Parse("a: 1\nb: '1'\nc: |\n  text\n");
  EXPECT_TRUE(tree.Find("a")->plain);
  EXPECT_FALSE(tree.Find("b")->plain);
  EXPECT_FALSE(tree.Find("c")->plain);
  EXPECT_EQ(tree.Find("b")->where.column, 4);
}

TEST(ParseYaml, AliasesAreCopies) {
  const Node tree = Parse("a: &x {k: 1}\nb: *x\n");
  EXPECT_EQ(tree.Find("b")->Find("k")->text, "1");
}

TEST(ParseSet, TakesOneScalarAndAPathOfKeys) {
  Sources sources;
  const auto value = [&](std::string_view option, std::string_view a, std::string_view b) {
    const auto tree = ParseSet(option, sources);
    EXPECT_TRUE(tree) << (tree ? "" : tree.error().message);
    return tree ? *tree->Find(a)->Find(b) : Node();
  };
  EXPECT_EQ(value("a.b=1", "a", "b").text, "1");
  EXPECT_TRUE(value("a.b=", "a", "b").IsNull());
  EXPECT_EQ(value("a.\"x.y\"=1", "a", "x.y").text, "1");
  EXPECT_EQ(value("a.b=\"00:30:00\"", "a", "b").text, "00:30:00");
  EXPECT_EQ(value("a.b=x=y", "a", "b").text, "x=y");
  EXPECT_EQ(value("a.b=[1, 2]", "a", "b").items.size(), 2u);
  for (const char* bad : {"=1", "a", "a..b=1", ".a=1", "a.=1", "a.\"x=1", "a=b: c", "a=- x"}) {
    EXPECT_FALSE(ParseSet(bad, sources)) << bad;
  }
}

}  // namespace
}  // namespace attune
