// A step has up to a hundred thousand events and a picture a thousand columns: events of one lane
// and class that share a column become one rectangle.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "attune/base/text.h"
#include "attune/traces/diagnose.h"
#include "kernel_class.h"
#include "read_with_events.h"
#include "timeline.h"

namespace attune {
namespace {

using traces::EventStore;
using traces::GpuEvent;
using traces::KernelClass;

constexpr double kWidth = 1200, kLeft = 130, kLane = 26, kTop = 44, kBar = 20;
constexpr std::size_t kMaxLanes = 64;
constexpr double kLeastNamed = 40;  // rectangles this wide carry their kernel's name

// Told apart also without colour sight: lightness differs from one to the next.
constexpr std::array<std::string_view, 7> kColours = {"#d1495b", "#2a6fb0", "#6fb0e0", "#8a5fbf",
                                                      "#3f8f5f", "#e0a030", "#9a9a9a"};
constexpr std::array<std::string_view, 7> kLegend = {
    "communication", "gemm", "attention, convolution", "elementwise, norm, copy", "optimizer",
    "memory",        "other"};

std::size_t ColourOf(KernelClass c) {
  switch (c) {
    case KernelClass::kCommunication:
      return 0;
    case KernelClass::kGemm:
    case KernelClass::kMoe:
      return 1;
    case KernelClass::kAttention:
    case KernelClass::kConvolution:
      return 2;
    case KernelClass::kElementwise:
    case KernelClass::kNormalisation:
    case KernelClass::kSoftmax:
    case KernelClass::kCopy:
    case KernelClass::kPool:
    case KernelClass::kTriton:
    case KernelClass::kReduce:
    case KernelClass::kQuantise:
      return 3;
    case KernelClass::kOptimizer:
      return 4;
    case KernelClass::kMemory:
      return 5;
    case KernelClass::kEmbedding:
    case KernelClass::kSort:
    case KernelClass::kOther:
    case KernelClass::kCount:
      return 6;
  }
  return 6;
}

std::string XmlEscape(std::string_view s) {
  std::string out;
  for (const char c : s) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

const StepFigures* Choose(const RankTrace& t, std::string_view wanted) {
  std::vector<const StepFigures*> steps;
  for (const StepFigures& s : t.steps) {
    if (s.time.span <= 0) continue;
    if (!wanted.empty() && s.name == wanted) return &s;
    if (s.analysed) steps.push_back(&s);
  }
  if (!wanted.empty() || steps.empty()) return nullptr;
  std::sort(steps.begin(), steps.end(),
            [](const StepFigures* a, const StepFigures* b) { return a->time.span < b->time.span; });
  return steps[steps.size() / 2];
}

class Picture {
 public:
  Picture(const EventStore& store, const RankTrace& trace, const StepFigures& step)
      : store_(store), trace_(trace), step_(step) {}

  std::string Draw() {
    for (const GpuEvent& g : store_.gpu) {
      if (g.end > step_.begin && g.start < step_.end) Add(g);
    }
    for (auto& [lane, open] : open_) Flush(lane, open);
    std::size_t lanes = 0;
    std::string labels;
    for (const StreamFigures& s : trace_.streams) {
      if (lanes == kMaxLanes) break;
      labels +=
          fmt::format("<text x=\"4\" y=\"{:.0f}\">device {} stream {}</text>\n",
                      kTop + static_cast<double>(lanes) * kLane + kBar - 5, s.device, s.stream);
      ++lanes;
    }
    const double height = kTop + static_cast<double>(std::max<std::size_t>(lanes, 1)) * kLane + 50;
    return Head(height) + labels + bars_ + Axis(height) + "</svg>\n";
  }

 private:
  struct Open {
    double from = 0, to = 0;
    std::size_t colour = 0;
    std::int64_t count = 0, time = 0;
    std::string_view name;
  };

  double X(std::int64_t at) const {
    const double share = static_cast<double>(std::clamp(at, step_.begin, step_.end) - step_.begin) /
                         static_cast<double>(step_.time.span);
    return kLeft + share * (kWidth - kLeft - 10);
  }

  std::optional<std::size_t> LaneOf(const GpuEvent& g) const {
    const traces::StreamId& id = store_.streams[g.stream];
    for (std::size_t i = 0; i < std::min(trace_.streams.size(), kMaxLanes); ++i) {
      if (trace_.streams[i].device == id.device && trace_.streams[i].stream == id.stream) return i;
    }
    return std::nullopt;
  }

  void Add(const GpuEvent& g) {
    const auto lane = LaneOf(g);
    if (!lane) return;
    const std::string_view name = store_.names.Text(g.name);
    const KernelClass cls =
        g.cls == traces::EventClass::kMem ? KernelClass::kMemory : traces::ClassifyKernel(name);
    const std::size_t colour = ColourOf(cls);
    const double from = X(g.start), to = std::max(X(g.end), from + 0.3);
    Open& open = open_[*lane];
    // Joined when no column lies between them.
    if (open.count > 0 && open.colour == colour && from <= open.to + 0.3 && to - from < 1) {
      open.to = std::max(open.to, to);
    } else {
      Flush(*lane, open);
      open = {from, to, colour, 0, 0, name};
    }
    ++open.count;
    open.time += g.end - g.start;
  }

  void Flush(std::size_t lane, Open& open) {
    if (open.count == 0) return;
    const double y = kTop + static_cast<double>(lane) * kLane;
    const std::string name = XmlEscape(traces::DisplayName(open.name, 120));
    bars_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
        "fill=\"{}\"><title>{}{}, "
        "{}</title></rect>\n",
        open.from, y, open.to - open.from, kBar, kColours[open.colour], name,
        open.count > 1 ? fmt::format(" and {} more", open.count - 1) : "",
        ShowNanoseconds(open.time));
    if (open.count == 1 && open.to - open.from >= kLeastNamed) {
      const auto fits = static_cast<std::size_t>((open.to - open.from) / 6);
      bars_ += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.0f}\" fill=\"white\">{}</text>\n", open.from + 3, y + kBar - 6,
          XmlEscape(traces::DisplayName(open.name.substr(0, fits > 3 ? fits - 3 : 1), 120)));
    }
    open.count = 0;
  }

