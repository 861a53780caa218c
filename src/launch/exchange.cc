#include "exchange.h"

#include <array>

#include "attune/base/text.h"
#include "exchange_fields.h"

namespace attune::launch {
namespace {

constexpr std::array<std::pair<FolderState, std::string_view>, 4> kStates = {{
    {FolderState::kAbsent, "absent"},
    {FolderState::kRunning, "running"},
    {FolderState::kEnding, "ending"},
    {FolderState::kOver, "over"},
}};

std::optional<FolderState> ParseState(std::string_view word) {
  for (const auto& [state, w] : kStates) {
    if (w == word) {
      return state;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view Word(FolderState s) {
  for (const auto& [state, word] : kStates) {
    if (state == s) {
      return word;
    }
  }
  return "absent";
}

std::string Encode(const LookRequest& q) {
  Record r("look");
  r.Add("root", q.root);
  r.Add("wait_ms", q.wait.count());
  r.Add("margin_ms", q.margin.count());
  r.Add("most", q.most);
  for (const LookRequest::Launch& launch : q.launches) {
    r.Add("token", launch.token.value);
    r.Add("attempt", launch.attempt);
    r.Add("look_after", launch.look_after ? 1 : 0);
    if (launch.told) {
      r.Add("told", std::string(Word(*launch.told)));
    }
    for (const WantedFile& file : launch.files) {
      r.Add("from", file.from);
      r.Add("file", file.path);
    }
  }
  return r.Encode();
}

Result<LookRequest> DecodeLookRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "look"));
  Fields in(r);
  LookRequest q;
  q.root = in.Text("root");
  q.wait = Millis{in.Int("wait_ms")};
  q.margin = Millis{in.Int("margin_ms")};
  q.most = in.Int("most");
  bool ok = in.ok() && q.wait >= Millis{0} && q.most > 0;
  std::int64_t from = -1;
  for (const auto& [key, value] : r.fields()) {
    if (key == "token") {
      q.launches.push_back({});
      q.launches.back().token = Token(value);
    } else if (q.launches.empty()) {
      continue;
    } else if (key == "attempt" || key == "look_after" || key == "from") {
      const auto n = ParseInt(value);
      ok = ok && n && *n >= -1;
      if (key == "from") {
        from = n.value_or(-1);
      } else if (key == "attempt") {
        q.launches.back().attempt = static_cast<int>(n.value_or(0));
      } else {
        q.launches.back().look_after = n.value_or(0) == 1;
      }
    } else if (key == "told") {
      q.launches.back().told = ParseState(value);
      ok = ok && q.launches.back().told;
    } else if (key == "file") {
      q.launches.back().files.push_back({value, from});
    } else {
      ok = false;
    }
  }
  if (!ok) {
    return Unfit("look");
  }
  return q;
}

std::string Encode(const LookAnswer& a) {
  Record r("seen");
  r.Add("host", a.host);
  r.Add("boot_id", a.boot_id);
  r.Add("wall_ms", a.wall_ms);
  r.Add("mono_ms", a.mono.count());
  for (const LookAnswer::Launch& launch : a.launches) {
    r.Add("token", launch.token.value);
    r.Add("state", std::string(Word(launch.state)));
    r.Add("more", launch.more ? 1 : 0);
    for (const LookAnswer::Piece& piece : launch.pieces) {
      r.Add("from", piece.from);
      r.Add("file", piece.path);
      r.Add("bytes", piece.bytes);
    }
  }
  return r.Encode();
}

Result<LookAnswer> DecodeLookAnswer(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "seen"));
  Fields in(r);
  LookAnswer a;
  a.host = in.Text("host");
  a.boot_id = in.Text("boot_id");
  a.wall_ms = in.Int("wall_ms");
  a.mono = Millis{in.Int("mono_ms")};
  bool ok = in.ok();
  LookAnswer::Piece piece;
  for (const auto& [key, value] : r.fields()) {
    if (key == "token") {
      a.launches.push_back({});
      a.launches.back().token = Token(value);
    } else if (a.launches.empty()) {
      continue;
    } else if (key == "state") {
      const auto state = ParseState(value);
      ok = ok && state;
      a.launches.back().state = state.value_or(FolderState::kAbsent);
    } else if (key == "more") {
      a.launches.back().more = value == "1";
    } else if (key == "from") {
      const auto n = ParseInt(value);
      ok = ok && n && *n >= -1;
      piece.from = n.value_or(-1);
    } else if (key == "file") {
      piece.path = value;
    } else if (key == "bytes") {
      piece.bytes = value;
      a.launches.back().pieces.push_back(std::move(piece));
      piece = {};
    } else {
      ok = false;
    }
  }
  if (!ok) {
    return Unfit("seen");
  }
  return a;
}

