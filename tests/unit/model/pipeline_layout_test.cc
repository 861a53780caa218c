#include "attune/model/pipeline_layout.h"

namespace attune {
namespace {

using Stages = std::vector<std::string>;

TEST(PipelineLayout, ExpandsRepeatsAndGroups) {
  EXPECT_EQ(ParsePipelineLayout("Et*3|(tt|)*2,m|L").stages, (Stages{"Ettt", "tt", "tt", "m", "L"}));
  EXPECT_EQ(ParsePipelineLayout("E|(t*2|)*2L").stages, (Stages{"E", "tt", "tt", "L"}));
  EXPECT_EQ(ParsePipelineLayout("Et||L").stages, (Stages{"Et", "", "L"}));
}

TEST(PipelineLayout, SaysWhatItCannotRead) {
  for (const char* bad : {"Ex|L", "E(t|L", "E(t(t))|L", "Et*|L", "Et*0|L", "Et*99999999999|L",
                          "(t*9999)*9999", "Et *2|L", ")"}) {
    EXPECT_NE(ParsePipelineLayout(bad).error, "") << bad;
    EXPECT_TRUE(ParsePipelineLayout(bad).stages.empty()) << bad;
  }
}

std::string Error(std::string_view text, int pp, int layers, int mtp = 0) {
  return PipelineLayoutError(ParsePipelineLayout(text), pp, layers, mtp);
}

TEST(PipelineLayout, MustFitModelAndRanks) {
  EXPECT_EQ(Error("Ett|tt|tt|ttL", 2, 8), "");
  EXPECT_NE(Error("Ett|tt|ttttL", 2, 8), "");   // 3 stages over 2 ranks
  EXPECT_NE(Error("ttE|tt|tt|ttL", 2, 8), "");  // E first
  EXPECT_NE(Error("Ett|tt|tt|Ltt", 2, 8), "");  // L last
  EXPECT_NE(Error("EEtt|tt|tt|ttL", 2, 8), "");
  EXPECT_NE(Error("Ett|tt|tt|tL", 2, 8), "");  // a layer short
  EXPECT_NE(Error("Ett|tt|tt|ttL", 2, 8, 1), "");
}

TEST(PipelineLayout, MtpStandsLastAndInTheLastVirtualStage) {
  EXPECT_EQ(Error("Ett|tt|tt|ttmL", 2, 8, 1), "");
  EXPECT_NE(Error("Ett|tt|mtt|ttL", 2, 8, 1), "");
  EXPECT_NE(Error("Etttt|ttttm|L|", 2, 8, 1), "");
  EXPECT_NE(Error("Etttttttt|m||L", 2, 8, 1), "");  // first virtual stage of the second rank
}

}  // namespace
}  // namespace attune
