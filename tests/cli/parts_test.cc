#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "approval.h"
#include "attune/logs/log_parser.h"
#include "attune/recipe_io/recipe_io.h"
#include "exit_code.h"
#include "hold.h"
#include "json_out.h"
#include "sim_scan.h"
#include "terminal.h"

namespace attune::cli {
namespace {

// Of a baseline a broken start-up rule is a caution; a scan asks for candidates, which it refuses.
TEST(Legality, RefusesWhatTheGatesRefuseOfACandidate) {
  const Result<LoadedRecipe> loaded =
      LoadRecipe(std::string(ATTUNE_SOURCE_DIR) + "/examples/glm-4.5-b200x128/recipe.yaml");
  ASSERT_TRUE(loaded);
  const Legality legality(loaded->recipe);
  Effective config = loaded->recipe.base;
  EXPECT_TRUE(legality.Check(config));
  config.args.Set("--num-virtual-stages-per-pipeline-rank", {"4"});
  config.args.Set("--decoder-first-pipeline-num-layers", {"12"});
  config.args.Set("--decoder-last-pipeline-num-layers", {"8"});
  EXPECT_TRUE(legality.Check(config));
  // The recipe overlaps its shared experts, which excludes the overlap of all of them.
  config.args.Set("--overlap-moe-expert-parallel-comm", {});
  EXPECT_FALSE(legality.Check(config));
  config.args.Unset("--moe-shared-expert-overlap");
  EXPECT_TRUE(legality.Check(config));
  config.args.Set("--recompute-granularity", {"full"});
  EXPECT_FALSE(legality.Check(config));
}

TEST(WantsColour, FollowsTheConventions) {
  struct Row {
    bool terminal;
    const char *flag, *no_color, *term, *force;
    bool wants;
  };
  const Row rows[] = {
      {true, "auto", nullptr, "xterm", nullptr, true},
      {false, "auto", nullptr, "xterm", nullptr, false},
      {true, "auto", "1", "xterm", nullptr, false},
      {true, "auto", "", "xterm", nullptr, true},  // empty: not set (no-color.org)
      {true, "auto", nullptr, "dumb", nullptr, false},
      {false, "auto", nullptr, "xterm", "1", true},
      {false, "auto", nullptr, "xterm", "0", false},
      {false, "auto", "1", "xterm", "1", false},
      {false, "always", "1", "dumb", nullptr, true},
      {true, "never", nullptr, "xterm", "1", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(WantsColour(row.terminal, row.flag, row.no_color, row.term, row.force), row.wants)
        << row.flag << " " << (row.no_color != nullptr ? row.no_color : "-");
  }
}

TEST(WordsInside, AreTheSameWithoutWhatWasMeantForTheOutside) {
  const std::vector<std::string> words = {"attune", "-C", "there",  "run", "r.yaml",
                                          "--hold", "4h", "--seed", "3",   "--detach"};
  const std::vector<std::string> inside = {"/opt/attune", "run",     "r.yaml",
                                           "--seed",      "3",       "--in-allocation",
                                           "--no-input",  "--state", "/s"};
  EXPECT_EQ(WordsInside(words, "/opt/attune", "/s"), inside);
  EXPECT_EQ(WordsInside({"attune", "-Cthere", "run", "r.yaml", "--hold=4h", "--seed", "3"},
                        "/opt/attune", "/s"),
            inside);
  // What is added below is not said twice: no flag may stand twice.
  EXPECT_EQ(WordsInside({"attune", "--state", "elsewhere", "run", "r.yaml", "--hold=4h", "--seed",
                         "3", "--no-input", "--state=there", "--in-allocation"},
                        "/opt/attune", "/s"),
            inside);
}

TEST(SessionToHold, IsTheFlagsElseTheRecipesAndNoneForFinalBlocks) {
  const Millis four = std::chrono::hours(4), two = std::chrono::hours(2);
  Recipe recipe;
  recipe.launcher.kind = "slurm";
  CampaignState campaign;
  campaign.phase = Phase::kSearching;
  EXPECT_EQ(SessionToHold({}, recipe, false, nullptr), std::nullopt);
  EXPECT_EQ(SessionToHold(four, recipe, false, nullptr), four);
  recipe.launcher.session = two;
  EXPECT_EQ(SessionToHold({}, recipe, false, nullptr), two);
  EXPECT_EQ(SessionToHold({}, recipe, false, &campaign), two);
  EXPECT_EQ(SessionToHold(four, recipe, false, &campaign), four);
  EXPECT_EQ(SessionToHold({}, recipe, true, nullptr), std::nullopt) << "it is in one";
  campaign.phase = Phase::kFinalizing;
  EXPECT_EQ(SessionToHold({}, recipe, false, &campaign), std::nullopt);
  EXPECT_EQ(SessionToHold(four, recipe, false, &campaign), four);
  recipe.launcher.kind = "sim";  // a rehearsal
  EXPECT_EQ(SessionToHold({}, recipe, false, nullptr), std::nullopt);
}

TEST(JsonOut, EscapesAndRefusesWhatJsonCannotHold) {
  JsonOut json("attune.test/1");
  json.Text("a\"b", "line\nquote\" \xff \x1b[31m");
  json.Number("nan", 0.0 / 0.0);
  json.Number("x", 0.1);
  json.Int("n", -3);
  json.Bool("yes", true);
  json.Null("nothing");
  json.Texts("list", {"1", "\""});
  json.Objects("objects", {JsonOut("").Take()});
  const std::string text = json.Take();
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(parsed.is_object()) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_TRUE(parsed["nan"].is_null());
  EXPECT_EQ(parsed["x"], 0.1);
  EXPECT_EQ(parsed["n"], -3);
  EXPECT_EQ(parsed["list"][1], "\"");
  EXPECT_TRUE(text.starts_with("{\"schema\":\"attune.test/1\","));
}

TEST(ExitCodes, OfErrorsAreThoseOfTheTable) {
  EXPECT_EQ(ExitCodeOf(ErrorCode::kInvalidInput), 2);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kNotFound), 2);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kNewerFormat), 2);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kDenied), 4);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kUnavailable), 75);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kTimeout), 75);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kCorrupt), 1);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kFull), 1);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kInternal), 1);
  for (const ExitCodeRow& row : ExitCodeTable()) {
    EXPECT_EQ(MeaningOf(row.code), row.meaning);
  }
}

