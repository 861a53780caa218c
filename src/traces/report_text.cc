#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "attune/base/text.h"
#include "attune/traces/diagnose.h"

namespace attune {
namespace {

constexpr std::size_t kMaxStepBars = 8;
constexpr std::size_t kMaxRankBars = 32;
constexpr std::size_t kMaxKernels = 8;
constexpr int kLeastWidth = 60;
constexpr int kNameWidth = 18;

std::string Time(std::int64_t ns) {
  const double us = static_cast<double>(ns) / 1000;
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1000);
  return fmt::format("{:.2f} s", us / 1e6);
}

double Share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// What a bar is made of. The parts are disjoint and fill it.
struct Parts {
  // compute (with communication under it), memory alone, exposed communication, host wait, other
  // idle
  std::array<std::int64_t, 5> time{};
};
constexpr std::array<char, 5> kAscii = {'#', 'm', 'x', '.', ' '};
constexpr std::array<std::string_view, 5> kUnicode = {"█", "▓", "▒", "·", " "};
constexpr std::array<std::string_view, 5> kPartNames = {
    "compute", "copies alone", "exposed communication", "host wait", "other idle"};

Parts PartsOf(const Breakdown& b, const IdleSplit& idle) {
  Parts p;
  p.time[0] = b.compute;
  p.time[1] = std::max<std::int64_t>(0, b.busy - b.compute - b.exposed);
  p.time[2] = b.exposed;
  p.time[3] = std::min(idle.host_wait, b.idle());
  p.time[4] = b.idle() - p.time[3];
  return p;
}

std::string Bar(const Parts& p, int cells, bool unicode) {
  std::int64_t whole = 0;
  for (const std::int64_t t : p.time) whole += t;
  std::string bar;
  std::int64_t sum = 0;
  int drawn = 0;
  for (std::size_t i = 0; i < p.time.size(); ++i) {
    sum += p.time[i];
    // Ends of the parts are rounded, so the bar has `cells` cells whatever the parts.
    const int end = static_cast<int>(std::lround(Share(sum, whole) * cells));
    for (; drawn < end; ++drawn) {
      if (unicode) {
        bar += kUnicode[i];
      } else {
        bar += kAscii[i];
      }
    }
  }
  bar.append(static_cast<std::size_t>(std::max(0, cells - drawn)), ' ');
  return bar;
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

std::string RankName(const RankTrace& t) {
  return t.rank >= 0 ? fmt::format("rank {}", t.rank) : std::string("rank ?");
}

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
    const std::string bar = Bar(PartsOf(b, idle), cells, unicode_);
    out_ += fmt::format("{:<{}.{}}{:>10}  |{}|\n", name, kNameWidth, kNameWidth, Time(span), bar);
  }

  void Bars() {
    const bool gpu = std::any_of(set_.ranks.begin(), set_.ranks.end(),
                                 [](const RankTrace& t) { return t.HasGpu(); });
    if (!gpu) {
      HostBars();
      return;
    }
    std::string legend = "time of the GPU";
    for (std::size_t i = 0; i < kPartNames.size() - 1; ++i) {
      const std::string mark = unicode_ ? std::string(kUnicode[i]) : std::string(1, kAscii[i]);
      legend += fmt::format("{} {} {}", i == 0 ? ":" : ",", mark, kPartNames[i]);
    }
    Heading(legend);
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
      out_ += Fit(fmt::format("  {:<16} {:>10} {:5.1f} % {:>8} {}", c.cls, Time(c.total),
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
      out_ += Fit(
          fmt::format("  {:>10} {:>8} {:>10}  {}", Time(k.total), k.count, Time(k.median), k.name),
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
        out_ += Fit(fmt::format("  {:>10} {:>10} {:>6}  {} {}{}", Time(c.exposed), Time(c.time),
                                c.count, c.type,
                                c.description.empty() || c.description == "undefined"
                                    ? (c.group.empty() ? "(group not known)" : "group " + c.group)
                                    : c.description,
                                c.group_size > 0 ? fmt::format(", {} ranks", c.group_size) : ""),
                    width_);
      }
    }
    Heading("streams (busy; idle by host wait, kernel wait, communication wait, other)");
    for (const StreamFigures& s : t.streams) {
      out_ += Fit(fmt::format("  device {} stream {:<6} {:>10}; {:>10} {:>10} {:>10} {:>10}",
                              s.device, s.stream, Time(s.busy), Time(s.idle.host_wait),
                              Time(s.idle.kernel_wait), Time(s.idle.comm_wait), Time(s.idle.other)),
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
      out_ += fmt::format("  rank {:<6} {:>5} {:>10} {:>10}\n", l.rank, l.last_in, Time(l.caused),
                          Time(l.waited));
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
        out_ += fmt::format("  category {}: {} events, {}\n", u.category, u.count, Time(u.total));
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
