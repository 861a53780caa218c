#include "attune/report/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "golden.h"
#include "made_campaign.h"
#include "markup.h"

namespace attune {
namespace {

using made::MakeCampaign;
using made::Until;

Report Shipped(const std::string& foreign = "plain words") {
  return MakeReport(MakeCampaign(foreign).state, BuiltInCatalog());
}

bool HasControls(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n') || byte == 0x7f;
  });
}

std::size_t CountOf(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) n++;
  return n;
}

TEST(Report, OfAShippedCampaignIsAsStored) {
  ExpectGolden("text", ReportText(Shipped()));
  ExpectGolden("markdown", ReportMarkdown(Shipped()));
  ExpectGolden("html", ReportHtml(Shipped()));
}

TEST(Report, OfACampaignThatGoesOnIsAsStored) {
  std::string text;
  for (const Until until : {Until::kCalibrating, Until::kSearching}) {
    text += ReportText(MakeReport(MakeCampaign("plain words", until).state, BuiltInCatalog()));
  }
  ExpectGolden("unfinished", text);
}

// What the leader's diagnosis still names, with what was tried against it and what was not.
TEST(Report, WhatIsLeftIsJoinedWithTheLeversAgainstIt) {
  CampaignState state = MakeCampaign("plain words", Until::kSearching).state;
  state.recipe.framework = Framework::kMegatronLm;
  for (ProposalRecord& p : state.proposals) {
    if (p.proposal) p.proposal->change.lever = "garbage_collection";
  }
  Diagnosis d;
  d.source = "trace";
  d.summary = "two slow steps";
  d.bottlenecks = {{"stalls", 0.125, 0.1, 0.01, true, "two slow steps"},
                   {"data_loader", 0.01, 0.01, 0.05, false, "1.0 %"}};
  state.runs.at(state.leader.run).diagnosis = d;
  const Report r = MakeReport(state, BuiltInCatalog());
  ASSERT_EQ(r.remaining.size(), 1u);
  EXPECT_EQ(r.remaining[0].tried, (std::vector<std::string>{"garbage_collection"}));
  EXPECT_EQ(r.remaining[0].untried, (std::vector<std::string>{"process_groups"}));
  const std::string line =
      "stalls (12.5% of the step); tried against it: garbage_collection; not tried: "
      "process_groups";
  EXPECT_NE(ReportText(r).find(line), std::string::npos) << ReportText(r);
  const auto json = nlohmann::json::parse(ReportJson(r));
  EXPECT_EQ(json["remaining"][0]["class"], "stalls");
  EXPECT_EQ(json["remaining"][0]["untried"][0], "process_groups");
}

TEST(Report, CostsAddUpByKind) {
  const Report r = Shipped();
  EXPECT_EQ(r.ledger.Charged(), GpuMillis{5 * 3'600'000});
  const auto json = nlohmann::json::parse(ReportJson(r));
  const auto& hours = json["gpu_hours"];
  EXPECT_DOUBLE_EQ(hours["used"].get<double>(), 5);
  EXPECT_DOUBLE_EQ(hours["calibration"].get<double>() + hours["search"].get<double>() +
                       hours["final"].get<double>() + hours["idle"].get<double>() +
                       hours["overrun"].get<double>(),
                   5);
  EXPECT_DOUBLE_EQ(hours["failed"].get<double>(), 1);  // the one that ran out of memory
  EXPECT_DOUBLE_EQ(json["usd"].get<double>(), 10);
}

// The curve is charged GPU-hours against gain: what calibration cost comes before the first gain.
TEST(Report, CurveEndsWithTheVerifiedGainAtTheWholeCost) {
  const Report r = Shipped();
  ASSERT_EQ(r.curve.size(), 3u);
  EXPECT_DOUBLE_EQ(r.curve[0].gpu_hours, 2);
  EXPECT_DOUBLE_EQ(r.curve[0].gain, 0);
  EXPECT_DOUBLE_EQ(r.curve[1].gpu_hours, 3);
  EXPECT_NEAR(r.curve[1].gain, 0.10, 1e-12);
  EXPECT_FALSE(r.curve[1].verified);
  EXPECT_DOUBLE_EQ(r.curve[2].gpu_hours, 5);
  EXPECT_DOUBLE_EQ(r.curve[2].gain, 0.09);
  EXPECT_TRUE(r.curve[2].verified);
}

TEST(Report, EvidenceIsOfTheLeadersOwnRuns) {
  const Report r = Shipped();
  ASSERT_TRUE(r.step0);
  EXPECT_NEAR(r.step0->largest, 0.005, 1e-9);  // 10.05 against 10.00, in the final block
  EXPECT_EQ(r.step0->runs, 2);
  EXPECT_EQ(r.steps_survived, 8);
  EXPECT_EQ(r.longest_run, 4);
  EXPECT_EQ(r.baseline_run, RunId("r005"));
  EXPECT_EQ(r.leader_run, RunId("r006"));
  EXPECT_EQ(r.leader_steps.size(), 4u);
}

