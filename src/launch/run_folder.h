// What lies in a run folder and what each file says. Written by the wrapper (plan: by whoever
// submits), read by every launcher. The folder is the truth about a launch.
//
//   ROOT/TOKEN/            one launch
//     lock                 held from submit until the claim
//     plan                 what to run
//     a0/                  one attempt (a1 ... after a requeue)
//       start              the claim: whoever links this name owns the attempt
//       beat               rewritten every 10 s
//       stop               asks: end the launch        (written by a launcher)
//       exit               the attempt is over
//       lost               what a launcher made of an attempt whose wrapper died
//       wrapper.log        the wrapper's own words
//       r007/              one stage, named by its run; the job's ATTUNE_RUN_DIR
//         start  exit  stop
//         script  args  env  of a launch script: its copy, and what it is handed (hand_over.h)
//         out  stamps  errs  stdout and stderr as they came, when, and which bytes are stderr's
//                            (out.1, stamps.1, errs.1: rank 1)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/model/run.h"
#include "attune/os/process.h"

namespace attune::launch {

struct WrapperTimes {
  Millis grace{10'000};  // from TERM to KILL
  Millis beat{10'000};
  Millis poll{100};  // how often `stop` is looked for
  std::int64_t log_cap = std::int64_t{1} << 30;
};

struct Plan {
  LaunchSpec spec;
  WrapperTimes times;
};
std::string EncodePlan(const Plan& plan);
Result<Plan> DecodePlan(std::string_view bytes);
// Of a token or a run: it becomes a name in a folder. a-z 0-9 - . _, at most 128, no '.' or '-'
// first.
bool IsPlainName(std::string_view name);
// A relative path without "", "." or ".." in it: it can't leave the folder it is meant below.
bool IsPathBelow(std::string_view path);
// Why the plan can't be run: names, NUL bytes, relative folders. Empty: it can.
std::string WhyInvalid(const LaunchSpec& spec);
inline constexpr std::int64_t kMaxPlanBytes = 16 << 20;

struct StartRecord {
  std::string token;
  int attempt = 0;
  std::string run;        // empty in an attempt's own record
  os::ProcessId process;  // the wrapper; of a stage: its first rank
  std::string host;
  std::int64_t wall_ms = 0;
  Millis mono{0};      // CLOCK_BOOTTIME
  std::string job_id;  // the scheduler's, when there is one
};
std::string Encode(const StartRecord& r);
std::optional<StartRecord> DecodeStart(std::string_view bytes);

struct BeatRecord {
  std::int64_t wall_ms = 0;
  Millis mono{0};
  std::string run;  // stage that is running
  std::int64_t log_bytes = 0;
};
std::string Encode(const BeatRecord& r);
std::optional<BeatRecord> DecodeBeat(std::string_view bytes);

// Why a stage or an attempt ended. Stored words.
enum class Ending {
  kExited,      // by itself, whatever its code
  kStopped,     // `stop` was found
  kLimit,       // the time limit
  kTerminated,  // somebody else signalled the wrapper
  kExecFailed,  // the program could not be started
  kSkipped,  // never started: it was stopped before ("stopped"), or the launch was ("launch ...")
  kBroken,   // the wrapper could not write its records
};
std::string_view Word(Ending e);
std::optional<Ending> ParseEnding(std::string_view word);

struct ExitRecord {
  Ending ending = Ending::kExited;
  std::optional<int> code, signal;  // of the rank that decided
  int rank = 0;
  std::int64_t wall_ms = 0;
  Millis mono{0}, held{0};  // held: since this record's own start
  std::int64_t log_bytes = 0, log_dropped = 0;
  Millis user{0}, system{0};
  std::int64_t max_rss_bytes = 0;
  int strays = 0;     // processes that outlived their stage and were killed
  int survivors = 0;  // ... and could not be
  std::string detail;
};
std::string Encode(const ExitRecord& r);
std::optional<ExitRecord> DecodeExit(std::string_view bytes);

// What a launcher settled for an attempt that left no exit record, so that every later reader
// charges the same.
struct LostRecord {
  Millis held{0};
  bool survivors = false;  // processes had lived on and were ended by the launcher
};
std::string Encode(const LostRecord& r);
std::optional<LostRecord> DecodeLost(std::string_view bytes);
// Asks for the end of a stage or launch by its existence; says who asked.
std::string EncodeStop(std::string_view by, std::int64_t wall_ms);

// One entry of `stamps`: all bytes of `out` before `end` had arrived `ms` after the stage's start.
struct Stamp {
  std::int64_t end = 0, ms = 0;
};
inline constexpr int kStampBytes = 16;  // two little-endian 64-bit numbers
std::string Encode(Stamp s);
// Whole entries only; stops at the first that does not rise.
std::vector<Stamp> DecodeStamps(std::string_view bytes);

// One entry of `errs`: these bytes of `out` came through stderr.
struct ErrRange {
  std::int64_t from = 0, end = 0;
};
inline constexpr int kErrRangeBytes = 16;  // likewise
std::string Encode(ErrRange r);
// Whole entries only; stops at the first that is empty or lies before the one before it.
std::vector<ErrRange> DecodeErrRanges(std::string_view bytes);

inline constexpr std::int64_t kMaxRecordBytes = 64 << 10;
// nullopt: absent, torn or unreadable.
std::optional<std::string> ReadRecordFile(const std::string& path);
std::string RankFile(const std::string& name, int rank);  // "out", "out.1" ...
std::string AttemptFolder(const std::string& launch_folder, int attempt);

}  // namespace attune::launch
