// What the reading commands say of a whole campaign: one on the simulated cluster, run once by the
// real program.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "run_attune.h"

namespace attune::cli {
namespace {

using Json = nlohmann::ordered_json;

// As much of JSON Schema as our schemas use. What does not fit: path and reason.
class Validator {
 public:
  std::string Trouble(const Json& schema, const Json& value) {
    trouble_.clear();
    Check(schema, value, "");
    return trouble_;
  }

 private:
  static bool IsType(const std::string& type, const Json& v) {
    return (type == "object" && v.is_object()) || (type == "array" && v.is_array()) ||
           (type == "string" && v.is_string()) || (type == "boolean" && v.is_boolean()) ||
           (type == "null" && v.is_null()) || (type == "number" && v.is_number()) ||
           (type == "integer" && v.is_number_integer());
  }
  void Say(const std::string& at, const std::string& what) {
    if (trouble_.empty()) trouble_ = (at.empty() ? "." : at) + ": " + what;
  }
  void Check(const Json& s, const Json& v, const std::string& at) {
    if (!trouble_.empty()) return;
    if (s.contains("const") && s["const"] != v) Say(at, "is not " + s["const"].dump());
    if (s.contains("enum")) {
      bool any = false;
      for (const Json& word : s["enum"]) any = any || word == v;
      if (!any) Say(at, v.dump() + " is none of " + s["enum"].dump());
    }
    if (s.contains("type")) {
      const Json types = s["type"].is_array() ? s["type"] : Json::array({s["type"]});
      bool any = false;
      for (const Json& type : types) any = any || IsType(type.get<std::string>(), v);
      if (!any) Say(at, v.dump().substr(0, 60) + " is no " + types.dump());
    }
    if (v.is_object()) Members(s, v, at);
    if (v.is_array() && s.contains("items")) {
      for (const Json& item : v) Check(s["items"], item, at + "[]");
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      if (s.contains(key) && trouble_.empty()) Choices(s[key], v, at, key);
    }
  }
  void Members(const Json& s, const Json& v, const std::string& at) {
    for (const Json& name : s.value("required", Json::array())) {
      if (!v.contains(name.get<std::string>())) Say(at, "lacks " + name.dump());
    }
    for (const auto& [name, member] : v.items()) {
      if (s.contains("properties") && s["properties"].contains(name)) {
        Check(s["properties"][name], member, at + "." + name);
      } else if (s.contains("additionalProperties")) {
        Check(s["additionalProperties"], member, at + "." + name);
      } else if (s.contains("properties") && strict_) {
        Say(at, "the schema does not know " + name);
      }
    }
  }
  void Choices(const Json& choices, const Json& v, const std::string& at, const std::string& key) {
    int fit = 0;
    std::string last;
    for (const Json& choice : choices) {
      Validator one;
      one.strict_ = key == "anyOf" && strict_;  // oneOf: the rest of the line is checked outside
      const std::string wrong = one.Trouble(choice, v);
      if (wrong.empty()) ++fit;
      if (wrong.find(".kind") == std::string::npos) last = wrong.empty() ? last : wrong;
    }
    if (fit == 0 || (key == "oneOf" && fit != 1)) {
      Say(at, fmt::format("{} of {} fit: {}", fit, key, last));
    }
  }

  std::string trouble_;
  bool strict_ = true;  // a member that the schema does not know is a failure too
};

class Views : public Program {
 protected:
  static constexpr const char* kRecipe =
      ATTUNE_SOURCE_DIR "/examples/glm-4.7-flash-h200x8/recipe.yaml";

