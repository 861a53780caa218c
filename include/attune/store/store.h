// The campaign database: one SQLite file a user, many campaigns, one writer a campaign. Table
// `event` is the truth; every other table is a projection written in the same transaction
// (docs/formats/store.md). A commit is on disk when the call returns.
//
// Not thread safe: one Store a thread. A Writer must not outlive its Store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/model/event.h"
#include "attune/store/rows.h"

namespace attune {

// Test hooks around the Nth commit of one Store (from 1). An error before the commit rolls it back;
// one after it is returned although the commit stands, as if the process had died there.
struct StoreHooks {
  std::function<Status(int n)> before_commit, after_commit;
};

// Who this process is, for the lease.
struct WriterIdentity {
  std::string host, boot_id;
  std::int64_t pid = 0;
};

struct StoreOptions {
  bool read_only = false;  // kNotFound when there is no database; nothing is created or upgraded
  StoreHooks hooks{};
  // Overrides statfs().f_type of the state folder (tests).
  std::optional<long> fs_magic{};
  std::string vfs{};               // SQLite VFS name (tests: one that fails the Nth write)
  std::optional<int> max_pages{};  // the database may not grow past this (tests)
  std::optional<WriterIdentity> identity{};  // unset: this host and process (tests: another one)
  Millis busy_timeout{5'000};                // wait for another process's short transaction
};

// How the file is driven; chosen by file system, each value read back from SQLite.
struct StorePragmas {
  std::string file_system;  // "ext4-like", "nfs", "lustre" ...
  bool network = false;
  std::string journal_mode;  // "wal" | "delete"
  std::string synchronous;   // "full" | "extra"
  std::int64_t mmap_size = 0;
  bool foreign_keys = false, trusted_schema = true;
};

struct AcquireOptions {
  bool take_over = false;  // --take-over: also from another host, or from a process that is stopped
  Millis wait{0};          // --lock-wait: how long to try again while somebody else writes
};

class Writer;

class Store {
 public:
  // Creates the folder (0700) and the database (0600) as needed, and upgrades an older one after
  // copying it to attune.db.v<old>.bak. kNewerFormat: written by a newer attune, left untouched.
  // kCorrupt: not ours or damaged. kDenied: not readable or writable. kFull: no room.
  static Result<std::unique_ptr<Store>> Open(const std::string& folder, StoreOptions options = {});
  // A store that lives and dies with this object, for thousands of simulated campaigns: the same
  // code, no file, no lock.
  static Result<std::unique_ptr<Store>> OpenInMemory();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& folder() const;
  std::string path() const;  // of the database file
  const StorePragmas& pragmas() const;

  // ----- writing

  // A new campaign with its first event. kInvalidInput when the id exists.
  Result<Event> Create(const Opened& opened, Instant at);

  // The right to write one campaign; at most one process has it. kUnavailable with host, pid and
  // age when another writer has it, kNotFound when there is no such campaign. A writer that died on
  // this host is replaced at once; one whose fate can't be seen only with `take_over`, after its
  // beat counter stood still for 30 s of `clock.Monotonic()` (control_plane.md section 10).
  Result<std::unique_ptr<Writer>> Acquire(const CampaignId& campaign, Clock& clock,
                                          const AcquireOptions& options = {});

  // From any process, without the lease: asks the campaign's writer for UserAsked{what}.
  Status AddWish(const CampaignId& campaign, const std::string& what, const std::string& by,
                 Instant at);

  // ----- reading. Each call is one consistent snapshot; none needs the lease.

  Result<std::vector<CampaignRow>> Campaigns();  // newest first
  // A full id, a unique prefix, or "latest". kNotFound, kInvalidInput when ambiguous.
  Result<CampaignRow> FindCampaign(const std::string& id_or_prefix);
  // The newest campaign of a recipe; nullopt when there is none.
  Result<std::optional<CampaignRow>> NewestOf(const std::string& recipe_hash);
  Result<std::optional<CampaignRow>> NewestOfPath(const std::string& recipe_path);

  // Events after `after_seq`, in order, decoded strictly (kCorrupt names campaign and seq; a gap in
  // seq is kCorrupt).
  Result<std::vector<Event>> Load(const CampaignId& campaign, std::int64_t after_seq = 0);

