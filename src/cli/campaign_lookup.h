// Opening the state folder for reading, and finding the campaign a command means: the positional,
// else -c, else the newest.
#pragma once

#include <memory>
#include <string>

#include "attune/store/store.h"
#include "wire.h"

namespace attune::cli {

struct Reading {
  std::unique_ptr<Store> store;
  CampaignRow campaign;
};
Result<Reading> OpenForReading(Wire& wire, const std::string& named);

// "4 min ago"
std::string Ago(Instant then, Instant now);
// Bytes as "12.3 GiB".
std::string ShowBytes(std::int64_t bytes);

}  // namespace attune::cli