  std::vector<std::string> Run(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"run",    kRecipe, "--launcher", "sim",
                                      "--seed", "5",     "--world",    "default:1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json JsonOf(const std::vector<std::string>& words, int code = 0) {
    const os::CommandResult r = Attune(words);
    EXPECT_EQ(r.exit_code, code) << Join(words, " ") << "\n" << r.err;
    Json json = Json::parse(r.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << Join(words, " ") << "\n" << r.out.substr(0, 400);
    return json;
  }
};

TEST_F(Views, EveryEventAndTheStatusFitTheirSchemas) {
  const os::CommandResult run = Attune(Run({"--events", "events.ndjson"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json events = JsonOf({"schema", "events"});
  const std::string text = Slurp(folder_ + "/events.ndjson");
  EXPECT_EQ(text, Attune({"db", "export"}).out);
  std::int64_t lines = 0;
  for (const std::string_view line : SplitLines(text)) {
    const Json event = Json::parse(line);
    ASSERT_EQ(Validator().Trouble(events, event), "") << line.substr(0, 200);
    EXPECT_EQ(event["seq"], ++lines);
  }
  EXPECT_GT(lines, 50);
  // One field less does not pass: the schema says something.
  Json first = Json::parse(SplitLines(text).front());
  first["body"].erase("recipe_hash");
  EXPECT_NE(Validator().Trouble(events, first), "");

  const Json status = JsonOf({"status", "--json"});
  EXPECT_EQ(Validator().Trouble(JsonOf({"schema", "status"}), status), "") << status.dump(1);
  EXPECT_EQ(status["gpu_hours"]["reserved"], 0);
  EXPECT_TRUE(status["llm"].is_null());
  // Nothing is new to watch in an ended campaign: one answer, and it leaves.
  EXPECT_EQ(JsonOf({"status", "--watch", "--json"}), status);
}

TEST_F(Views, ExportWritesABatchScriptWhereTheRecipeNamesAJobAndNeverTheRecipeItself) {
  const std::string own = std::string("schema: attune/recipe/1\nextends: \"") + kRecipe +
                          "\"\nname: own\n"
                          "launcher: {sbatch: {partition: gpu, account: \"team x\"}}\n";
  Write("own.yaml", own);
  ASSERT_EQ(Attune({"run", "own.yaml", "--launcher", "sim", "--seed", "5", "--world", "default:1"})
                .exit_code,
            0);
  const os::CommandResult script = Attune({"export", "--as", "sbatch"});
  EXPECT_EQ(script.exit_code, 0) << script.err;
  for (const char* line :
       {"#!/bin/sh\n", "#SBATCH --job-name=own\n", "#SBATCH --export=NONE\n", "#SBATCH --nodes=1\n",
        "#SBATCH --gpus-per-node=8\n", "#SBATCH --partition=gpu\n", "#SBATCH --account='team x'\n",
        "  'pretrain_gpt.py' \\\n"}) {
    EXPECT_NE(script.out.find(line), std::string::npos) << line << script.out;
  }
  EXPECT_NE(Attune({"export", "--as", "sbatch", "--baseline"}).out, script.out);
  EXPECT_EQ(Attune({"export", "--as", "recipe", "-o", "own.yaml"}).exit_code, 2);
  EXPECT_EQ(Slurp(folder_ + "/own.yaml"), own);

  ASSERT_EQ(Attune(Run()).exit_code, 0);
  const os::CommandResult none = Attune({"export", "--as", "sbatch"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("names no Slurm job"), std::string::npos) << none.err;
}

TEST_F(Views, CompletionKnowsCampaignsRunsAndProposals) {
  ASSERT_EQ(Attune(Run()).exit_code, 0);
  const std::string id = JsonOf({"status", "--json"})["campaign"];
  EXPECT_EQ(Attune({"__complete", "status", "c-"}).out, id + "\n");
  EXPECT_EQ(Attune({"__complete", "runs", "-c", id.substr(0, 3)}).out, id + "\n");
  EXPECT_EQ(Attune({"__complete", "show", "r00"}).out.substr(0, 5), "r001\n");
  EXPECT_EQ(Attune({"__complete", "retry", "r001", "r002"}).out, "r002\n");
  EXPECT_EQ(Attune({"__complete", "logs", "p"}).out, "");
  EXPECT_EQ(Attune({"__complete", "explain", "p00"}).out.substr(0, 5), "p001\n");
  EXPECT_EQ(Attune({"__complete", "--state", folder_ + "/none", "show", "r"}).out, "");
}

TEST_F(Views, ADryRunSaysWhatWouldBeDoneAndWritesNothing) {
  const os::CommandResult dry = Attune(Run({"--dry-run"}));
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_NE(dry.out.find("nothing was launched\nwould open a new campaign\n"), std::string::npos)
      << dry.out;
  struct stat st {};
  EXPECT_NE(stat((folder_ + "/state").c_str(), &st), 0) << "it wrote a state folder";
  EXPECT_EQ(JsonOf(Run({"--dry-run", "--json"}))["outcome"], "would open a new campaign");
  ASSERT_EQ(Attune(Run()).exit_code, 0);
  const std::string before = Attune({"db", "export"}).out;
  const Json again = JsonOf(Run({"--dry-run", "--if-changed", "--json"}), 3);
  EXPECT_EQ(again["outcome"].get<std::string>().find("would do nothing: c-"), 0U);
  EXPECT_EQ(Attune({"db", "export"}).out, before);
  // A wrong flag is wrong in a dry run too.
  EXPECT_EQ(Attune(Run({"--dry-run", "--tuner", "scripted"})).exit_code, 2);
}

TEST_F(Views, NothingToDoIsAnObjectUnderJson) {
  ASSERT_EQ(Attune(Run()).exit_code, 0);
  for (const std::vector<std::string>& words :
       {Run({"--if-changed", "--json"}), std::vector<std::string>{"resume", "--json"},
        std::vector<std::string>{"stop", "--json"}}) {
    const Json json = JsonOf(words, 3);
    EXPECT_TRUE(json.contains("schema")) << json.dump();
    EXPECT_TRUE(json.contains("campaign")) << json.dump();
  }
}

TEST_F(Views, AReaderOfTheProgressThatLeavesEndsNothing) {
  std::string words = ATTUNE_BINARY;
  for (const std::string& word : Run()) words += " " + ShellQuote(word);
  os::Command command;
  command.argv = {"/bin/sh", "-c", "{ " + words + "; echo $? > code; } 2>&1 | head -n 1"};
  command.workdir = folder_;
  command.env = os::Environment{{"PATH", "/usr/bin:/bin"}, {"XDG_STATE_HOME", folder_ + "/state"}};
  os::PosixProcessRunner runner;
  ASSERT_TRUE(runner.Run(command));
  EXPECT_EQ(Slurp(folder_ + "/code"), "0\n");
  EXPECT_EQ(JsonOf({"status", "--json"})["phase"], "shipped");
}

// The catalog's word on a lever, where it is looked for.
TEST_F(Views, LeversShowTellsWhatTheCatalogKnows) {
  const std::string text = Attune({"levers", "show", "dp_overlap"}).out;
  for (const char* part : {"  against exposed_communication", "  when    ", "  costs   ",
                           "  move    ", "  known   "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const Json json = JsonOf({"levers", "show", "dp_overlap", "--json"});
  EXPECT_FALSE(json["catalog"]["moves"].empty());
  EXPECT_EQ(json["lever"]["helps"], json["catalog"]["helps"]);
}

}  // namespace
}  // namespace attune::cli
