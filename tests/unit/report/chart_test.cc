#include "chart.h"

#include <gtest/gtest.h>

#include <limits>

namespace attune::report {
namespace {

std::string Draw(std::vector<ChartPoint> points) {
  return LineChart("t", "x", "y", {{.name = "s", .style = "now", .points = std::move(points)}});
}

TEST(Chart, IsEmptyWithoutAPointThatCanBeDrawn) {
  EXPECT_EQ(Draw({}), "");
  EXPECT_EQ(Draw({{std::numeric_limits<double>::quiet_NaN(), 1},
                  {1, std::numeric_limits<double>::infinity()}}),
            "");
}

TEST(Chart, HasNoNumberThatSvgCannotRead) {
  const double big = std::numeric_limits<double>::max() / 4;
  for (const std::vector<ChartPoint>& points : {std::vector<ChartPoint>{{5, 7}},
                                                {{0, 0}, {0, 0}},
                                                {{1, -3}, {2, -3}},
                                                {{0, 1e-300}, {1, 2e-300}},
                                                {{0, -big}, {1, big}},
                                                {{1e15, 1}, {1e15 + 1, 2}}}) {
    const std::string svg = Draw(points);
    EXPECT_NE(svg.find("<path"), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  }
}

// A long run is thinned to what can be seen, and its worst stall can still be seen.
TEST(Chart, ThinsAndKeepsTheStall) {
  std::vector<ChartPoint> calm, stalled;
  for (int i = 0; i < 100'000; ++i) calm.push_back({static_cast<double>(i), 100});
  stalled = calm;
  stalled[54'321].y = 900;
  EXPECT_LT(Draw(calm).size(), 64'000u);
  EXPECT_NE(Draw(stalled).find(" 28.0"), std::string::npos);  // the top of the plot
  EXPECT_EQ(
      LineChart("t", "x", "y", {{.name = "</text><script>", .style = "now", .points = {{1, 1}}}})
          .find("<script"),
      std::string::npos);
}

}  // namespace
}  // namespace attune::report
