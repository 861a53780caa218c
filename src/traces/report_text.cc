#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "attune/base/text.h"
#include "attune/traces/diagnose.h"
#include "time_split.h"

namespace attune {
namespace {

constexpr std::size_t kMaxStepBars = 8;
constexpr std::size_t kMaxRankBars = 32;
constexpr std::size_t kMaxKernels = 8;
constexpr int kLeastWidth = 60;
constexpr int kNameWidth = 18;

double Share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// Words of a paragraph in lines of `width`.
std::string Wrap(std::string_view text, std::size_t width, std::string_view indent) {
  std::string out(indent);
  std::size_t column = indent.size();
  bool first = true;
  for (const std::string_view word : Split(text, ' ')) {
    if (word.empty()) continue;
    if (!first && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent);
      column = indent.size();
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  return out + "\n";
}

std::string RankName(const RankTrace& t) { return attune::RankName(t.rank); }

std::string Fit(std::string line, int width) {
  if (static_cast<int>(line.size()) > width) line.resize(static_cast<std::size_t>(width));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + "\n";
}

class Writer {
 public:
  Writer(const TraceSet& set, const Diagnosis& d, int width, bool unicode)
      : set_(set), d_(d), width_(std::max(width, kLeastWidth)), unicode_(unicode) {}

  std::string Run() {
    out_ += Wrap(d_.summary, static_cast<std::size_t>(width_), "");
    Bottlenecks();
    Bars();
    for (const RankTrace& t : set_.ranks) {
      if (set_.ranks.size() == 1) OneRank(t);
    }
    Across();
    Notes();
    return std::move(out_);
  }

 private:
  void Heading(std::string_view text) {
    out_ += "\n" + Wrap(text, static_cast<std::size_t>(width_), "");
  }

  void Bottlenecks() {
    if (d_.bottlenecks.empty()) return;
    Heading("bottlenecks (share of the step; > is past its threshold)");
    for (const Bottleneck& b : d_.bottlenecks) {
      const std::string share = b.share < 0 ? "    -  " : fmt::format("{:5.1f} %", 100 * b.share);
      out_ += Fit(fmt::format("{} {} {:<22} {}", b.named ? '>' : ' ', share, b.cls, b.evidence),
                  width_);
    }
  }

  void BarLine(const std::string& name, std::int64_t span, const Breakdown& b,
               const IdleSplit& idle) {
    const int cells = width_ - kNameWidth - 12 - 3;
    const std::string bar = TimeBar(traces::SplitOf(b, idle), cells, unicode_);
    out_ += fmt::format("{:<{}.{}}{:>10}  |{}|\n", name, kNameWidth, kNameWidth,
                        ShowNanoseconds(span), bar);
  }

  void Bars() {
    const bool gpu = std::any_of(set_.ranks.begin(), set_.ranks.end(),
                                 [](const RankTrace& t) { return t.HasGpu(); });
    if (!gpu) {
      HostBars();
      return;
    }
    Heading("time of the GPU: " + TimeLegend(unicode_));
    std::size_t shown = 0;
    for (const RankTrace& t : set_.ranks) {
      if (!t.HasGpu()) continue;
      if (shown++ == kMaxRankBars) {
        out_ += fmt::format("... {} more ranks\n", set_.ranks.size() - kMaxRankBars);
        break;
      }
      BarLine(RankName(t), t.analysed.span, t.analysed, t.analysed_idle);
      if (set_.ranks.size() > 1 || !t.steps_marked) continue;
      for (std::size_t i = 0; i < std::min(t.steps.size(), kMaxStepBars); ++i) {
        const StepFigures& s = t.steps[i];
        BarLine(" " + s.name, s.time.span, s.time, s.idle);
      }
      if (t.steps.size() > kMaxStepBars) {
        out_ += fmt::format(" ... {} more steps\n", t.steps.size() - kMaxStepBars);
      }
    }
  }

  void ClassBars(const std::vector<ClassRow>& classes, std::int64_t whole) {
    const int cells = width_ - 46;
    std::int64_t largest = 1;
    for (const ClassRow& c : classes) largest = std::max(largest, c.total);
    for (const ClassRow& c : classes) {
      const auto filled = static_cast<std::size_t>(
          std::max(0L, std::lround(Share(c.total, largest) * std::max(1, cells))));
      out_ += Fit(fmt::format("  {:<16} {:>10} {:5.1f} % {:>8} {}", c.cls, ShowNanoseconds(c.total),
                              100 * Share(c.total, whole), c.count, std::string(filled, '#')),
                  width_);
    }
  }

  void HostBars() {
    for (const RankTrace& t : set_.ranks) {
      if (t.host.classes.empty()) continue;
      Heading(fmt::format("host operators of {}, own time", RankName(t)));
      ClassBars(t.host.classes, t.host.span);
      Rows("operators", t.host.top);
    }
  }

  void Rows(std::string_view what, const std::vector<KernelRow>& rows) {
    if (rows.empty()) return;
    Heading(fmt::format("{} (total, count, median)", what));
    for (std::size_t i = 0; i < std::min(rows.size(), kMaxKernels); ++i) {
      const KernelRow& k = rows[i];
      out_ += Fit(fmt::format("  {:>10} {:>8} {:>10}  {}", ShowNanoseconds(k.total), k.count,
                              ShowNanoseconds(k.median), k.name),
                  width_);
    }
  }

  void OneRank(const RankTrace& t) {
    if (!t.HasGpu()) return;
    Heading("kernels by class (sums of durations, of busy time)");
    ClassBars(t.classes, t.analysed.busy);
    Rows("kernels", t.top);
    if (!t.collectives.empty()) {
      Heading("communication (exposed, time, count)");
      for (const CollectiveRow& c : t.collectives) {
        if (c.count == 0) continue;
        out_ += Fit(fmt::format("  {:>10} {:>10} {:>6}  {} {}{}", ShowNanoseconds(c.exposed),
                                ShowNanoseconds(c.time), c.count, c.type,
                                c.description.empty() || c.description == "undefined"
                                    ? (c.group.empty() ? "(group not known)" : "group " + c.group)
                                    : c.description,
                                c.group_size > 0 ? fmt::format(", {} ranks", c.group_size) : ""),
                    width_);
      }
    }
    Heading("streams (busy; idle by host wait, kernel wait, communication wait, other)");
    for (const StreamFigures& s : t.streams) {
      out_ +=
          Fit(fmt::format("  device {} stream {:<6} {:>10}; {:>10} {:>10} {:>10} {:>10}", s.device,
                          s.stream, ShowNanoseconds(s.busy), ShowNanoseconds(s.idle.host_wait),
                          ShowNanoseconds(s.idle.kernel_wait), ShowNanoseconds(s.idle.comm_wait),
                          ShowNanoseconds(s.idle.other)),
              width_);
    }
  }

  void Across() {
    const AcrossRanks& a = set_.across;
    if (set_.ranks.size() < 2) return;
    if (!a.why_empty.empty()) {
      Heading("ranks are not compared: " + a.why_empty);
      return;
    }
    Heading("who enters collectives last (last in, waiting caused, own waiting)");
    for (const RankLateness& l : a.lateness) {
      out_ += fmt::format("  rank {:<6} {:>5} {:>10} {:>10}\n", l.rank, l.last_in,
                          ShowNanoseconds(l.caused), ShowNanoseconds(l.waited));
    }
  }

  void Notes() {
    bool any = false;
    for (const RankTrace& t : set_.ranks) {
      for (const ParseNote& n : t.notes) {
        if (!any) Heading("notes");
        any = true;
        const std::string of = set_.ranks.size() > 1 ? RankName(t) + ": " : "";
        out_ += Wrap(
            n.count > 1 ? fmt::format("{}{} ({} times)", of, n.sentence, n.count) : of + n.sentence,
            static_cast<std::size_t>(width_), "  ");
      }
      for (const UnknownCategory& u : t.unknown) {
        out_ += fmt::format("  category {}: {} events, {}\n", u.category, u.count,
                            ShowNanoseconds(u.total));
      }
    }
    for (const std::string& r : set_.remarks) {
      out_ += Wrap(EscapeForDisplay(r), static_cast<std::size_t>(width_), "  ");
    }
  }

  const TraceSet& set_;
  const Diagnosis& d_;
  int width_;
  bool unicode_;
  std::string out_;
};

}  // namespace

std::string TracesText(const TraceSet& traces, const Diagnosis& diagnosis, int width,
                       bool unicode) {
  return Writer(traces, diagnosis, width, unicode).Run();
}

}  // namespace attune
