// The moves from one configuration of a Megatron-LM job: sizes of a layout and listed moves of the
// catalog, alone, with the enablers that make them legal or fit, and several together (outlay.h).
// Arithmetic over the resolved job: cheap enough to lay out thousands; what is proposed in the end
// is resolved and judged by the gates like everything else.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"
#include "attune/model/training_job.h"
#include "attune/skill/skill.h"

namespace attune::rules {

// What a layout lever may set. Unset: as it is.
struct Sizes {
  std::optional<int> tp, pp, ep, etp, cp, vp;
  std::optional<std::int64_t> mbs;
  // Layers of the first and last stage; 0: the even split (with the baseline's account-for options
  // where it has them).
  std::optional<int> first, last;
};

// One lever's part of a candidate: sizes, or a move of the catalog.
struct Part {
  const CatalogLever* lever = nullptr;
  Sizes sizes;
  const LeverMove* move = nullptr;
};

struct Candidate {
  std::vector<Part> parts;  // the primary first, then its enablers
  TrainingJob job;
  bool stack = false;     // several minor levers under one name
  bool joint = false;     // several levers, each of which makes the projection faster
  double seconds = 0;     // projected, filled by whoever ranks
  double peak_share = 0;  // projected, of the device

  const CatalogLever& Primary() const { return *parts.front().lever; }
};

bool Has(const std::vector<std::string>& list, std::string_view word);
// Edits without those that change nothing.
std::vector<Edit> Effects(const Effective& from, const std::vector<Edit>& edits);

class Space {
 public:
  // `leader` resolves to `job`.
  Space(const Recipe& recipe, const Effective& leader, const TrainingJob& job,
        const Catalog& catalog);

  struct Projected {
    double seconds = 0;     // of a step
    double peak_share = 0;  // of the device; a job that does not fit needs enablers
  };
  using Judge = std::function<Projected(const TrainingJob&)>;
  // Whether the gates take it. Asked of what joint moves grow from: of a few dozen, not of all.
  using Admits = std::function<bool(const Candidate&)>;
  std::vector<Candidate> Candidates(const Judge& judge, const Admits& admits) const;

  // Edits of the leader, lever and enablers of a candidate.
  Change ChangeOf(const Candidate& candidate) const;
  // "tp1.pp16.full": [a-z0-9._-], at most 24 characters.
  std::string LabelOf(const Candidate& candidate) const;
  // "TP 2 -> 1, recompute full": for people.
  std::string Describe(const Candidate& candidate) const;

  // Several listed moves as one candidate; nothing when they touch the same arguments or one more
  // than an enabler each would be needed.
  std::optional<Candidate> Stack(const std::vector<Part>& parts) const;
  // Listed moves that apply to the leader and change its arguments, of levers that are offered.
  const std::vector<Part>& ListedMoves() const { return listed_; }
  bool Offered(std::string_view lever) const;

 private:
  std::optional<TrainingJob> JobOf(const std::vector<Part>& parts) const;
  const std::optional<TrainingJob>& Moved(const std::vector<Part>& parts) const;
  std::vector<Edit> EditsOf(const Part& part, const TrainingJob& job) const;
  void LayOut();
  void ListMoves();

  const Recipe& recipe_;
  const Effective& leader_;
  TrainingJob job_;
  const Catalog& catalog_;
  std::vector<Part> sizes_;   // moves of layout levers, legal or not alone
  std::vector<Part> listed_;  // moves of the catalog
  // The leader's job under listed moves: resolving costs more than all the rest.
  mutable std::map<std::vector<const LeverMove*>, std::optional<TrainingJob>> moved_;
};

}  // namespace attune::rules
