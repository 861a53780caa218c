#include "attune/report/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "golden.h"
#include "made_campaign.h"

namespace attune {
namespace {

using made::MadeCampaign;
using made::MakeCampaign;

TEST(Explain, OfAWinAFailureAndARefusalIsAsStored) {
  const MadeCampaign made = MakeCampaign();
  std::string text;
  for (const char* run : {"r003", "r004", "r006"}) {
    const auto e = ExplainRun(made.state, made.events, RunId(run), BuiltInCatalog());
    ASSERT_TRUE(e) << run;
    text += ExplainText(*e) + "\n";
  }
  const auto refused =
      ExplainProposal(made.state, made.events, ProposalId("p001"), BuiltInCatalog());
  ASSERT_TRUE(refused);
  text += ExplainText(*refused);
  ExpectGolden("explain", text);
}

Diagnosis Traced() {
  Diagnosis d;
  d.source = "trace";
  d.summary = "2 of 4 steps analysed.";
  d.bottlenecks = {{"exposed_communication", 0.25, 0.25, 0.1, true, "AllReduce 25.0 % of the step"},
                   {"stalls", 0.1, 0.1, 0.01, true, "one slow step"},
                   {"optimizer", 0.05, 0.05, 0.08, false, "5.0 %"}};
  d.times = {{0, 2, 40'000'000, 20'000'000, 0, 10'000'000, 8'000'000, 2'000'000, 0},
             {-1, 0, 500'000, 0, 0, 0, 0, 0, 400'000}};
  d.traces = "/runs/l001/scratch/r001";
  d.notes = {"rank1.json is not whole"};
  return d;
}

TEST(DiagnosisText, HasABarARankAndTheLeversOfWhatIsNamed) {
  Recipe recipe;
  recipe.declared = {{"mbs", "--mbs", "", {"1"}, LeverClass::kBatching, {}, {}, {}, ""},
                     {"sync", "--sync", "", {"1"}, LeverClass::kOverlap, {}, {}, {}, ""},
                     {"split", "--split", "", {"1"}, LeverClass::kOverlap, {}, {}, {}, ""}};
  recipe.deny = {"split"};
  const Diagnosis d = Traced();
  EXPECT_EQ(DiagnosisText(d, LeversAgainst(d, recipe, BuiltInCatalog()), "  "),
            "  time of the GPU: # compute, m copies alone, x exposed communication, . host wait\n"
            "  rank 0      40.00 ms  |#########################xxxxxxxxxxxxx..........  |\n"
            "  rank ?: operators of the host run 400.0 us of 500.0 us\n"
            "  exposed_communication (25.0% of the step): AllReduce 25.0 % of the step\n"
            "    levers against it: sync, mbs\n"
            "  stalls (10.0% of the step): one slow step\n"
            "  note: rank1.json is not whole\n"
            "  traces: /runs/l001/scratch/r001\n");
}

// Where no lever is declared the classes are told.
TEST(DiagnosisText, WithoutDeclaredLeversTheirClassesAreNamed) {
  const Diagnosis d = Traced();
  const std::string text = DiagnosisText(d, LeversAgainst(d, Recipe{}, BuiltInCatalog()), "");
  EXPECT_NE(text.find("levers against it: of class overlap, placement, batching\n"),
            std::string::npos)
      << text;
}

// Megatron-LM's levers are the catalog's, those that are for it first; what is closed is left out.
TEST(LeversAgainst, ComeFromTheCatalogWhereTheFrameworkHasOne) {
  Recipe recipe;
  recipe.framework = Framework::kMegatronLm;
  recipe.deny = {"dp_overlap"};
  const Diagnosis d = Traced();
  const std::vector<BottleneckLevers> rows = LeversAgainst(d, recipe, BuiltInCatalog());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].bottleneck, "exposed_communication");
  std::size_t expected = 0;
  bool first = true;
  for (const std::string& id : rows[0].levers) {
    const CatalogLever* lever = BuiltInCatalog().Find(id);
    ASSERT_NE(lever, nullptr) << id;
    const bool leads = lever->helps.front() == "exposed_communication";
    EXPECT_TRUE(first || !leads) << id << " stands behind one that is for something else";
    first = first && leads;
    EXPECT_NE(id, "dp_overlap");
    ++expected;
  }
  EXPECT_EQ(expected + 1, BuiltInCatalog().Answering("exposed_communication").size());
  EXPECT_EQ(rows[1].bottleneck, "stalls");
  EXPECT_EQ(rows[1].levers,
            (std::vector<std::string>{"process_groups", "garbage_collection"}));
  const std::string text = DiagnosisText(d, rows, "");
  EXPECT_NE(text.find("levers against it: process_groups, garbage_collection\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(fmt::format(" and {} more\n", expected - 8)), std::string::npos) << text;
  recipe.allow = {"dp_buckets"};
  EXPECT_EQ(LeversAgainst(d, recipe, BuiltInCatalog())[0].levers,
            (std::vector<std::string>{"dp_buckets"}));
}

TEST(DiagnosisJson, HoldsTimesLeversAndNotes) {
  const Diagnosis d = Traced();
  const auto json = nlohmann::json::parse(DiagnosisJson(d, LeversAgainst(d, Recipe{}, BuiltInCatalog())));
  EXPECT_EQ(json["source"], "trace");
  EXPECT_EQ(json["times"][0]["exposed_ns"], 10'000'000);
  EXPECT_TRUE(json["times"][1]["rank"].is_null());
  EXPECT_EQ(json["levers"][0]["class"], "exposed_communication");
  EXPECT_EQ(json["levers"][0]["lever_classes"][0], "overlap");
  EXPECT_EQ(json["notes"][0], "rank1.json is not whole");
}

TEST(Explain, AProjectionIsToldWithItsErrors) {
  Explanation e;
  e.run = RunId{"r007"};
  e.projection = RunProjection{6, 12.0, 0.1, 15.0, 60e9, 0.05, 10.0, 50e9};
  EXPECT_NE(ExplainText(e).find("projected   12 s a step, give or take 10%, came to 10 s (+20.0% "
                                "off); peak 60.0 GB, give or take 5%, came to 50 GB (+20.0% off); "
                                "after 6 runs, bare formulas 15 s"),
            std::string::npos)
      << ExplainText(e);
  e.projection->got_step_seconds.reset();
  EXPECT_EQ(ExplainText(e).find("came to 10 s"), std::string::npos);
  const auto json = nlohmann::json::parse(ExplainJson(e));
  EXPECT_TRUE(json["projection"]["got_step_seconds"].is_null());
  EXPECT_EQ(json["projection"]["got_peak_bytes"], 50e9);
}

TEST(Explain, NamesNoRunThatIsNotThere) {
  const MadeCampaign made = MakeCampaign();
  EXPECT_FALSE(ExplainRun(made.state, made.events, RunId("r099"), BuiltInCatalog()));
  EXPECT_FALSE(ExplainProposal(made.state, made.events, ProposalId("p099"), BuiltInCatalog()));
}

// p003 was made when mbs2 led: its change is over that, its argv over the baseline's.
TEST(Explain, ChangeIsOverTheLeaderOfThatMoment) {
  const MadeCampaign made = MakeCampaign();
  const auto e = ExplainRun(made.state, made.events, RunId("r004"), BuiltInCatalog());
  ASSERT_TRUE(e);
  EXPECT_EQ(e->change, "micro-batch-size 2->4");
  EXPECT_EQ(e->argv_diff, "micro-batch-size 1->4");
}

TEST(Explain, ALaunchedProposalIsToldWithItsRun) {
  const MadeCampaign made = MakeCampaign();
  const auto e = ExplainProposal(made.state, made.events, ProposalId("p002"), BuiltInCatalog());
  ASSERT_TRUE(e);
  EXPECT_EQ(e->run, RunId("r003"));
}

TEST(Explain, TimelineIsInOrderAndOnlyItsOwn) {
  const MadeCampaign made = MakeCampaign();
  const auto e = ExplainRun(made.state, made.events, RunId("r003"), BuiltInCatalog());
  ASSERT_TRUE(e);
  EXPECT_TRUE(std::is_sorted(e->timeline.begin(), e->timeline.end(),
                             [](const auto& a, const auto& b) { return a.at < b.at; }));
  std::vector<std::string> firsts;
  for (const ExplainedMoment& m : e->timeline) {
    firsts.push_back(m.what.substr(0, m.what.find_first_of(" :")));
  }
  EXPECT_EQ(Join(firsts, " "), "p002 l003 bound started first ended 1.00 judged");
  ASSERT_EQ(e->next.size(), 2u);  // the next idea, and its launch; nothing behind that
  EXPECT_TRUE(e->next[0].starts_with("p003 mbs4"));
}

TEST(Explain, HostileTextStaysInItsPlace) {
  const MadeCampaign plain = MakeCampaign();
  const MadeCampaign hostile = MakeCampaign(kHostile);
  for (const char* run : {"r003", "r004"}) {
    const auto calm = ExplainRun(plain.state, plain.events, RunId(run), BuiltInCatalog());
    const auto e = ExplainRun(hostile.state, hostile.events, RunId(run), BuiltInCatalog());
    ASSERT_TRUE(e && calm);
    const std::string text = ExplainText(*e);
    EXPECT_EQ(SplitLines(text).size(), SplitLines(ExplainText(*calm)).size());
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
    const auto json = nlohmann::json::parse(ExplainJson(*e));
    EXPECT_EQ(json["schema"], "attune.explain/1");
    EXPECT_NE(json["hypothesis"].get<std::string>().find("<script>"), std::string::npos);
  }
}

}  // namespace
}  // namespace attune
