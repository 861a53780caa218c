// Opening the state folder for reading, and finding the campaign a command means: the positional,
// else -c, else the newest.
#pragma once

#include <memory>
#include <string>

#include "agent_desk.h"
#include "attune/store/store.h"
#include "wire.h"

namespace attune::cli {

struct Reading {
  std::unique_ptr<Store> store;
  CampaignRow campaign;
};
Result<Reading> OpenForReading(Wire& wire, const std::string& named);

// The skill that a campaign reads, to name levers by. Where that can't be had any more, a note on
// the terminal says so: then what stands in its place now is shown, or no lever where nothing does.
SkillInUse SkillToShow(Wire& wire, const CampaignState& state);

// For writing, where there is a database already: to ask something of a campaign that is not there
// makes nothing.
Result<std::unique_ptr<Store>> OpenExisting(Wire& wire);

// "4 min ago"
std::string Ago(Instant then, Instant now);
// Bytes as "12.3 GiB".
std::string ShowBytes(std::int64_t bytes);

}  // namespace attune::cli
