// One writer a campaign. The epoch in the database is the fence: whoever raised it last writes, and
// every transaction of an older one finds its epoch gone. Whether a lease may be raised at all is
// judged from two signs: the OS lock of the holder's epoch (same host, same boot) and its beat
// counter, watched over this process's own monotonic clock.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "attune/store/store.h"
#include "impl.h"

namespace attune {
namespace {

constexpr Millis kPoll{500};

enum class Judgement { kFree, kDead, kWatch, kBusy };  // kWatch: dead if its beats stand still

std::string Who(const LeaseRow& lease) { return fmt::format("{} pid {}", lease.host, lease.pid); }

std::string Age(const LeaseRow& lease, Instant now) {
  // The holder's wall clock may be ahead of ours.
  const Millis age = std::max(Millis{0}, now - lease.last_beat);
  return age < Millis{1000} ? "just now" : ShowDuration(age) + " ago";
}

tl::unexpected<Error> Busy(const LeaseRow& lease, Instant now, const std::string& help) {
  return Fail(ErrorCode::kUnavailable,
              fmt::format("another attune writes this campaign: {}, last heartbeat {}", Who(lease),
                          Age(lease, now)),
              help);
}

bool Gone(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

bool Same(const LeaseRow& a, const LeaseRow& b) {
  return a.epoch == b.epoch && a.beats == b.beats && a.released == b.released;
}

LeaseRow ReadLease(const sql::Rows& rows) {
  return LeaseRow{.epoch = rows.Int(0),
                  .host = rows.Text(1),
                  .pid = rows.Int(2),
                  .boot_id = rows.Text(3),
                  .since = {rows.Int(4)},
                  .last_beat = {rows.Int(6)},
                  .beats = rows.Int(5),
                  .released = rows.Bool(7)};
}

constexpr std::string_view kSelectLease =
    "SELECT epoch, host, pid, boot_id, since_ms, beats, last_beat_ms, released FROM lease"
    " WHERE campaign = ?";

}  // namespace

Result<std::optional<LeaseRow>> Store::Lease(const CampaignId& campaign) {
  ATTUNE_TRY(sql::Rows rows, impl_->database.connection().Select(kSelectLease, campaign));
  ATTUNE_TRY(const bool found, rows.Next());
  if (!found) return std::optional<LeaseRow>();
  return std::optional<LeaseRow>(ReadLease(rows));
}

WriterSeen Store::Seen(const CampaignId& campaign, const LeaseRow& lease, Instant now) const {
  if (lease.released) return WriterSeen::kNone;
  const bool fresh = now - lease.last_beat < Writer::kSilence;
  if (lease.host != impl_->self.host) return fresh ? WriterSeen::kAlive : WriterSeen::kElsewhere;
  if (lease.boot_id == impl_->self.boot_id) {
    switch (OsLock::Look(impl_->LockPath(campaign, lease.epoch))) {
      case LockSeen::kFree:
        return WriterSeen::kGone;
      case LockSeen::kHeld:
        return fresh ? WriterSeen::kAlive : WriterSeen::kSilent;
      case LockSeen::kUnknown:
        if (Gone(lease.pid)) return WriterSeen::kGone;
        break;
    }
  }
  return fresh ? WriterSeen::kAlive : WriterSeen::kSilent;
}

Result<std::unique_ptr<Writer>> Store::Acquire(const CampaignId& campaign, Clock& clock,
                                               const AcquireOptions& options) {
  Impl& impl = *impl_;
  sql::Connection& db = impl.database.connection();

  const auto judge = [&](const LeaseRow& lease) {
    if (lease.released) return Judgement::kFree;
    const Judgement only_when_asked = options.take_over ? Judgement::kWatch : Judgement::kBusy;
    if (lease.host != impl.self.host) return only_when_asked;
    // Same name, other boot: this machine restarted, or two machines share a name.
    if (lease.boot_id != impl.self.boot_id) return Judgement::kWatch;
    switch (OsLock::Look(impl.LockPath(campaign, lease.epoch))) {
      case LockSeen::kFree:
        return Judgement::kDead;
      case LockSeen::kHeld:
        return only_when_asked;
      case LockSeen::kUnknown:
        return Gone(lease.pid) ? Judgement::kWatch : only_when_asked;
    }
    return Judgement::kBusy;
  };

  // True when nothing moved for kSilence of our own clock.
  const auto stands_still = [&](const LeaseRow& lease) -> Result<bool> {
    const Millis start = clock.Monotonic();
    while (clock.Monotonic() - start < Writer::kSilence) {
      const Millis before = clock.Monotonic();
      clock.SleepUntil(clock.Now() + kPoll);
      ATTUNE_TRY(const std::optional<LeaseRow> now, Lease(campaign));
      if (!now || !Same(*now, lease)) return false;
      if (clock.Monotonic() == before) {  // a signal asked to stop
        return Fail(ErrorCode::kUnavailable,
                    "interrupted while watching the heartbeat of " + Who(lease));
      }
    }
    return true;
  };

  // nullptr: somebody else was faster.
  const auto raise = [&](const std::optional<LeaseRow>& judged) -> Result<std::unique_ptr<Writer>> {
    const std::int64_t epoch = (judged ? judged->epoch : 0) + 1;
    // Nobody else can reach a store in memory.
    Result<OsLock> lock = impl.folder.empty() ? Result<OsLock>(OsLock())
                                              : OsLock::Take(impl.LockPath(campaign, epoch));
    if (!lock) {
      if (lock.error().code == ErrorCode::kUnavailable) return nullptr;
      return Fail(lock.error());
    }
    bool raced = false;
    const auto write = [&]() -> Status {
      ATTUNE_TRY(const std::optional<LeaseRow> now, Lease(campaign));
      raced = now.has_value() != judged.has_value() || (now && !Same(*now, *judged));
      if (raced) return {};
      ATTUNE_TRY(
          const int rows,
          db.Run("INSERT OR REPLACE INTO lease VALUES(?1, ?2, ?3, ?4, ?5, ?6, 1, ?6, 0)", campaign,
                 epoch, impl.self.host, impl.self.pid, impl.self.boot_id, clock.Now()));
      (void)rows;
      return {};
    };
    ATTUNE_RETURN_IF_ERROR(impl.database.Transact(write));
    if (raced) return nullptr;
    // Older epochs are never asked about again.
    if (judged) ::unlink(impl.LockPath(campaign, judged->epoch).c_str());
    std::optional<LeaseRow> from = judged && !judged->released ? judged : std::nullopt;
    return std::unique_ptr<Writer>(new Writer(
        std::make_unique<Writer::Impl>(impl, campaign, epoch, *std::move(lock), std::move(from))));
  };

  {
    ATTUNE_TRY(sql::Rows rows, db.Select("SELECT 1 FROM campaign WHERE id = ?", campaign));
    ATTUNE_TRY(const bool exists, rows.Next());
    if (!exists) {
      return Fail(ErrorCode::kNotFound, fmt::format("there is no campaign {}", campaign.value));
    }
  }
  const Millis start = clock.Monotonic();
  for (;;) {
    ATTUNE_TRY(const std::optional<LeaseRow> lease, Lease(campaign));
    const Judgement judgement = lease ? judge(*lease) : Judgement::kFree;
    bool may = judgement == Judgement::kFree || judgement == Judgement::kDead;
    if (judgement == Judgement::kWatch) {
      ATTUNE_TRY(may, stands_still(*lease));
    }
    if (may) {
      ATTUNE_TRY(std::unique_ptr<Writer> writer, raise(lease));
      if (writer) return writer;
    }
    const Millis left = options.wait - (clock.Monotonic() - start);
    if (left <= Millis{0}) {
      ATTUNE_TRY(const std::optional<LeaseRow> now, Lease(campaign));
      const bool elsewhere = now && now->host != impl.self.host;
      return Busy(now.value_or(LeaseRow{}), clock.Now(),
                  options.take_over ? "it is alive: stop it first (attune stop)"
                  : elsewhere
                      ? fmt::format("if {} is gone, add --take-over", now->host)
                      : std::string("wait for it (--lock-wait), stop it (attune stop), or, if it "
                                    "hangs, add --take-over"));
    }
    const Millis before = clock.Monotonic();
    clock.SleepUntil(clock.Now() + std::min(kPoll, left));
    if (clock.Monotonic() == before) {
      return Fail(ErrorCode::kUnavailable, "interrupted while waiting for the lease");
    }
  }
}

// ----- Writer

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::~Writer() = default;

const CampaignId& Writer::campaign() const { return impl_->campaign; }
std::int64_t Writer::epoch() const { return impl_->epoch; }
const std::optional<LeaseRow>& Writer::TakenFrom() const { return impl_->taken_from; }

Status Writer::Impl::CheckEpoch() {
  ATTUNE_TRY(sql::Rows rows, store.database.connection().Select(kSelectLease, campaign));
  ATTUNE_TRY(const bool found, rows.Next());
  const LeaseRow lease = found ? ReadLease(rows) : LeaseRow{};
  if (found && lease.epoch == epoch && !lease.released) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("campaign {} was taken over by {}; this process writes nothing more",
                          campaign.value, found ? Who(lease) : std::string("nobody")));
}

Result<std::vector<Event>> Writer::Append(std::vector<Fact> facts, Instant at) {
  std::vector<Event> events;
  if (facts.empty()) return events;
  Store::Impl& store = impl_->store;
  sql::Connection& db = store.database.connection();
  const auto write = [&]() -> Status {
    ATTUNE_RETURN_IF_ERROR(impl_->CheckEpoch());
    std::int64_t last = 0;
    {
      ATTUNE_TRY(sql::Rows rows,
                 db.Select("SELECT last_seq FROM campaign WHERE id = ?", impl_->campaign));
      ATTUNE_TRY(const bool found, rows.Next());
      if (!found) return Fail(ErrorCode::kCorrupt, "the campaign's row is gone");
      last = rows.Int(0);
    }
    for (Fact& fact : facts) {
      if (std::holds_alternative<Opened>(fact)) {
        return Fail(ErrorCode::kInternal, "a campaign is opened once");
      }
      ATTUNE_TRY(Event event, store.Write(impl_->campaign, last, std::move(fact), at));
      last = event.seq;
      events.push_back(std::move(event));
    }
    ATTUNE_TRY(const int moved, db.Run("UPDATE campaign SET last_seq = ?, updated_ms = ?"
                                       " WHERE id = ?",
                                       last, at, impl_->campaign));
    ATTUNE_TRY(const int beaten, db.Run("UPDATE lease SET beats = beats + 1, last_beat_ms = ?"
                                        " WHERE campaign = ? AND epoch = ?",
                                        at, impl_->campaign, impl_->epoch));
    if (moved == 1 && beaten == 1) return {};
    return Fail(ErrorCode::kCorrupt, "the campaign's row or lease is gone");
  };
  ATTUNE_RETURN_IF_ERROR(store.database.Transact(write));
  return events;
}

Result<Event> Writer::Append(Fact fact, Instant at) {
  std::vector<Fact> facts;
  facts.push_back(std::move(fact));
  ATTUNE_TRY(std::vector<Event> events, Append(std::move(facts), at));
  return std::move(events.front());
}

Result<std::vector<Event>> Writer::TakeWishes(Instant at) {
  Store::Impl& store = impl_->store;
  sql::Connection& db = store.database.connection();
  constexpr std::string_view kOpen =
      "SELECT id, what FROM wish WHERE campaign = ? AND seq IS NULL ORDER BY id";
  std::vector<Event> events;
  {
    // Most of the time there is none: no write transaction for that.
    ATTUNE_TRY(sql::Rows rows, db.Select(kOpen, impl_->campaign));
    ATTUNE_TRY(const bool any, rows.Next());
    if (!any) return events;
  }
  const auto write = [&]() -> Status {
    ATTUNE_RETURN_IF_ERROR(impl_->CheckEpoch());
    std::vector<std::pair<std::int64_t, std::string>> open;
    {
      ATTUNE_TRY(sql::Rows rows, db.Select(kOpen, impl_->campaign));
      for (;;) {
        ATTUNE_TRY(const bool more, rows.Next());
        if (!more) break;
        open.emplace_back(rows.Int(0), rows.Text(1));
      }
    }
    std::int64_t last = 0;
    {
      ATTUNE_TRY(sql::Rows rows,
                 db.Select("SELECT last_seq FROM campaign WHERE id = ?", impl_->campaign));
      ATTUNE_TRY(const bool found, rows.Next());
      if (!found) return Fail(ErrorCode::kCorrupt, "the campaign's row is gone");
      last = rows.Int(0);
    }
    for (const auto& [id, what] : open) {
      ATTUNE_TRY(Event event, store.Write(impl_->campaign, last, UserAsked{what}, at));
      last = event.seq;
      ATTUNE_TRY(const int rows, db.Run("UPDATE wish SET seq = ? WHERE id = ?", last, id));
      (void)rows;
      events.push_back(std::move(event));
    }
    ATTUNE_TRY(const int rows, db.Run("UPDATE campaign SET last_seq = ?, updated_ms = ?"
                                      " WHERE id = ?",
                                      last, at, impl_->campaign));
    (void)rows;
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(store.database.Transact(write));
  return events;
}

Status Writer::Beat(Instant now) {
  return impl_->store.database.Transact([&]() -> Status {
    ATTUNE_RETURN_IF_ERROR(impl_->CheckEpoch());
    ATTUNE_TRY(const int rows,
               impl_->store.database.connection().Run(
                   "UPDATE lease SET beats = beats + 1, last_beat_ms = ? WHERE campaign = ?", now,
                   impl_->campaign));
    (void)rows;
    return {};
  });
}

Status Writer::Check() { return impl_->CheckEpoch(); }

Status Writer::Release(Instant now) {
  const auto write = [&]() -> Status {
    ATTUNE_RETURN_IF_ERROR(impl_->CheckEpoch());
    ATTUNE_TRY(const int rows,
               impl_->store.database.connection().Run(
                   "UPDATE lease SET beats = beats + 1, last_beat_ms = ?, released = 1"
                   " WHERE campaign = ?",
                   now, impl_->campaign));
    (void)rows;
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(impl_->store.database.Transact(write));
  ::unlink(impl_->store.LockPath(impl_->campaign, impl_->epoch).c_str());
  impl_->lock = OsLock();
  return {};
}

}  // namespace attune
