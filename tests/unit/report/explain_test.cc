#include "attune/report/explain.h"

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
    const auto e = ExplainRun(made.state, made.events, RunId(run));
    ASSERT_TRUE(e) << run;
    text += ExplainText(*e) + "\n";
  }
  const auto refused = ExplainProposal(made.state, made.events, ProposalId("p001"));
  ASSERT_TRUE(refused);
  text += ExplainText(*refused);
  ExpectGolden("explain", text);
}

TEST(Explain, NamesNoRunThatIsNotThere) {
  const MadeCampaign made = MakeCampaign();
  EXPECT_FALSE(ExplainRun(made.state, made.events, RunId("r099")));
  EXPECT_FALSE(ExplainProposal(made.state, made.events, ProposalId("p099")));
}

// p003 was made when mbs2 led: its change is over that, its argv over the baseline's.
TEST(Explain, ChangeIsOverTheLeaderOfThatMoment) {
  const MadeCampaign made = MakeCampaign();
  const auto e = ExplainRun(made.state, made.events, RunId("r004"));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->change, "micro-batch-size 2->4");
  EXPECT_EQ(e->argv_diff, "micro-batch-size 1->4");
}

TEST(Explain, ALaunchedProposalIsToldWithItsRun) {
  const MadeCampaign made = MakeCampaign();
  const auto e = ExplainProposal(made.state, made.events, ProposalId("p002"));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->run, RunId("r003"));
}

TEST(Explain, TimelineIsInOrderAndOnlyItsOwn) {
  const MadeCampaign made = MakeCampaign();
  const auto e = ExplainRun(made.state, made.events, RunId("r003"));
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
    const auto calm = ExplainRun(plain.state, plain.events, RunId(run));
    const auto e = ExplainRun(hostile.state, hostile.events, RunId(run));
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