std::string Encode(const FindRequest& q) {
  Record r("find");
  r.Add("root", q.root);
  r.Add("token", q.token.value);
  return r.Encode();
}

Result<FindRequest> DecodeFindRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "find"));
  Fields in(r);
  FindRequest q{in.Text("root"), Token(in.Text("token"))};
  if (!in.ok()) {
    return Unfit("find");
  }
  return q;
}

std::string Encode(const CancelRequest& q) {
  Record r("cancel");
  r.Add("root", q.root);
  r.Add("token", q.token.value);
  r.Add("attempt", q.attempt);
  if (q.run) {
    r.Add("run", q.run->value);
  }
  return r.Encode();
}

Result<CancelRequest> DecodeCancelRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "cancel"));
  Fields in(r);
  CancelRequest q{in.Text("root"), Token(in.Text("token")), in.Small("attempt"), {}};
  if (auto run = r.Text("run")) {
    q.run = RunId(std::move(*run));
  }
  if (!in.ok()) {
    return Unfit("cancel");
  }
  return q;
}

std::string Encode(const FetchRequest& q) {
  Record r("fetch");
  r.Add("root", q.root);
  r.Add("token", q.token.value);
  r.Add("path", q.path);
  r.Add("offset", q.offset);
  r.Add("size", q.size);
  return r.Encode();
}

Result<FetchRequest> DecodeFetchRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "fetch"));
  Fields in(r);
  FetchRequest q{in.Text("root"), Token(in.Text("token")), in.Text("path"), in.Int("offset"),
                 in.Int("size")};
  if (!in.ok() || q.offset < 0 || q.size < 0) {
    return Unfit("fetch");
  }
  return q;
}

std::string Encode(const ProbeRequest& q) {
  Record r("probe");
  r.Add("root", q.root);
  r.Add("workdir", q.workdir);
  r.Add("program", q.program);
  return r.Encode();
}

Result<ProbeRequest> DecodeProbeRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "probe"));
  Fields in(r);
  ProbeRequest q{in.Text("root"), in.Text("workdir"), in.Text("program")};
  if (!in.ok()) {
    return Unfit("probe");
  }
  return q;
}

std::string Encode(const ProbeAnswer& a) {
  Record r("probed");
  r.Add("host", a.host);
  r.Add("boot_id", a.boot_id);
  r.Add("file_system", a.file_system);
  r.Add("wall_ms", a.wall_ms);
  r.Add("free_bytes", a.free_bytes);
  r.Add("cores", a.cores);
  r.Add("jobs", a.jobs);
  r.Add("load_percent", static_cast<std::int64_t>(a.load * 100));
  r.Add("root_writable", a.root_writable ? 1 : 0);
  r.Add("workdir_there", a.workdir_there ? 1 : 0);
  r.Add("program", a.program);
  return r.Encode();
}

Result<ProbeAnswer> DecodeProbeAnswer(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "probed"));
  Fields in(r);
  ProbeAnswer a;
  a.host = in.Text("host");
  a.boot_id = in.Text("boot_id");
  a.file_system = in.Text("file_system");
  a.wall_ms = in.Int("wall_ms");
  a.free_bytes = in.Int("free_bytes");
  a.cores = in.Small("cores");
  a.jobs = in.Small("jobs");
  a.load = static_cast<double>(in.Int("load_percent")) / 100;
  a.root_writable = in.Int("root_writable") == 1;
  a.workdir_there = in.Int("workdir_there") == 1;
  a.program = in.Text("program");
  if (!in.ok()) {
    return Unfit("probed");
  }
  return a;
}

std::string EncodeFound(std::string_view start_record) {
  Record r("found");
  r.Add("start", std::string(start_record));
  return r.Encode();
}

Result<std::string> DecodeFound(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "found"));
  auto start = r.Text("start");
  if (!start) {
    return Unfit("found");
  }
  return std::move(*start);
}

std::string EncodePiece(std::string_view bytes) {
  Record r("piece");
  r.Add("bytes", std::string(bytes));
  return r.Encode();
}

Result<std::string> DecodePiece(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "piece"));
  auto piece = r.Text("bytes");
  if (!piece) {
    return Unfit("piece");
  }
  return std::move(*piece);
}

std::string EncodeDone() { return Record("done").Encode(); }

Status DecodeDone(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "done"));
  return {};
}

}  // namespace attune::launch