// recipe_io may not ask logs, so its list of dialects is a copy.
TEST(RecipeDialects, AreThoseThatHaveAReader) {
  const auto schema = nlohmann::json::parse(RecipeJsonSchema());
  const auto words = schema["properties"]["log"]["properties"]["dialect"]["enum"];
  EXPECT_EQ(words.get<std::vector<std::string>>(), LogDialects());
}

TEST(Terminal, AsksNobodyWhereNobodyIs) {
  int in[2];
  ASSERT_EQ(pipe(in), 0);
  Terminal terminal(in[0], -1, -1);
  const Result<bool> answer = terminal.Ask("Start now?", "--yes");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(answer.error().help.find("--yes"), std::string::npos);
  close(in[0]);
  close(in[1]);
}

// A terminal whose other end the test holds.
struct Tty {
  int test = -1, program = -1;
  Tty() {
    test = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(grantpt(test), 0);
    EXPECT_EQ(unlockpt(test), 0);
    program = open(ptsname(test), O_RDWR | O_NOCTTY);
  }
  ~Tty() {
    close(test);
    close(program);
  }
  void Type(const std::string& text) const {
    EXPECT_EQ(write(test, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
};

TEST(AskWhile, TakesAYesForAYesAndALeaveForALeave) {
  std::FILE* nowhere = fopen("/dev/null", "w");
  for (const auto& [typed, meant] : {std::pair<std::string, Approval>{"y\n", Approval::kYes},
                                     {"yes\n", Approval::kYes},
                                     {"n\n", Approval::kNo},
                                     {"\n", Approval::kNo},
                                     {"yesterday and more than anybody says\n", Approval::kNo},
                                     {"q\n", Approval::kLeave},
                                     {"\x04", Approval::kLeave}}) {  // end of input
    const Tty tty;
    int pulses = 0;
    const Approval reply = AskWhile(tty.program, nowhere, "Launch?", [&] {
      if (++pulses == 1) tty.Type(typed);
      return true;
    });
    EXPECT_EQ(reply, meant) << typed;
  }
  const Tty tty;
  EXPECT_EQ(AskWhile(tty.program, nowhere, "Launch?", [] { return false; }), Approval::kLeave);
  fclose(nowhere);
}

TEST(ApprovalQuestion, SaysWhatItCostsAndWhatIsLeftAndWhy) {
  CampaignState s;
  s.budget = FromGpuHours(60);
  s.ledger.search = FromGpuHours(19.5);
  s.recipe.price_gpu_hour_usd = 2;
  ProposalRecord p;
  p.id = ProposalId("p004");
  p.proposal = Proposal{};
  p.proposal->hypothesis = "all-reduces \x1b[31mcross no node";
  p.candidate = Effective{};
  p.candidate->args.Set("--tp", {"4"});
  LaunchIntended launch;
  launch.hold = FromGpuHours(2.5);
  const std::string question = ApprovalQuestion(s, p, launch);
  EXPECT_TRUE(question.starts_with("launch p004 (tp off->")) << question;
  EXPECT_NE(question.find("4)? It holds at most 2.50 GPU-h ($5.00); 40.50 of 60.00 are left; why: "
                          "all-reduces "),
            std::string::npos)
      << question;
  EXPECT_EQ(question.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace attune::cli
