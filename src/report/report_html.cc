#include <fmt/core.h>

#include "chart.h"
#include "markup.h"
#include "report_lines.h"

namespace attune {
namespace {

using report::ForHtml;

// The policy is a second fence behind the escaping: were a script or a link to slip through, no
// browser would run or fetch it.
constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
)";

constexpr std::string_view kStyle = R"(<style>
body{font:15px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.3em}h2{font-size:1.1em;margin-top:2em}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25em .6em;border-bottom:1px solid #ddd;
overflow-wrap:anywhere}
th{white-space:nowrap}
svg{width:100%;height:auto;margin:1em 0;font:12px system-ui,sans-serif}
svg .name{font-weight:bold}svg .grid{stroke:#ddd}
path{fill:none;stroke-width:1.6}
path.was{stroke:#777}path.now{stroke:#0a6}circle.now{fill:#0a6}circle.sure{fill:#c40}
text.was{fill:#555}text.now{fill:#075}text.sure{fill:#a30}path.sure{stroke:none}
</style>
)";

std::string GainChart(const Report& r) {
  report::ChartSeries search{
      .name = "search", .style = "now", .points = {}, .steps = true, .dots = true};
  report::ChartSeries verified{
      .name = "verified", .style = "sure", .points = {}, .steps = false, .dots = true};
  for (const ReportPoint& p : r.curve) {
    (p.verified ? verified : search).points.push_back({p.gpu_hours, 100 * p.gain});
  }
  // The best so far holds until the end of what was spent.
  if (!search.points.empty()) {
    const double end = r.ledger.Charged().Hours();
    if (end > search.points.back().x) search.points.push_back({end, search.points.back().y});
  }
  return report::LineChart("Best so far", "GPU-hours charged", "gain over the recipe, %",
                           {search, verified});
}

std::string StepChart(const Report& r) {
  const auto series = [](const char* name, const char* style, const RunId& run,
                         const std::vector<ReportStep>& steps) {
    report::ChartSeries s{
        .name = fmt::format("{} {}", name, run.value), .style = style, .points = {}};
    for (const ReportStep& step : steps) {
      s.points.push_back({static_cast<double>(step.iteration), step.ms});
    }
    return s;
  };
  return report::LineChart(
      "Step times", "iteration", "ms",
      {series("recipe", "was", r.baseline_run, r.baseline_steps),
       series(r.final ? "shipped" : "leader", "now", r.leader_run, r.leader_steps)});
}

std::string Trials(const Report& r) {
  if (r.paid.empty() && r.no_gain.empty()) return {};
  std::string rows;
  for (const auto* trials : {&r.paid, &r.no_gain}) {
    for (const ReportTrial& t : *trials) {
      rows += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"
          "\n",
          ForHtml(t.run.value), ForHtml(t.label), ForHtml(t.change), ForHtml(t.result),
          t.score ? fmt::format("{:.1f}", *t.score) : "-",
          t.gain ? fmt::format("{:+.1f}%", 100 * *t.gain) : "-", ForHtml(t.reason));
    }
  }
  return "<h2>Runs of the search</h2>\n<table><tr><th>run</th><th>label</th><th>change over the "
         "recipe</th><th>result</th><th>tok/s/GPU</th><th>gain</th><th>why</th></tr>\n" +
         rows + "</table>\n";
}

}  // namespace

std::string ReportHtml(const Report& r) {
  std::string html(kHead);
  html += fmt::format("<title>attune {}</title>\n{}</head><body>\n<h1>{}</h1>\n<table>\n",
                      ForHtml(r.campaign.value), kStyle, ForHtml(report::Title(r)));
  for (const report::Line& line : report::Lines(r)) {
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", ForHtml(line.key), ForHtml(line.text));
  }
  html += "</table>\n" + GainChart(r) + StepChart(r) + Trials(r);
  return html + "</body></html>\n";
}

}  // namespace attune
