#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/launch/slurm.h"
#include "slurm_client.h"
#include "slurm_place.h"
#include "slurm_script.h"

namespace attune {
namespace {

using launch::SlurmClient;

std::vector<SlurmReport::Partition> Partitions(SlurmClient& client) {
  std::vector<SlurmReport::Partition> out;
  const auto r = client.Call({"sinfo", "--noheader", "--summarize", "--format=%R|%a|%l|%F"});
  if (!r || r->exit_code != 0) {
    return out;
  }
  for (const std::string_view line : SplitLines(r->out)) {
    const auto cell = Split(line, '|');
    if (cell.size() != 4) {
      continue;
    }
    const auto counts = Split(cell[3], '/');  // allocated, idle, other, total
    const auto idle = counts.size() == 4 ? ParseInt(counts[1]) : std::nullopt;
    const auto nodes = counts.size() == 4 ? ParseInt(counts[3]) : std::nullopt;
    if (!idle || !nodes) {
      continue;
    }
    out.push_back({std::string(cell[0]), std::string(cell[2]), cell[1] == "up",
                   static_cast<int>(*nodes), static_cast<int>(*idle)});
  }
  return out;
}

// sdiag's first line ends in slurmctld's time: "sdiag output at Mon ... (1796068209)".
std::optional<std::int64_t> ControllersTime(SlurmClient& client) {
  const auto r = client.Call({"sdiag"});
  if (!r || r->exit_code != 0) {
    return std::nullopt;
  }
  constexpr std::string_view kHead = "sdiag output at ";
  const std::string_view text = r->out;
  const auto at = text.find(kHead);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view line = text.substr(at, text.find('\n', at) - at);
  const auto open = line.rfind('('), close = line.rfind(')');
  return open == std::string_view::npos || close == std::string_view::npos || close < open
             ? std::nullopt
             : ParseInt(line.substr(open + 1, close - open - 1));
}

}  // namespace

SlurmReport AskSlurm(const SlurmOptions& options, const LaunchSpec& spec) {
  ATTUNE_CHECK(options.clock != nullptr, "a question about clocks needs one");
  const auto place = launch::MakeSlurmPlace(options);
  SlurmReport report;
  report.terms = AskSlurmTerms(options);
  SlurmClient client(place->programs(), options.environment, options.command_limit);
  if (!report.terms.answered) {
    const auto config = client.Config();
    report.trouble = config ? "scontrol show config can't be read" : config.error().message;
    return report;
  }
  const std::int64_t before = options.clock->Now().ms / 1000;
  if (const auto time = ControllersTime(client)) {
    report.skew_s = *time - before;
  }
  report.partitions = Partitions(client);
  std::vector<std::string> argv = launch::SbatchArgv(options, spec, "/tmp", "");
  argv.back() = "--test-only";  // in the place of the script, which comes on stdin
  const auto r = client.Call(std::move(argv), "#!/bin/sh\ntrue\n");
  if (!r) {
    report.test_only = r.error().message;
  } else {
    report.would_start = r->exit_code == 0;
    report.test_only = EscapeForDisplay(Trim(r->err.empty() ? r->out : r->err), 400);
  }
  return report;
}

}  // namespace attune
