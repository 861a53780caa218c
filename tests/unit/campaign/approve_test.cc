// Launches that somebody has to say yes to.
#include <gtest/gtest.h>

#include <set>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;

TEST(Approve, ACandidateThatIsDeclinedCostsNothingAndIsNotAskedAgain) {
  Campaign c(FakeRecipe());
  std::multiset<std::string> asked;
  c.approve = [&](const CampaignState& s, const ProposalRecord& p, const LaunchIntended& launch,
                  const Pulse& pulse) -> Result<Approval> {
    EXPECT_TRUE(pulse());
    EXPECT_TRUE(s.OpenLaunches().empty());
    EXPECT_EQ(s.ledger.held.value, 0);
    EXPECT_GT(launch.hold.value, 0);
    asked.insert(p.hash);
    return asked.size() == 1 ? Approval::kNo : Approval::kYes;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0);
  ASSERT_GT(asked.size(), 1u);
  for (const std::string& hash : asked) EXPECT_EQ(asked.count(hash), 1u);
  const CampaignState s = c.State();
  int declined = 0;
  for (const ProposalRecord& p : s.proposals) {
    if (p.reason != "user.declined") continue;
    ++declined;
    EXPECT_FALSE(p.admitted);
    EXPECT_TRUE(p.run.empty());
  }
  EXPECT_EQ(declined, 1);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(Approve, WhoLeavesAtTheQuestionIsAskedByTheNextSession) {
  Campaign unasked(FakeRecipe());
  ASSERT_TRUE(unasked.Go());

  Campaign c(FakeRecipe());
  c.approve = [](const CampaignState&, const ProposalRecord&, const LaunchIntended&,
                 const Pulse&) -> Result<Approval> { return Approval::kLeave; };
  Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 130);
  const CampaignState left = c.State();
  ASSERT_TRUE(left.open_proposal.has_value());
  EXPECT_TRUE(left.FindRun(RunId("r006")) == nullptr);
  EXPECT_EQ(BrokenBooks(c), "");

  int asked = 0;
  c.approve = [&](const CampaignState&, const ProposalRecord& p, const LaunchIntended&,
                  const Pulse&) -> Result<Approval> {
    if (++asked == 1) {
      EXPECT_EQ(p.id, *left.open_proposal);
    }
    return Approval::kYes;
  };
  end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0);
  EXPECT_GT(asked, 1);
  EXPECT_EQ(c.RunTable(), unasked.RunTable());
}

TEST(Approve, ALateYesMeetsTheDeadlineThatHasPassed) {
  Campaign c(FakeRecipe());
  c.limits.deadline = c.clock.Now() + std::chrono::hours(24);
  int asked = 0;
  c.approve = [&](const CampaignState&, const ProposalRecord&, const LaunchIntended&,
                  const Pulse&) -> Result<Approval> {
    ++asked;
    c.clock.Advance(std::chrono::hours(25));
    return Approval::kYes;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 5) << end->why;
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(c.State().open_proposal.has_value());
}

TEST(Approve, AWriterThatLostItsLeaseAtTheQuestionWritesNothing) {
  Campaign c(FakeRecipe());
  std::size_t events = 0;
  c.approve = [&](const CampaignState&, const ProposalRecord&, const LaunchIntended&,
                  const Pulse& pulse) -> Result<Approval> {
    events = c.journal.events.size();
    c.journal.lease_lost = true;
    EXPECT_FALSE(pulse());
    return Approval::kYes;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(c.journal.events.size(), events);
}

}  // namespace
}  // namespace attune
