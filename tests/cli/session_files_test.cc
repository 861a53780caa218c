#include "session_files.h"

#include <gtest/gtest.h>

namespace attune::cli {
namespace {

CampaignState Searching() {
  CampaignState s;
  s.id = CampaignId{"c-1"};
  s.phase = Phase::kSearching;
  s.budget = FromGpuHours(30);
  s.ledger.calibration = FromGpuHours(5);
  s.ledger.search = FromGpuHours(2.5);
  s.ledger.failed = FromGpuHours(0.5);
  Calibration c;
  c.mean = 800;
  s.calibration = c;
  s.leader.mean = 1000;
  ProposalRecord refused;
  refused.reason = "gate.objective.--lr";
  s.proposals = {refused, refused};
  return s;
}

TEST(MetricsText, HasEveryFigureOfTheStatusUnderItsName) {
  EXPECT_EQ(MetricsText(Searching()),
            "# HELP attune_campaign_state 1 for the phase that the campaign is in.\n"
            "# TYPE attune_campaign_state gauge\n"
            "attune_campaign_state{campaign=\"c-1\",state=\"searching\"} 1\n"
            "# HELP attune_gpu_hours_total GPU-hours charged, by what they were for.\n"
            "# TYPE attune_gpu_hours_total counter\n"
            "attune_gpu_hours_total{campaign=\"c-1\",kind=\"calibration\"} 5\n"
            "attune_gpu_hours_total{campaign=\"c-1\",kind=\"search\"} 2.5\n"
            "attune_gpu_hours_total{campaign=\"c-1\",kind=\"final\"} 0\n"
            "attune_gpu_hours_total{campaign=\"c-1\",kind=\"idle\"} 0\n"
            "attune_gpu_hours_total{campaign=\"c-1\",kind=\"overrun\"} 0\n"
            "# HELP attune_failed_gpu_hours_total GPU-hours of candidates that ran out of memory, "
            "hung or crashed; part of search.\n"
            "# TYPE attune_failed_gpu_hours_total counter\n"
            "attune_failed_gpu_hours_total{campaign=\"c-1\"} 0.5\n"
            "# HELP attune_budget_gpu_hours GPU-hours that the campaign may charge.\n"
            "# TYPE attune_budget_gpu_hours gauge\n"
            "attune_budget_gpu_hours{campaign=\"c-1\"} 30\n"
            "# HELP attune_baseline_score Tokens a second and GPU of the recipe as given.\n"
            "# TYPE attune_baseline_score gauge\n"
            "attune_baseline_score{campaign=\"c-1\"} 800\n"
            "# HELP attune_leader_score Tokens a second and GPU of the best so far.\n"
            "# TYPE attune_leader_score gauge\n"
            "attune_leader_score{campaign=\"c-1\"} 1000\n"
            "# HELP attune_runs_total Launched candidates, by result.\n"
            "# TYPE attune_runs_total counter\n"
            "attune_runs_total{campaign=\"c-1\",result=\"win\"} 0\n"
            "attune_runs_total{campaign=\"c-1\",result=\"tie\"} 0\n"
            "attune_runs_total{campaign=\"c-1\",result=\"loss\"} 0\n"
            "attune_runs_total{campaign=\"c-1\",result=\"failed\"} 0\n"
            "attune_runs_total{campaign=\"c-1\",result=\"stopped_early\"} 0\n"
            "attune_runs_total{campaign=\"c-1\",result=\"rejected\"} 0\n"
            "# HELP attune_gate_refusals_total Proposals that the gate refused, by rule.\n"
            "# TYPE attune_gate_refusals_total counter\n"
            "attune_gate_refusals_total{campaign=\"c-1\",rule=\"objective.--lr\"} 2\n");
}

TEST(MetricsText, AnEndedCampaignHasItsTimeOfSuccess) {
  CampaignState s = Searching();
  EXPECT_EQ(MetricsText(s).find("last_success"), std::string::npos);
  s.phase = Phase::kNoGain;
  s.last_at = Instant{1'796'000'000'123};
  EXPECT_NE(
      MetricsText(s).find("attune_last_success_timestamp_seconds{campaign=\"c-1\"} 1796000000"),
      std::string::npos)
      << MetricsText(s);
}

TEST(MetricsText, ModelRequestsHaveTheirTokensAndCost) {
  CampaignState s = Searching();
  EXPECT_EQ(MetricsText(s).find("attune_llm"), std::string::npos);
  s.calls.resize(2);
  s.calls[0].answer = Answered{};
  s.calls[0].answer->in_tokens = 700;
  s.calls[0].answer->out_tokens = 30;
  s.llm_usd_micros = 2'500'000;
  const std::string text = MetricsText(s);
  for (const char* line : {"attune_llm_tokens_total{campaign=\"c-1\",type=\"input\"} 700\n",
                           "attune_llm_tokens_total{campaign=\"c-1\",type=\"output\"} 30\n",
                           "attune_llm_cost_usd_total{campaign=\"c-1\"} 2.5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(MetricsText, AHostileRuleStaysInItsLabel) {
  CampaignState s = Searching();
  s.proposals[0].reason = "gate.a\"} 1\nb\\";
  const std::string text = MetricsText(s);
  EXPECT_NE(text.find("rule=\"a\\\"} 1\\\\x0ab\\\\\""), std::string::npos) << text;
}

}  // namespace
}  // namespace attune::cli