  std::string Head(double height) const {
    std::string head = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"4\" y=\"16\" font-size=\"13\">{2}{3}: {4}, busy {5:.1f} %, exposed "
        "communication "
        "{6:.1f} %, idle {7:.1f} %</text>\n",
        kWidth, height, trace_.rank >= 0 ? fmt::format("rank {}, ", trace_.rank) : std::string(),
        XmlEscape(step_.name), ShowNanoseconds(step_.time.span), Percent(step_.time.busy),
        Percent(step_.time.exposed), Percent(step_.time.idle()));
    double x = kLeft;
    for (std::size_t i = 0; i < kColours.size(); ++i) {
      head += fmt::format(
          "<rect x=\"{:.0f}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" "
          "y=\"33\">{}</text>\n",
          x, kColours[i], x + 14, kLegend[i]);
      x += 24 + 6.5 * static_cast<double>(kLegend[i].size());
    }
    return head;
  }

  std::string Axis(double height) const {
    std::string axis;
    for (int i = 0; i <= 10; ++i) {
      const std::int64_t at = step_.begin + step_.time.span / 10 * i;
      axis += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\" stroke=\"#cccccc\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:.0f}\" text-anchor=\"middle\">{4}</text>\n",
          X(at), kTop - 4, height - 34, height - 20, ShowNanoseconds(at - step_.begin));
    }
    return axis;
  }

  double Percent(std::int64_t part) const {
    return 100 * static_cast<double>(part) / static_cast<double>(step_.time.span);
  }

  const EventStore& store_;
  const RankTrace& trace_;
  const StepFigures& step_;
  std::map<std::size_t, Open> open_;
  std::string bars_;
};

}  // namespace

Result<std::string> StepSvg(const std::string& path, const TraceOptions& options,
                            std::string_view step) {
  std::string svg;
  ATTUNE_TRY(
      const RankTrace trace,
      traces::ReadWithEvents(path, options, [&](const EventStore& store, const RankTrace& t) {
        const StepFigures* chosen = Choose(t, step);
        if (chosen != nullptr) svg = Picture(store, t, *chosen).Draw();
      }));
  if (!svg.empty()) return svg;
  if (!trace.HasGpu()) return Fail(ErrorCode::kNotFound, path + ": no GPU events to draw");
  return Fail(ErrorCode::kNotFound,
              fmt::format("{}: no step '{}' with GPU events", path, EscapeForDisplay(step)));
}

}  // namespace attune
