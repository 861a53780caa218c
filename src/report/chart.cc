#include "chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "markup.h"

namespace attune::report {
namespace {

constexpr double kWidth = 760, kHeight = 260;
constexpr double kLeft = 64, kRight = 16, kTop = 28, kBottom = 44;
constexpr std::size_t kMaxPoints = 2'000;  // of one series: more than there are pixels
constexpr int kTicks = 4;

struct Range {
  double lo = 0, hi = 1;
};

// A step of 1, 2 or 5 times a power of ten that cuts the range about kTicks times.
double TickOf(const Range& r) {
  const double raw = (r.hi - r.lo) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

Range Widened(Range r) {
  if (r.hi - r.lo < 1e-9 * std::max(1.0, std::abs(r.hi))) {
    const double room = std::max(1e-3, std::abs(r.hi) * 0.05);
    return {r.lo - room, r.hi + room};
  }
  return r;
}

// The largest y of each bucket stays: a stall is what a reader looks for.
std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points) {
  std::vector<ChartPoint> finite;
  for (const ChartPoint& p : points) {
    if (std::isfinite(p.x) && std::isfinite(p.y)) finite.push_back(p);
  }
  if (finite.size() <= kMaxPoints) return finite;
  const std::size_t bucket = (finite.size() + kMaxPoints - 1) / kMaxPoints;
  std::vector<ChartPoint> thin;
  for (std::size_t i = 0; i < finite.size(); i += bucket) {
    const auto begin = finite.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end =
        finite.begin() + static_cast<std::ptrdiff_t>(std::min(i + bucket, finite.size()));
    thin.push_back(*std::max_element(
        begin, end, [](const ChartPoint& a, const ChartPoint& b) { return a.y < b.y; }));
  }
  return thin;
}

class Plot {
 public:
  Plot(Range x, Range y) : x_(Widened(x)), y_(Widened(y)) {}

  double X(double x) const {
    return kLeft + (x - x_.lo) / (x_.hi - x_.lo) * (kWidth - kLeft - kRight);
  }
  double Y(double y) const {
    return kHeight - kBottom - (y - y_.lo) / (y_.hi - y_.lo) * (kHeight - kTop - kBottom);
  }
  std::string Axes() const {
    std::string out;
    const double step_y = TickOf(y_);
    for (double k = std::ceil(y_.lo / step_y); k * step_y <= y_.hi; ++k) {
      const double at = Y(k * step_y);
      out += fmt::format(
          "<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>"
          "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
          kLeft, at, kWidth - kRight, at, kLeft - 6, at + 4, k * step_y);
    }
    const double step_x = TickOf(x_);
    for (double k = std::ceil(x_.lo / step_x); k * step_x <= x_.hi; ++k) {
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n",
                         X(k * step_x), kHeight - kBottom + 16, k * step_x);
    }
    return out;
  }
  std::string Curve(const ChartSeries& s, const std::vector<ChartPoint>& points) const {
    std::string path, dots;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double x = X(points[i].x), y = Y(points[i].y);
      if (i == 0) {
        path += fmt::format("M{:.1f} {:.1f}", x, y);
      } else if (s.steps) {
        path += fmt::format("H{:.1f}V{:.1f}", x, y);
      } else {
        path += fmt::format("L{:.1f} {:.1f}", x, y);
      }
      if (s.dots) {
        dots += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", s.style,
                            x, y);
      }
    }
    return fmt::format("<path class=\"{}\" d=\"{}\"/>{}\n", s.style, path, dots);
  }

 private:
  Range x_, y_;
};

}  // namespace

std::string LineChart(const std::string& title, const std::string& x_name,
                      const std::string& y_name, const std::vector<ChartSeries>& series) {
  std::vector<std::vector<ChartPoint>> drawn;
  std::optional<Range> x, y;
  for (const ChartSeries& s : series) {
    drawn.push_back(Thinned(s.points));
    for (const ChartPoint& p : drawn.back()) {
      if (!x) x = Range{p.x, p.x};
      if (!y) y = Range{p.y, p.y};
      x = Range{std::min(x->lo, p.x), std::max(x->hi, p.x)};
      y = Range{std::min(y->lo, p.y), std::max(y->hi, p.y)};
    }
  }
  if (!x || !y) return {};
  // Bars of nothing lie: a scale of times and gains begins at zero.
  y->lo = std::min(0.0, y->lo);
  const Plot plot(*x, *y);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title>\n"
      "<text class=\"name\" x=\"{}\" y=\"16\">{}</text>\n{}",
      kWidth, kHeight, ForHtml(title), kLeft, ForHtml(title + ": " + y_name), plot.Axes());
  double legend = kWidth - kRight;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (drawn[i].empty()) continue;
    svg += plot.Curve(series[i], drawn[i]);
    svg += fmt::format("<text class=\"{}\" x=\"{}\" y=\"16\" text-anchor=\"end\">{}</text>\n",
                       series[i].style, legend, ForHtml(series[i].name));
    legend -= 180;
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n</svg>\n",
                     kWidth - kRight, kHeight - 8, ForHtml(x_name));
  return svg;
}

}  // namespace attune::report
