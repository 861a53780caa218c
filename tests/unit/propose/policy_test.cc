// Policy records: the arms of a comparison as rows.
#include "attune/propose/policy.h"

#include <gtest/gtest.h>

#include <set>

namespace attune {
namespace {

TEST(PolicyRecords, HaveUniqueNamesAndEachArmOfTheAblations) {
  std::set<std::string_view> names;
  for (const PolicyRecord& r : PolicyRecords()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_FALSE(r.what.empty()) << r.name;
  }
  for (const char* arm : {"full", "bare", "fixed-knobs", "no-diagnosis", "committee",
                          "public-guide", "minimal-skill", "paper"}) {
    ASSERT_NE(FindPolicy(arm), nullptr) << arm;
    EXPECT_EQ(FindPolicy(arm)->proposer, "agent");
  }
}

TEST(PolicyRecords, DifferFromFullInWhatTheirNamesSay) {
  EXPECT_FALSE(FindPolicy("paper")->prefilter);
  EXPECT_TRUE(FindPolicy("full")->prefilter);
  EXPECT_EQ(FindPolicy("bare")->catalog, "none");
  EXPECT_EQ(FindPolicy("bare")->inspections, 0);
  EXPECT_EQ(FindPolicy("fixed-knobs")->space, "fixed");
  EXPECT_FALSE(FindPolicy("no-diagnosis")->diagnosis);
  EXPECT_EQ(FindPolicy("committee")->agents, 3);
  EXPECT_EQ(FindPolicy("public-guide")->catalog, "public");
  EXPECT_TRUE(FindPolicy("minimal-skill")->rules);
}

TEST(DefaultPolicy, OfATunerIsItsOwn) {
  EXPECT_EQ(DefaultPolicy("agent")->name, "full");
  EXPECT_EQ(DefaultPolicy("rules")->name, "rules");
  EXPECT_EQ(DefaultPolicy("nobody"), nullptr);
}

TEST(ApplyRecord, WritesEveryFieldAndLeavesTheRest) {
  Policy policy;
  policy.seed = 7;
  ApplyRecord(*FindPolicy("bare"), policy);
  EXPECT_EQ(policy.proposer, "agent");
  EXPECT_EQ(policy.name, "bare");
  EXPECT_FALSE(policy.rules);
  EXPECT_FALSE(policy.lessons);
  EXPECT_EQ(policy.inspections, 0);
  EXPECT_EQ(policy.seed, 7u);
  ApplyRecord(*FindPolicy("full"), policy);
  EXPECT_TRUE(policy.rules);
  EXPECT_EQ(policy.inspections, 6);
}

}  // namespace
}  // namespace attune