  Result<CampaignSummary> Summary(const CampaignId& campaign, int recent = 12);
  struct RunFilter {
    bool failed_only = false;  // IsFailed(end)
    std::int64_t newest = 0;   // only the last N; 0: all
  };
  Result<std::vector<RunRow>> Runs(const CampaignId& campaign, const RunFilter& filter);
  // A full run id, a label that is unique in the campaign, or a unique prefix of an id.
  Result<RunRow> FindRun(const CampaignId& campaign, const std::string& id_or_label);
  // What the run's latest Diagnosed says; nullopt: it is not diagnosed.
  Result<std::optional<Diagnosis>> DiagnosisOf(const CampaignId& campaign, const RunId& run);
  Result<std::vector<ProposalRow>> Proposals(const CampaignId& campaign);
  Result<ProposalRow> FindProposal(const CampaignId& campaign, const std::string& id_or_prefix);
  Result<std::optional<LeaseRow>> Lease(const CampaignId& campaign);
  WriterSeen Seen(const CampaignId& campaign, const LeaseRow& lease, Instant now) const;
  Result<std::vector<Wish>> Wishes(const CampaignId& campaign);  // not yet taken

  // What a campaign that is being opened may take over: the newest calibration that was measured
  // from `since` to `until`, by the same version of attune, on a real launcher, of the same recipe
  // (hash and file), stack and start point. One that was itself taken over is not offered.
  Result<std::optional<EarlierCalibration>> FindCalibration(const Opened& opening, Instant since,
                                                            Instant until);

  // ----- care

  // Pragmas, integrity_check, foreign keys, gapless seq, every event decodes, projections equal a
  // rebuild from the events. Never an error for a finding: those are lines with ok = false.
  Result<std::vector<CheckLine>> Check();
  // A consistent copy while others write; `target` must not exist. Synced before it returns.
  Status Backup(const std::string& target);
  // One event as a line of Export, without its newline.
  static Result<std::string> LineOf(const CampaignId& campaign, const Event& event);
  // Calls `line` with one NDJSON line (no newline) per event, campaigns in order of opening.
  Status Export(const std::function<Status(const std::string&)>& line,
                const std::optional<CampaignId>& only = std::nullopt);
  // Rebuilds every projection of a campaign from its events, in one transaction.
  Status RebuildProjections(const CampaignId& campaign);
  // Run folders of ended campaigns, oldest first: what `db gc` may prune. The newest `keep`
  // campaigns are left out.
  struct OldRun {
    CampaignId campaign;
    RunId run;
    std::string folder;
  };
  Result<std::vector<OldRun>> OldRuns(int keep);
  // Gives free pages back to the file system.
  Status Compact();

 private:
  friend class Writer;
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One campaign's lease. Every call that writes checks the epoch in its own transaction: after a
// take-over it returns kUnavailable and nothing is written.
class Writer {
 public:
  ~Writer();  // does not release: a crash and a destructor look alike to the next writer, and both
              // free the OS lock
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  const CampaignId& campaign() const;
  std::int64_t epoch() const;
  // What was taken over, for one line to the user ("login3: took over the lease of login2 pid
  // 30122"); nullopt when the lease was free.
  const std::optional<LeaseRow>& TakenFrom() const;

  // All facts or none, in one transaction with their projections. Also counts as a beat.
  Result<std::vector<Event>> Append(std::vector<Fact> facts, Instant at);
  Result<Event> Append(Fact fact, Instant at);
  // Turns the wishes of other processes into UserAsked events, each exactly once.
  Result<std::vector<Event>> TakeWishes(Instant at);

  // "I live": at least every 10 s (kBeatEvery).
  Status Beat(Instant now);
  // Before every effect: is the lease still ours?
  Status Check();
  // Gives the lease up, so that the next writer needs no judgement. Call when leaving in order.
  Status Release(Instant now);

  static constexpr Millis kBeatEvery{10'000};
  static constexpr Millis kSilence{30'000};  // three beats missed

 private:
  friend class Store;
  class Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The JSON Schema of a line of events (Store::LineOf). Ends with a newline.
std::string EventsJsonSchema();

}  // namespace attune
