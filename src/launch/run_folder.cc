#include "run_folder.h"

#include <algorithm>
#include <array>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "hand_over.h"
#include "record.h"

namespace attune::launch {
namespace {

bool HasNul(std::string_view s) { return s.find('\0') != std::string_view::npos; }

std::string WhyInvalid(const Stage& stage) {
  const std::string name = EscapeForDisplay(stage.run.value, 40);
  if (!IsPlainName(stage.run.value)) {
    return "'" + name + "' is no name of a run";
  }
  if (stage.script.empty() && (stage.argv.empty() || stage.argv[0].empty())) {
    return "run " + name + " has an empty command";
  }
  if (!stage.script.empty()) {
    if (stage.kind != RanksKind::kNone) {
      return "run " + name + " has a launch script, and ranks that somebody else starts";
    }
    if (const std::string why = WhyNotInLines(stage); !why.empty())
      return "run " + name + ": " + why;
  }
  if (std::any_of(stage.argv.begin(), stage.argv.end(), HasNul)) {
    return "an argument of run " + name + " holds a NUL byte";
  }
  for (const auto& [key, value] : stage.env) {
    if (key.empty() || key.find('=') != std::string::npos || HasNul(key) || HasNul(value)) {
      return "'" + EscapeForDisplay(key, 60) + "' can't be set in the environment of run " + name;
    }
    if (key == "ATTUNE_TOKEN" || key == "ATTUNE_RUN_DIR" || key == "ATTUNE_ARGS_FILE" ||
        key == "ATTUNE_ENV_FILE") {
      return key + " is the wrapper's to set, not run " + name + "'s";
    }
  }
  if (!stage.workdir.starts_with('/') || HasNul(stage.workdir)) {
    return "the working folder of run " + name + " is not absolute";
  }
  if (stage.ranks < 0 || stage.ranks > 1024) {
    return "run " + name + " asks for " + std::to_string(stage.ranks) + " ranks";
  }
  if (stage.nodes < 1 || stage.node_rank < 0 || stage.node_rank >= stage.nodes ||
      HasNul(stage.master_addr) || stage.master_port < 0 || stage.master_port > 65'535) {
    return "run " + name + " has no right place among its nodes";
  }
  return {};
}

// All fields must be there; one that is missing makes the record as good as torn.
class FieldReader {
 public:
  explicit FieldReader(const Record& record) : record_(record) {}
  std::int64_t Int(std::string_view key) {
    const auto v = record_.Int(key);
    ok_ = ok_ && v.has_value();
    return v.value_or(0);
  }
  std::string Text(std::string_view key) {
    auto v = record_.Text(key);
    ok_ = ok_ && v.has_value();
    return v ? std::move(*v) : std::string();
  }
  std::optional<int> Maybe(std::string_view key) const {
    const auto v = record_.Int(key);
    return v ? std::optional<int>(static_cast<int>(*v)) : std::nullopt;
  }
  bool ok() const { return ok_; }

 private:
  const Record& record_;
  bool ok_ = true;
};

bool ReadSmall(std::string_view text, int& into) {
  const auto n = ParseInt(text);
  if (!n || *n < 0 || *n > 1'000'000) {
    return false;
  }
  into = static_cast<int>(*n);
  return true;
}

constexpr std::array<std::pair<Ending, std::string_view>, 7> kEndings = {{
    {Ending::kExited, "exited"},
    {Ending::kStopped, "stopped"},
    {Ending::kLimit, "limit"},
    {Ending::kTerminated, "terminated"},
    {Ending::kExecFailed, "exec_failed"},
    {Ending::kSkipped, "skipped"},
    {Ending::kBroken, "broken"},
}};

}  // namespace

bool IsPathBelow(std::string_view path) {
  const auto parts = Split(path, '/');
  return !path.empty() && path.find('\0') == std::string_view::npos &&
         std::none_of(parts.begin(), parts.end(), [](std::string_view part) {
           return part.empty() || part == "." || part == "..";
         });
}

bool IsPlainName(std::string_view s) {
  return !s.empty() && s.size() <= 128 && s[0] != '.' && s[0] != '-' &&
         std::all_of(s.begin(), s.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
         });
}

