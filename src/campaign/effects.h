// Carries out one action and says what happened as facts. Holds what a process may lose: log
// parsers, which are rebuilt from byte 0 by the launcher's logs.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "attune/campaign/campaign.h"
#include "attune/logs/log_parser.h"
#include "log_tail.h"

namespace attune {

class Effects {
 public:
  explicit Effects(const CampaignParts& parts) : parts_(parts) {}
  // The facts are not committed yet: the loop does that next, in one transaction.
  Result<std::vector<Fact>> Perform(const Action& action, const CampaignState& state);

 private:
  // One parser a rank, because bytes of several files must not meet in one line. Steps are taken
  // from the first rank that prints any, so that none counts twice.
  struct Reader {
    std::map<int, std::unique_ptr<LogParser>> parsers;
    std::optional<int> step_rank;
    std::size_t to_skip = 0;  // steps that are committed already: the parsers start from byte 0
    bool finished = false;
    LogTail tail{};  // of the first rank
  };
  using Facts = Result<std::vector<Fact>>;

  // What was heard while a proposer or a person was asked.
  struct Heard {
    Status lease;
    std::optional<std::string> wish;  // of the user
  };
  // Says false once there is something; `heard` must outlive it.
  Pulse Listen(Heard& heard) const;

  Facts DoRecord(const CampaignState& state, const Record& record);
  Facts DoAsk(const CampaignState& state);
  Facts DoSubmit(const CampaignState& state, const LaunchId& id);
  Facts AskLater(const CampaignState& state);
  Facts DoLocate(const CampaignState& state, const LaunchId& id);
  Facts DoCancel(const CampaignState& state, const Cancel& cancel);
  Facts DoCollect(const CampaignState& state, const RunId& run);
  Facts DoShip(const CampaignState& state);
  Facts DoWait(const CampaignState& state, const Wait& wait);

  Reader& ReaderOf(const RunRecord& run);
  Result<LogNews> ReadLog(const CampaignState& state, Reader& reader, const StageObservation& seen);
  Status ReadStage(const CampaignState& state, const RunRecord& run, const StageObservation& seen,
                   const Observation& launch, std::vector<Fact>& facts);

  void LookBack(const CampaignState& state, const LaunchRecord& launch, std::vector<Fact>& facts);

  const CampaignParts& parts_;
  std::map<RunId, Reader> readers_;
  std::set<ProposalId> approved_;
};

}  // namespace attune
