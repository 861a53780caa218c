#pragma once

#include <vector>

#include "attune/base/clock.h"
#include "attune/campaign/campaign.h"
#include "attune/store/store.h"

namespace attune::cli {

// The store as the loop sees it: the lease is beaten when a beat is due.
class StoreJournal final : public Journal {
 public:
  // `clock`: this machine's, also when the campaign's own is virtual.
  StoreJournal(Store& store, Writer& writer, Clock& clock)
      : store_(store), writer_(writer), clock_(clock), last_beat_(clock.Monotonic()) {}

  Result<std::vector<Event>> Append(std::vector<Fact> facts, Instant at) override {
    Result<std::vector<Event>> events = writer_.Append(std::move(facts), at);
    if (events) last_beat_ = clock_.Monotonic();
    return events;
  }
  Status CheckLease() override {
    if (clock_.Monotonic() - last_beat_ < Writer::kBeatEvery) return writer_.Check();
    last_beat_ = clock_.Monotonic();
    return writer_.Beat(clock_.Now());
  }
  // The wishes become events in the same transaction that takes them, so none is lost or told
  // twice; the loop folds them like its own.
  Result<std::vector<Event>> TakeWishes(Instant at) override {
    ATTUNE_TRY(const std::vector<Wish> waiting, store_.Wishes(writer_.campaign()));
    if (waiting.empty()) return std::vector<Event>{};
    return writer_.TakeWishes(at);
  }

 private:
  Store& store_;
  Writer& writer_;
  Clock& clock_;
  Millis last_beat_;
};

}  // namespace attune::cli
