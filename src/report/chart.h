// Line charts as SVG text, drawn without a library: numbers in, inert markup out.
#pragma once

#include <string>
#include <vector>

namespace attune::report {

struct ChartPoint {
  double x = 0, y = 0;
};
struct ChartSeries {
  std::string name;   // escaped by the chart
  std::string style;  // class of the page's style sheet: ours
  std::vector<ChartPoint> points;
  bool steps = false;  // holds its value until the next point
  bool dots = false;
};

// Points that are not finite are left out. Empty when no series has a point.
std::string LineChart(const std::string& title, const std::string& x_name,
                      const std::string& y_name, const std::vector<ChartSeries>& series);

}  // namespace attune::report
