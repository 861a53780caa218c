// What Store and Writer keep, shared by the files that implement them.
#pragma once

#include <string>
#include <vector>

#include "attune/store/store.h"
#include "database.h"
#include "os_lock.h"

namespace attune {

class Store::Impl {
 public:
  Impl(std::string in, Database opened, WriterIdentity who)
      : folder(std::move(in)), database(std::move(opened)), self(std::move(who)) {}

  std::string LockPath(const CampaignId& campaign, std::int64_t epoch) const;
  // Writes the event after `last_seq` with its projections. Inside a transaction.
  Result<Event> Write(const CampaignId& campaign, std::int64_t last_seq, Fact fact, Instant at);

  std::string folder;
  Database database;
  WriterIdentity self;
};

class Writer::Impl {
 public:
  Impl(Store::Impl& of, CampaignId id, std::int64_t at, OsLock held, std::optional<LeaseRow> from)
      : store(of),
        campaign(std::move(id)),
        epoch(at),
        lock(std::move(held)),
        taken_from(std::move(from)) {}

  // kUnavailable unless the lease is still this one's. Inside a transaction.
  Status CheckEpoch();

  Store::Impl& store;
  CampaignId campaign;
  std::int64_t epoch;
  OsLock lock;
  std::optional<LeaseRow> taken_from;
};

}  // namespace attune
