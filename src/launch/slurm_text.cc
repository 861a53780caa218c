#include "slurm_text.h"

#include <algorithm>
#include <array>

#include "attune/base/text.h"

namespace attune::launch {
namespace {

struct Column {
  std::string_view word;
  int width;
};
// The name is a token of ours when the query names tokens, so nothing in a line can hold a newline.
constexpr std::array<Column, 12> kColumns = {{{"JobID", 24},
                                              {"State", 24},
                                              {"Name", 140},
                                              {"SubmitTime", 24},
                                              {"StartTime", 24},
                                              {"EndTime", 24},
                                              {"RestartCnt", 12},
                                              {"exit_code", 16},
                                              {"tres-alloc", 400},
                                              {"BatchHost", 256},
                                              {"NodeList", 4096},
                                              {"Reason", 256}}};

bool IsAbsent(std::string_view s) {
  return s.empty() || s == "N/A" || s == "n/a" || s == "Unknown" || s == "None" || s == "(null)" ||
         s == "NONE" || s == "None assigned";
}

// Epoch seconds: the client is told SLURM_TIME_FORMAT=%s.
bool ReadTime(std::string_view text, std::int64_t& into) {
  if (IsAbsent(text)) {
    into = 0;
    return true;
  }
  const auto value = ParseInt(text);
  if (!value || *value < 0) {
    return false;
  }
  into = *value;
  return true;
}

// "CANCELLED by 0": the first word. Upper-case letters and '_' only, else empty.
std::string StateWord(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  const bool plain = std::all_of(word.begin(), word.end(),
                                 [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
  return plain ? std::string(word) : std::string();
}

bool IsId(std::string_view s) {
  return !s.empty() && s.size() <= 12 &&
         std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The raw status of wait(2) as squeue prints it, or sacct's "code:signal".
bool ReadExit(std::string_view text, SlurmJob& job) {
  if (IsAbsent(text)) {
    return true;
  }
  const auto colon = text.find(':');
  std::int64_t code = 0, signal = 0;
  if (colon == std::string_view::npos) {
    const auto raw = ParseInt(text);
    if (!raw || *raw < 0) {
      return false;
    }
    code = (*raw >> 8) & 0xff;
    signal = *raw & 0x7f;
  } else {
    const auto a = ParseInt(text.substr(0, colon)), b = ParseInt(text.substr(colon + 1));
    if (!a || !b) {
      return false;
    }
    code = *a;
    signal = *b;
  }
  if (signal != 0) {
    job.signal = static_cast<int>(signal);
  } else {
    job.code = static_cast<int>(code);
  }
  return true;
}

// gres/gpu=16 of "cpu=16,mem=200M,node=2,gres/gpu=16"; typed entries repeat the plain one.
std::optional<int> GpusOf(std::string_view tres) {
  for (const std::string_view part : Split(tres, ',')) {
    constexpr std::string_view kGpu = "gres/gpu=";
    if (part.starts_with(kGpu)) {
      const auto n = ParseInt(part.substr(kGpu.size()));
      if (n && *n >= 0 && *n <= 1'000'000) {
        return static_cast<int>(*n);
      }
    }
  }
  return std::nullopt;
}

std::string Present(std::string_view s) { return IsAbsent(s) ? std::string() : std::string(s); }

}  // namespace

std::string QueueFormat() {
  std::string out;
  for (const Column& c : kColumns) {
    out += (out.empty() ? "" : ",") + std::string(c.word) + ":" + std::to_string(c.width);
  }
  return out;
}

ParsedJobs ParseQueue(std::string_view text) {
  ParsedJobs out;
  for (const std::string_view line : SplitLines(text)) {
    if (Trim(line).empty()) {
      continue;
    }
    std::array<std::string_view, kColumns.size()> cell;
    std::size_t at = 0;
    bool ok = true;
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto width = static_cast<std::size_t>(kColumns[i].width);
      const std::string_view raw = at < line.size() ? line.substr(at, width) : std::string_view();
      cell[i] = Trim(raw);
      // A value that fills its column was cut: only the reason may be, it is for people.
      ok = ok && (cell[i].size() < width || i + 1 == kColumns.size());
      at += width;
    }
    SlurmJob job;
    job.id = std::string(cell[0]);
    job.state = StateWord(cell[1]);
    job.name = std::string(cell[2]);
    const auto restarts = ParseInt(cell[6]);
    ok = ok && at >= line.size() && IsId(job.id) && !job.state.empty() && !job.name.empty() &&
         ReadTime(cell[3], job.submitted) && ReadTime(cell[4], job.started) &&
         ReadTime(cell[5], job.ended) && restarts && *restarts >= 0 && *restarts < 100'000 &&
         ReadExit(cell[7], job);
    if (!ok) {
      ++out.bad;
      continue;
    }
    job.restarts = static_cast<int>(*restarts);
    job.gpus = GpusOf(cell[8]);
    job.batch_host = Present(cell[9]);
    job.nodes = Present(cell[10]);
    job.reason = Present(cell[11]);
    out.jobs.push_back(std::move(job));
  }
  return out;
}

std::string AccountingFormat() {
  return "JobIDRaw,State,JobName,Submit,Start,End,ExitCode,AllocTRES,NodeList";
}

ParsedJobs ParseAccounting(std::string_view text) {
  ParsedJobs out;
  for (const std::string_view line : SplitLines(text)) {
    if (Trim(line).empty()) {
      continue;
    }
    const std::vector<std::string_view> cell = Split(line, '|');
    SlurmJob job;
    if (cell.size() != 9) {
      ++out.bad;
      continue;
    }
    job.id = std::string(cell[0]);
    job.state = StateWord(cell[1]);
    job.name = std::string(cell[2]);
    if (constexpr std::string_view kBy = "CANCELLED by "; cell[1].starts_with(kBy)) {
      job.cancelled_by = ParseInt(cell[1].substr(kBy.size()));
    }
    const bool ok = IsId(job.id) && !job.state.empty() && ReadTime(cell[3], job.submitted) &&
                    ReadTime(cell[4], job.started) && ReadTime(cell[5], job.ended) &&
                    ReadExit(cell[6], job);
    if (!ok) {
      ++out.bad;
      continue;
    }
    job.gpus = GpusOf(cell[7]);
    job.nodes = Present(cell[8]);
    out.jobs.push_back(std::move(job));
  }
  return out;
}

std::optional<std::string> ParseSubmitted(std::string_view out) {
  std::optional<std::string> id;
  for (const std::string_view line : SplitLines(out)) {
    const std::string_view first = Trim(line.substr(0, line.find(';')));
    if (IsId(first)) {
      id = std::string(first);
    }
  }
  return id;
}

bool IsRefusal(int exit_code, std::string_view err) {
  if (exit_code == 0) {
    return false;
  }
  // slurm_errno.c: what slurmctld answers before anything is queued, and sbatch's own complaints
  // about its arguments and the script, which come before it asks anybody.
  static constexpr std::array<std::string_view, 33> kSigns = {
      "Invalid partition name specified",
      "Requested node configuration is not available",
      "Invalid node name specified",
      "Invalid account or account/partition combination",
      "Invalid qos specification",
      "Job violates accounting/QOS policy",
      "Requested time limit is invalid",
      "Time limit specification required",
      "Access/permission denied",
      "Node count specification invalid",
      "Requested node count",
      "Memory specification can not be satisfied",
      "Memory required by task is not available",
      "CPU count specification invalid",
      "CPU count per node can not be satisfied",
      "Invalid generic resource (gres) specification",
      "Invalid Trackable RESource (TRES) specification",
      "Invalid feature specification",
      "More processors requested than permitted",
      "User's group not permitted to use this partition",
      "Invalid user id",
      "Invalid license specification",
      "Requested reservation is invalid",
      "Invalid wckey specification",
      "Requested partition configuration not available now",
      "Job size specification",
      "unrecognized option",
      "ambiguous",
      "requires an argument",
      "This does not look like a batch script",
      "Batch script contains DOS line breaks",
      "Unable to open file",
      "Pathname of a file, directory or other parameter too long",
  };
  const bool named = std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view sign) {
    return err.find(sign) != std::string_view::npos;
  });
  // "sbatch: error: Invalid --begin specification": an argument that sbatch could not read.
  const bool argument = err.find("sbatch: error: Invalid --") != std::string_view::npos ||
                        err.find("sbatch: error: invalid number of") != std::string_view::npos;
  return named || argument;
}

std::optional<std::string> ConfigText(std::string_view config, std::string_view key) {
  for (const std::string_view line : SplitLines(config)) {
    const auto eq = line.find('=');
    if (eq != std::string_view::npos && Trim(line.substr(0, eq)) == key) {
      return std::string(Trim(line.substr(eq + 1)));
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> ConfigSeconds(std::string_view config, std::string_view key) {
  const auto text = ConfigText(config, key);
  if (!text) {
    return std::nullopt;
  }
  const std::string_view view = *text;
  const auto space = view.find(' ');
  const auto value = ParseInt(view.substr(0, space));
  if (!value || *value < 0) {
    return std::nullopt;
  }
  const std::string_view unit =
      space == std::string_view::npos ? std::string_view("sec") : view.substr(space + 1);
  if (unit == "sec") {
    return *value;
  }
  return unit == "min" ? std::optional<std::int64_t>(*value * 60) : std::nullopt;
}

}  // namespace attune::launch
