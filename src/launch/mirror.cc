#include "mirror.h"

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "ranks.h"

namespace attune::launch {
namespace {

// Beside the bytes of the cap: the line that says what was left out, and the last 64 KiB.
constexpr std::int64_t kBesideCap = 1 << 20;

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What tells of the bytes of `out`, and so comes after them.
bool IsAboutOut(const std::string& path) {
  return NameOf(path).starts_with("stamps") || NameOf(path).starts_with("errs");
}

}  // namespace

Mirror::Mirror(std::string folder, const Plan& plan, int attempt)
    : folder_(std::move(folder)), log_cap_(plan.times.log_cap) {
  const std::string below = "a" + std::to_string(attempt);
  beat_ = below + "/beat";
  std::vector<std::string> records = {below + "/start", below + "/exit", below + "/stop",
                                      below + "/lost"};
  std::vector<std::string> logs = {below + "/wrapper.log"};
  stage_folders_.push_back(below);
  for (const Stage& stage : plan.spec.stages) {
    const std::string stage_folder = below + "/" + stage.run.value;
    stage_folders_.push_back(stage_folder);
    records.push_back(stage_folder + "/start");
    records.push_back(stage_folder + "/exit");
    for (int rank = 0; rank < LogsOf(stage); ++rank) {
      logs.push_back(stage_folder + "/" + RankFile("out", rank));
      logs.push_back(stage_folder + "/" + RankFile("stamps", rank));
      logs.push_back(stage_folder + "/" + RankFile("errs", rank));
    }
  }
  whole_ = final();
  for (std::string& path : records) {
    if (!os::Exists(folder_ + "/" + path)) {
      records_.insert(std::move(path));
    }
  }
  for (std::string& path : logs) {
    const auto facts = os::StatFile(folder_ + "/" + path);
    logs_[std::move(path)] = facts ? facts->size : 0;
  }
}

bool Mirror::final() const {
  const std::string attempt = folder_ + "/" + stage_folders_.front();
  return os::Exists(attempt + "/exit") || os::Exists(attempt + "/lost");
}

std::vector<WantedFile> Mirror::Wanted() const {
  std::vector<WantedFile> out = {{beat_, -1}};
  for (const std::string& path : records_) {
    out.push_back({path, -1});
  }
  // stamps before out: a stamp speaks of bytes that were there when it was read.
  for (const bool stamps : {true, false}) {
    for (const auto& [path, size] : logs_) {
      if (IsAboutOut(path) == stamps) {
        out.push_back({path, size});
      }
    }
  }
  return out;
}

Status Mirror::ApplyLog(const LookAnswer::Piece& piece) {
  const auto it = logs_.find(piece.path);
  if (it == logs_.end() || piece.from < 0) {
    return Fail(ErrorCode::kCorrupt,
                "sent " + EscapeForDisplay(piece.path, 100) + ", which nobody asked for");
  }
  if (piece.from != it->second) {
    return {};  // an answer to an older question
  }
  const auto n = static_cast<std::int64_t>(piece.bytes.size());
  if (it->second + n > log_cap_ + kBesideCap) {
    return Fail(ErrorCode::kCorrupt, piece.path + " is longer than its cap allows");
  }
  ATTUNE_RETURN_IF_ERROR(os::WriteRange(folder_ + "/" + piece.path, piece.from, piece.bytes));
  it->second += n;
  return {};
}

// A record that is torn counts as absent, and is asked for again.
bool Mirror::IsWhole(const LookAnswer::Piece& piece) const {
  const std::string name = NameOf(piece.path);
  return (name == "start" && DecodeStart(piece.bytes)) ||
         (name == "exit" && DecodeExit(piece.bytes)) ||
         (name == "lost" && DecodeLost(piece.bytes)) ||
         (name == "beat" && DecodeBeat(piece.bytes)) || name == "stop";
}

Status Mirror::ApplyRecord(const LookAnswer::Piece& piece) {
  if (piece.path == beat_) {
    return IsWhole(piece) ? os::ReplaceFile(folder_ + "/" + piece.path, piece.bytes) : Status();
  }
  if (!records_.contains(piece.path)) {
    return Fail(ErrorCode::kCorrupt,
                "sent " + EscapeForDisplay(piece.path, 100) + ", which nobody asked for");
  }
  if (!IsWhole(piece)) {
    return {};
  }
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(folder_ + "/" + piece.path, piece.bytes));
  records_.erase(piece.path);
  return {};
}

Status Mirror::Apply(const LookAnswer::Launch& answer) {
  if (!answer.pieces.empty()) {
    for (const std::string& below : stage_folders_) {
      ATTUNE_RETURN_IF_ERROR(os::MakeFolder(folder_ + "/" + below));
    }
  }
  // The order in which a wrapper writes: bytes before the stamps that speak of them, and what says
  // that a log is complete after the log.
  using Piece = LookAnswer::Piece;
  const auto is_final = [](const Piece& p) {
    const std::string name = NameOf(p.path);
    return name == "exit" || name == "lost";
  };
  const auto apply = [&](const auto& chosen, auto how) -> Status {
    for (const Piece& piece : answer.pieces) {
      if (chosen(piece)) {
        ATTUNE_RETURN_IF_ERROR((this->*how)(piece));
      }
    }
    return {};
  };
  const auto is_log = [](const Piece& p) { return p.from >= 0; };
  const auto is_stamps = [](const Piece& p) { return IsAboutOut(p.path); };
  ATTUNE_RETURN_IF_ERROR(
      apply([&](const Piece& p) { return !is_log(p) && !is_final(p); }, &Mirror::ApplyRecord));
  ATTUNE_RETURN_IF_ERROR(
      apply([&](const Piece& p) { return is_log(p) && !is_stamps(p); }, &Mirror::ApplyLog));
  ATTUNE_RETURN_IF_ERROR(
      apply([&](const Piece& p) { return is_log(p) && is_stamps(p); }, &Mirror::ApplyLog));
  whole_ = !answer.more;
  if (answer.more) {
    return {};
  }
  // The attempt's own last: with it here, everything is.
  const auto is_attempts = [](const Piece& p) {
    return std::count(p.path.begin(), p.path.end(), '/') == 1;
  };
  ATTUNE_RETURN_IF_ERROR(
      apply([&](const Piece& p) { return !is_log(p) && is_final(p) && !is_attempts(p); },
            &Mirror::ApplyRecord));
  return apply([&](const Piece& p) { return !is_log(p) && is_final(p) && is_attempts(p); },
               &Mirror::ApplyRecord);
}

}  // namespace attune::launch