std::string WhyInvalid(const LaunchSpec& spec) {
  if (!IsPlainName(spec.token.value)) {
    return "'" + EscapeForDisplay(spec.token.value, 60) + "' is no token";
  }
  if (spec.slots < 1 || spec.limit <= Millis{0}) {
    return "a launch needs at least one slot and a time limit";
  }
  if (spec.stages.empty()) {
    return "a launch needs at least one run";
  }
  for (std::size_t i = 0; i < spec.stages.size(); ++i) {
    if (std::string why = WhyInvalid(spec.stages[i]); !why.empty()) {
      return why;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (spec.stages[j].run == spec.stages[i].run) {
        return "run " + spec.stages[i].run.value + " stands twice in one launch";
      }
    }
  }
  return {};
}

std::string EncodePlan(const Plan& plan) {
  Record r("plan");
  r.Add("token", plan.spec.token.value);
  r.Add("slots", plan.spec.slots);
  r.Add("limit_ms", plan.spec.limit.count());
  r.Add("grace_ms", plan.times.grace.count());
  r.Add("beat_ms", plan.times.beat.count());
  r.Add("poll_ms", plan.times.poll.count());
  r.Add("log_cap", plan.times.log_cap);
  for (const Stage& stage : plan.spec.stages) {
    r.Add("stage", stage.run.value);
    r.Add("workdir", stage.workdir);
    r.Add("ranks", stage.kind == RanksKind::kEnv ? stage.ranks : 0);
    if (stage.nodes > 1) {
      r.Add("nodes", stage.nodes);
      r.Add("node_rank", stage.node_rank);
      r.Add("master_addr", stage.master_addr);
      r.Add("master_port", stage.master_port);
    }
    if (!stage.script.empty()) {
      r.Add("script", stage.script);
    }
    for (const std::string& arg : stage.argv) {
      r.Add("arg", arg);
    }
    for (const auto& [name, value] : stage.env) {
      r.Add("env", name + "=" + value);
    }
  }
  return r.Encode();
}

Result<Plan> DecodePlan(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "plan"));
  FieldReader in(r);
  Plan plan;
  plan.spec.token = Token(in.Text("token"));
  plan.spec.slots = static_cast<int>(in.Int("slots"));
  plan.spec.limit = Millis{in.Int("limit_ms")};
  plan.times.grace = Millis{in.Int("grace_ms")};
  plan.times.beat = Millis{in.Int("beat_ms")};
  plan.times.poll = Millis{in.Int("poll_ms")};
  plan.times.log_cap = in.Int("log_cap");
  bool ok = in.ok();
  for (const auto& [key, value] : r.fields()) {
    if (key == "stage") {
      plan.spec.stages.push_back({});
      plan.spec.stages.back().run = RunId(value);
      continue;
    }
    if (plan.spec.stages.empty()) {
      continue;
    }
    Stage& stage = plan.spec.stages.back();
    if (key == "workdir") {
      stage.workdir = value;
    } else if (key == "ranks") {
      ok = ReadSmall(value, stage.ranks) && ok;
      stage.kind = stage.ranks > 0 ? RanksKind::kEnv : RanksKind::kNone;
    } else if (key == "nodes") {
      ok = ReadSmall(value, stage.nodes) && ok;
    } else if (key == "node_rank") {
      ok = ReadSmall(value, stage.node_rank) && ok;
    } else if (key == "master_addr") {
      stage.master_addr = value;
    } else if (key == "master_port") {
      ok = ReadSmall(value, stage.master_port) && ok;
    } else if (key == "script") {
      stage.script = value;
    } else if (key == "arg") {
      stage.argv.push_back(value);
    } else if (key == "env") {
      const auto eq = value.find('=');
      ok = ok && eq != std::string::npos;
      stage.env[value.substr(0, eq)] = eq == std::string::npos ? "" : value.substr(eq + 1);
    } else {
      ok = false;
    }
  }
  if (!ok || plan.times.grace < Millis{0} || plan.times.beat <= Millis{0} ||
      plan.times.poll <= Millis{0} || plan.times.log_cap < 0) {
    return Fail(ErrorCode::kCorrupt, "the plan lacks a field or holds an unknown one");
  }
  if (std::string why = WhyInvalid(plan.spec); !why.empty()) {
    return Fail(ErrorCode::kInvalidInput, std::move(why));
  }
  return plan;
}