TEST(Report, ALeaderThatFellInTheFinalStageHasNotPaid) {
  made::MadeCampaign made = MakeCampaign("x", Until::kSearching);
  FinalResult fell;
  fell.leader = RunId("r003");
  fell.reason = "below the band";
  made.state = Apply(std::move(made.state), Event{made.state.seq + 1, made.state.last_at, fell});
  const Report r = MakeReport(made.state, BuiltInCatalog());
  EXPECT_TRUE(r.paid.empty());
  ASSERT_EQ(r.no_gain.size(), 2u);
  EXPECT_EQ(r.no_gain[0].result, "fell");
  EXPECT_EQ(r.no_gain[0].reason, "below the band");
  EXPECT_FALSE(r.final);
  ASSERT_EQ(r.fell.size(), 1u);
}

// The final stage may give up with a leader that it never measured.
TEST(Report, WithoutAGainNothingHasPaid) {
  made::MadeCampaign made = MakeCampaign("x", Until::kSearching);
  made.state = Apply(std::move(made.state), Event{made.state.seq + 1, made.state.last_at,
                                                  PhaseSet{Phase::kNoGain, "gave up", "agent"}});
  const Report r = MakeReport(made.state, BuiltInCatalog());
  EXPECT_EQ(r.leader, RunId("r003"));
  EXPECT_TRUE(r.paid.empty());
  EXPECT_EQ(r.no_gain.size(), 2u);
  EXPECT_EQ(r.changes, "");
  EXPECT_NE(ReportText(r).find("NO GAIN       no gain beyond the band (3.00%); the recipe as given "
                               "stays at 100.0 tok/s/GPU"),
            std::string::npos)
      << ReportText(r);
}

TEST(Report, JsonOfAnUnmeasuredCampaignHasNullsAndNoNan) {
  const auto json =
      nlohmann::json::parse(ReportJson(MakeReport(CampaignState{}, BuiltInCatalog())));
  EXPECT_EQ(json["schema"], "attune.report/1");
  EXPECT_TRUE(json["baseline"].is_null());
  EXPECT_TRUE(json["final"].is_null());
  EXPECT_TRUE(json["usd"].is_null());
  EXPECT_EQ(json["shipped"], false);
}

TEST(Report, HostileTextStaysOnItsLineOfATerminal) {
  const std::string text = ReportText(Shipped(kHostile));
  EXPECT_FALSE(HasControls(text));
  EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_EQ(CountOf(text, "\n"), CountOf(ReportText(Shipped()), "\n"));
}

TEST(Report, HostileTextIsOneJsonValue) {
  const std::string text = ReportJson(Shipped(kHostile));
  EXPECT_FALSE(HasControls(text));
  const auto json = nlohmann::json::parse(text);
  const std::string why = json["gate"]["refused"][0]["why"].get<std::string>();
  EXPECT_NE(why.find("\x1b[31mred"), std::string::npos);  // kept, as data
  EXPECT_TRUE(IsValidUtf8(why));
}

TEST(Report, HostileTextIsNoMarkdown) {
  const std::string text = ReportMarkdown(Shipped(kHostile));
  EXPECT_FALSE(HasControls(text));
  for (const char* out : {"<script", "<img", "</td>", "[a](", "@everyone", "https://", "www.",
                          " `y`", " **z", "\n# heading"}) {
    EXPECT_EQ(text.find(out), std::string::npos) << out;
  }
  // A cell stays a cell: every row of the table has its eight own bars.
  int rows = 0;
  for (const std::string_view line : SplitLines(text)) {
    if (!line.starts_with('|')) continue;
    int bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;
      } else if (line[i] == '|') {
        bars++;
      }
    }
    EXPECT_EQ(bars, 8) << line;
    rows++;
  }
  EXPECT_EQ(rows, 4);
}

// What foreign text could add to a page is an element or an attribute: the page of hostile text has
// exactly the tags of the page of plain words.
TEST(Report, HostileTextAddsNoTagToThePage) {
  const std::string hostile = ReportHtml(Shipped(kHostile));
  const auto tags = [](const std::string& html) {
    std::vector<std::string> list;
    for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
      list.push_back(html.substr(at, html.find('>', at) - at + 1));
    }
    return list;
  };
  EXPECT_EQ(tags(hostile), tags(ReportHtml(Shipped())));
  EXPECT_FALSE(HasControls(hostile));
  EXPECT_EQ(hostile.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_TRUE(IsValidUtf8(hostile));
}

TEST(Report, PageNeedsNothingElse) {
  const std::string html = ReportHtml(Shipped());
  for (const char* out : {"<script", "<link", "<iframe", "src=", "href=", "url(", "://", "@import",
                          " onload", " onclick"}) {
    EXPECT_EQ(html.find(out), std::string::npos) << out;
  }
  EXPECT_EQ(CountOf(html, "<svg"), 2u);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

}  // namespace
}  // namespace attune
