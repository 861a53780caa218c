#include "attune/campaign/campaign.h"
#include "effects.h"

namespace attune {

Result<CampaignEnd> RunCampaign(CampaignState& state, const CampaignParts& parts) {
  Effects effects(parts);
  FoundSound sound;
  const auto fold = [&](const std::vector<Event>& events) {
    for (const Event& event : events) {
      state = Apply(std::move(state), event);
      if (parts.on_event) parts.on_event(state, event);
    }
  };
  // The intent before an effect and the fact after it are each one committed transaction; nothing
  // else happens in between, so every cut point is one of: before a commit, after it, after an
  // effect whose fact is not written yet.
  for (;;) {
    ATTUNE_TRY(const std::vector<Event> wishes, parts.journal.TakeWishes(parts.clock.Now()));
    fold(wishes);
    if (parts.on_tick) parts.on_tick(state, parts.clock.Now());
    const Action action = Decide(state, parts.clock.Now(), parts.limits, &sound);
    if (const auto* done = std::get_if<Done>(&action)) return CampaignEnd{done->code, done->why};
    ATTUNE_RETURN_IF_ERROR(parts.journal.CheckLease());
    ATTUNE_TRY(std::vector<Fact> facts, effects.Perform(action, state));
    if (facts.empty()) continue;
    ATTUNE_TRY(const std::vector<Event> events,
               parts.journal.Append(std::move(facts), parts.clock.Now()));
    fold(events);
  }
}

}  // namespace attune
