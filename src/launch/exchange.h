// What a launcher asks of `attune-wrapper serve` on a machine that holds run folders, and what it
// is answered: one record in, one record out (record.h), so that nothing is parsed by a shell and
// an answer cut by a dropped line is known to be torn. docs/formats/run_folder.md has the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/model/run.h"

namespace attune::launch {

// A file of a launch, named below the launch's folder.
struct WantedFile {
  std::string path;
  // -1: a record, sent whole. Else a log that only grows, sent from this byte on.
  std::int64_t from = -1;
};

// What a machine says of a launch; stored in no file, told on the wire.
enum class FolderState {
  kAbsent,  // no claim
  kRunning,
  kEnding,
  kOver,  // an exit record, or `lost`
};
std::string_view Word(FolderState s);

struct LookRequest {
  struct Launch {
    Token token;
    int attempt = 0;
    // The launcher's last answer: with the same one and no new bytes the machine waits.
    std::optional<FolderState> told;
    // Whether this machine ran it, so that it may end what is left of it. Off where a folder is
    // read on another machine than the job's.
    bool look_after = true;
    std::vector<WantedFile> files;
  };
  std::string root;
  Millis wait{0};               // how long it may wait for news
  Millis margin{0};             // from a launch's limit to the moment a stuck wrapper is ended
  std::int64_t most = 4 << 20;  // bytes of logs
  std::vector<Launch> launches;
};

struct LookAnswer {
  struct Piece {
    std::string path;
    std::int64_t from = -1;
    std::string bytes;
  };
  struct Launch {
    Token token;
    FolderState state = FolderState::kAbsent;
    bool more = false;  // logs hold more than was sent
    std::vector<Piece> pieces;
  };
  std::string host, boot_id;
  std::int64_t wall_ms = 0;
  Millis mono{0};
  std::vector<Launch> launches;
};

struct FindRequest {
  std::string root;
  Token token;
};
// The answer to it is a start record, or an empty answer for a token that is certainly not there.

struct CancelRequest {
  std::string root;
  Token token;
  int attempt = 0;
  std::optional<RunId> run;
};

struct FetchRequest {
  std::string root;
  Token token;
  std::string path;  // below the launch's folder
  std::int64_t offset = 0, size = 0;
};

// Makes a launch ready for a scheduler (host_side.h: PlaceBatch, and the asked wrapper's own copy
// beside it). The answer says whether it was fresh.
struct PlaceRequest {
  std::string root;
  Token token;
  std::string plan, script;
};

// The regular files below a folder of a launch; links are not followed. The answer names at most
// kMostListed of them, in the order of their names.
struct ListRequest {
  std::string root;
  Token token;
  std::string path;  // below the launch's folder
};
inline constexpr std::size_t kMostListed = 10'000;
struct ListedFile {
  std::string path;  // below the launch's folder
  std::int64_t size = 0;
};

// Runs one of Slurm's programs there, in the environment that slurm_client.h gives them.
struct CallRequest {
  std::vector<std::string> argv;
  std::string input;
  Millis limit{30'000};
};
struct CallAnswer {
  int exit_code = 0;
  std::string out, err;
  bool out_cut = false;
};

// What a host is like, for `doctor`.
struct ProbeRequest {
  std::string root, workdir, program;
};
struct ProbeAnswer {
  std::string host, boot_id, file_system;
  std::int64_t wall_ms = 0, free_bytes = 0;
  int cores = 0, jobs = 0;  // jobs: launches of any attune that run there
  double load = 0;          // one-minute average
  bool root_writable = false, workdir_there = false;
  std::string program;  // where it was found; empty: nowhere
};

std::string Encode(const LookRequest& r);
std::string Encode(const LookAnswer& r);
std::string Encode(const FindRequest& r);
std::string Encode(const CancelRequest& r);
std::string Encode(const FetchRequest& r);
std::string Encode(const PlaceRequest& r);
std::string Encode(const ListRequest& r);
std::string Encode(const std::vector<ListedFile>& files);
std::string Encode(const CallRequest& r);
std::string Encode(const CallAnswer& r);
std::string Encode(const ProbeRequest& r);
std::string Encode(const ProbeAnswer& r);
std::string EncodeFound(std::string_view start_record);
std::string EncodePlaced(bool fresh);
std::string EncodePiece(std::string_view bytes);
std::string EncodeDone();

// kCorrupt: torn, of another kind, or with a field that does not fit.
Result<LookRequest> DecodeLookRequest(std::string_view bytes);
Result<LookAnswer> DecodeLookAnswer(std::string_view bytes);
Result<FindRequest> DecodeFindRequest(std::string_view bytes);
Result<CancelRequest> DecodeCancelRequest(std::string_view bytes);
Result<FetchRequest> DecodeFetchRequest(std::string_view bytes);
Result<PlaceRequest> DecodePlaceRequest(std::string_view bytes);
Result<bool> DecodePlaced(std::string_view bytes);
Result<ListRequest> DecodeListRequest(std::string_view bytes);
Result<std::vector<ListedFile>> DecodeListed(std::string_view bytes);
Result<CallRequest> DecodeCallRequest(std::string_view bytes);
Result<CallAnswer> DecodeCallAnswer(std::string_view bytes);
Result<ProbeRequest> DecodeProbeRequest(std::string_view bytes);
Result<ProbeAnswer> DecodeProbeAnswer(std::string_view bytes);
Result<std::string> DecodeFound(std::string_view bytes);
Result<std::string> DecodePiece(std::string_view bytes);
Status DecodeDone(std::string_view bytes);

}  // namespace attune::launch
