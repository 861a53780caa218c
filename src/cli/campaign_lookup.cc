#include "campaign_lookup.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/os/files.h"

namespace attune::cli {

Result<Reading> OpenForReading(Wire& wire, const std::string& named) {
  ATTUNE_TRY(const std::string folder, wire.StateFolder());
  StoreOptions options;
  options.read_only = true;
  Reading reading;
  ATTUNE_TRY(reading.store, Store::Open(folder, options));
  const std::string& id = named.empty() ? wire.flags().campaign : named;
  ATTUNE_TRY(reading.campaign, reading.store->FindCampaign(id.empty() ? "latest" : id));
  return reading;
}

SkillInUse SkillToShow(Wire& wire, const CampaignState& state) {
  if (!state.opened) return {};
  Result<SkillInUse> frozen = SkillOf(*state.opened);
  if (frozen) return std::move(*frozen);
  Opened any = *state.opened;
  any.skill_version.clear();
  Result<SkillInUse> now = SkillOf(any);
  wire.terminal().Note(frozen.error().message +
                       (now ? "; levers are named by what it is now" : "; no levers are named"));
  if (now) return std::move(*now);
  return {.own = std::make_unique<const Skill>()};
}

Result<std::unique_ptr<Store>> OpenExisting(Wire& wire) {
  ATTUNE_TRY(const std::string folder, wire.StateFolder());
  if (!os::Exists(folder + "/attune.db")) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no campaigns yet: there is no {}/attune.db", folder));
  }
  return Store::Open(folder);
}

std::string Ago(Instant then, Instant now) {
  const std::int64_t seconds = std::max<std::int64_t>((now - then).count() / 1000, 0);
  if (seconds < 60) return fmt::format("{} s ago", seconds);
  if (seconds < 3'600) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 86'400) return fmt::format("{} h ago", seconds / 3'600);
  return fmt::format("{} days ago", seconds / 86'400);
}

std::string ShowBytes(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / 1'048'576.0;
  return mib < 1'024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1'024);
}

}  // namespace attune::cli