std::string Encode(const StartRecord& s) {
  Record r("start");
  r.Add("token", s.token);
  r.Add("attempt", s.attempt);
  r.Add("run", s.run);
  r.Add("host", s.host);
  r.Add("pid", s.process.pid);
  r.Add("start_ticks", s.process.start_ticks);
  r.Add("boot_id", s.process.boot_id);
  r.Add("wall_ms", s.wall_ms);
  r.Add("mono_ms", s.mono.count());
  r.Add("job_id", s.job_id);
  return r.Encode();
}

std::optional<StartRecord> DecodeStart(std::string_view bytes) {
  const auto r = DecodeRecord(bytes, "start");
  if (!r) {
    return std::nullopt;
  }
  FieldReader in(*r);
  StartRecord s;
  s.token = in.Text("token");
  s.attempt = static_cast<int>(in.Int("attempt"));
  s.run = in.Text("run");
  s.host = in.Text("host");
  s.process.pid = static_cast<pid_t>(in.Int("pid"));
  s.process.start_ticks = in.Int("start_ticks");
  s.process.boot_id = in.Text("boot_id");
  s.wall_ms = in.Int("wall_ms");
  s.mono = Millis{in.Int("mono_ms")};
  s.job_id = in.Text("job_id");
  return in.ok() ? std::optional<StartRecord>(std::move(s)) : std::nullopt;
}

std::string Encode(const BeatRecord& b) {
  Record r("beat");
  r.Add("wall_ms", b.wall_ms);
  r.Add("mono_ms", b.mono.count());
  r.Add("run", b.run);
  r.Add("log_bytes", b.log_bytes);
  return r.Encode();
}

std::optional<BeatRecord> DecodeBeat(std::string_view bytes) {
  const auto r = DecodeRecord(bytes, "beat");
  if (!r) {
    return std::nullopt;
  }
  FieldReader in(*r);
  BeatRecord b;
  b.wall_ms = in.Int("wall_ms");
  b.mono = Millis{in.Int("mono_ms")};
  b.run = in.Text("run");
  b.log_bytes = in.Int("log_bytes");
  return in.ok() ? std::optional<BeatRecord>(std::move(b)) : std::nullopt;
}

std::string_view Word(Ending e) {
  for (const auto& [ending, word] : kEndings) {
    if (ending == e) {
      return word;
    }
  }
  return "broken";
}

std::optional<Ending> ParseEnding(std::string_view word) {
  for (const auto& [ending, w] : kEndings) {
    if (w == word) {
      return ending;
    }
  }
  return std::nullopt;
}

std::string Encode(const ExitRecord& e) {
  Record r("exit");
  r.Add("ending", std::string(Word(e.ending)));
  if (e.code) {
    r.Add("code", *e.code);
  }
  if (e.signal) {
    r.Add("signal", *e.signal);
  }
  r.Add("rank", e.rank);
  r.Add("wall_ms", e.wall_ms);
  r.Add("mono_ms", e.mono.count());
  r.Add("held_ms", e.held.count());
  r.Add("log_bytes", e.log_bytes);
  r.Add("log_dropped", e.log_dropped);
  r.Add("user_ms", e.user.count());
  r.Add("system_ms", e.system.count());
  r.Add("max_rss_bytes", e.max_rss_bytes);
  r.Add("strays", e.strays);
  r.Add("survivors", e.survivors);
  r.Add("detail", e.detail);
  return r.Encode();
}

