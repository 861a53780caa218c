#include <fmt/core.h>

#include "attune/base/text.h"
#include "markup.h"
#include "report_lines.h"

namespace attune {

std::string ReportText(const Report& r) {
  std::string text = EscapeForDisplay(report::Title(r), report::kMaxField) + "\n";
  for (const report::Line& line : report::Lines(r)) {
    text += fmt::format("  {:<13} {}\n", line.key, EscapeForDisplay(line.text, report::kMaxField));
  }
  return text;
}

std::string ReportMarkdown(const Report& r) {
  std::string text = "## attune: " + report::ForMarkdown(report::Title(r)) + "\n\n";
  for (const report::Line& line : report::Lines(r)) {
    text += fmt::format("- **{}** {}\n", line.key, report::ForMarkdown(line.text));
  }
  if (r.paid.empty() && r.no_gain.empty()) return text;
  text +=
      "\n| run | label | change over the recipe | result | tok/s/GPU | gain | why |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const auto* trials : {&r.paid, &r.no_gain}) {
    for (const ReportTrial& t : *trials) {
      text += fmt::format(
          "| {} | {} | {} | {} | {} | {} | {} |\n", report::ForMarkdown(t.run.value),
          report::ForMarkdown(t.label), report::ForMarkdown(t.change),
          report::ForMarkdown(t.result), t.score ? fmt::format("{:.1f}", *t.score) : "-",
          t.gain ? fmt::format("{:+.1f}%", 100 * *t.gain) : "-", report::ForMarkdown(t.reason));
    }
  }
  return text;
}

}  // namespace attune