std::optional<ExitRecord> DecodeExit(std::string_view bytes) {
  const auto r = DecodeRecord(bytes, "exit");
  if (!r) {
    return std::nullopt;
  }
  FieldReader in(*r);
  ExitRecord e;
  const auto ending = ParseEnding(in.Text("ending"));
  e.code = in.Maybe("code");
  e.signal = in.Maybe("signal");
  e.rank = static_cast<int>(in.Int("rank"));
  e.wall_ms = in.Int("wall_ms");
  e.mono = Millis{in.Int("mono_ms")};
  e.held = Millis{in.Int("held_ms")};
  e.log_bytes = in.Int("log_bytes");
  e.log_dropped = in.Int("log_dropped");
  e.user = Millis{in.Int("user_ms")};
  e.system = Millis{in.Int("system_ms")};
  e.max_rss_bytes = in.Int("max_rss_bytes");
  e.strays = static_cast<int>(in.Int("strays"));
  e.survivors = static_cast<int>(in.Int("survivors"));
  e.detail = in.Text("detail");
  if (!in.ok() || !ending) {
    return std::nullopt;
  }
  e.ending = *ending;
  return e;
}

std::string Encode(const LostRecord& l) {
  Record r("lost");
  r.Add("held_ms", l.held.count());
  r.Add("survivors", l.survivors ? 1 : 0);
  return r.Encode();
}

std::optional<LostRecord> DecodeLost(std::string_view bytes) {
  const auto r = DecodeRecord(bytes, "lost");
  if (!r) {
    return std::nullopt;
  }
  FieldReader in(*r);
  LostRecord l;
  l.held = Millis{in.Int("held_ms")};
  l.survivors = in.Int("survivors") != 0;
  return in.ok() ? std::optional<LostRecord>(l) : std::nullopt;
}

std::string EncodeStop(std::string_view by, std::int64_t wall_ms) {
  Record r("stop");
  r.Add("by", std::string(by));
  r.Add("wall_ms", wall_ms);
  return r.Encode();
}

namespace {

std::string EncodePair(std::int64_t first, std::int64_t second) {
  std::string out;
  for (const std::int64_t v : {first, second}) {
    for (int byte = 0; byte < 8; ++byte) {
      out += static_cast<char>((static_cast<std::uint64_t>(v) >> (8 * byte)) & 0xff);
    }
  }
  return out;
}

std::int64_t NumberAt(std::string_view bytes, std::size_t at) {
  std::uint64_t v = 0;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    v |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + byte])) << (8 * byte);
  }
  return static_cast<std::int64_t>(v);
}

}  // namespace

std::string Encode(Stamp s) { return EncodePair(s.end, s.ms); }
std::string Encode(ErrRange r) { return EncodePair(r.from, r.end); }

std::vector<Stamp> DecodeStamps(std::string_view bytes) {
  std::vector<Stamp> out;
  for (std::size_t at = 0; at + kStampBytes <= bytes.size(); at += kStampBytes) {
    const Stamp s{NumberAt(bytes, at), NumberAt(bytes, at + 8)};
    if (s.end <= (out.empty() ? 0 : out.back().end) || s.ms < (out.empty() ? 0 : out.back().ms)) {
      break;
    }
    out.push_back(s);
  }
  return out;
}

std::vector<ErrRange> DecodeErrRanges(std::string_view bytes) {
  std::vector<ErrRange> out;
  for (std::size_t at = 0; at + kErrRangeBytes <= bytes.size(); at += kErrRangeBytes) {
    const ErrRange r{NumberAt(bytes, at), NumberAt(bytes, at + 8)};
    if (r.end <= r.from || r.from < (out.empty() ? 0 : out.back().end)) {
      break;
    }
    out.push_back(r);
  }
  return out;
}

std::optional<std::string> ReadRecordFile(const std::string& path) {
  auto bytes = os::ReadFileBounded(path, kMaxRecordBytes);
  return bytes ? std::optional<std::string>(std::move(*bytes)) : std::nullopt;
}

std::string RankFile(const std::string& name, int rank) {
  return rank == 0 ? name : name + "." + std::to_string(rank);
}

std::string AttemptFolder(const std::string& launch_folder, int attempt) {
  return launch_folder + "/a" + std::to_string(attempt);
}

}  // namespace attune::launch
