#include "space.h"

#include <algorithm>
#include <set>

#include "layout_moves.h"
#include "layouts.h"
#include "outlay.h"

namespace attune::rules {

bool Has(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::vector<Edit> Effects(const Effective& from, const std::vector<Edit>& edits) {
  std::vector<Edit> out;
  for (const Edit& e : edits) {
    if (ApplyEdits(from, {e}) != from) out.push_back(e);
  }
  return out;
}

Space::Space(const Recipe& recipe, const Effective& leader, const TrainingJob& job,
             const Catalog& catalog)
    : recipe_(recipe), leader_(leader), job_(job), catalog_(catalog) {
  job_.silent.clear();  // text that no candidate needs
  LayOut();
  ListMoves();
}

bool Space::Offered(std::string_view lever) const {
  return !Has(recipe_.deny, lever) && (recipe_.allow.empty() || Has(recipe_.allow, lever));
}

void Space::ListMoves() {
  for (const CatalogLever& lever : catalog_.levers) {
    if (!Offered(lever.lever)) continue;
    for (const LeverMove& move : lever.moves) {
      const bool applies = std::all_of(move.needs.begin(), move.needs.end(),
                                       [&](const JobCondition& c) { return c.Holds(job_); });
      // needs speak of the leader; a candidate that changes them is judged by the gates.
      if (!applies || Effects(leader_, move.edits).empty()) continue;
      listed_.push_back({&lever, {}, &move});
    }
  }
}

void Space::LayOut() {
  for (const CatalogLever& lever : catalog_.levers) {
    if (lever.sizes.empty() || !Offered(lever.lever)) continue;
    for (const Sizes& s : MovesOf(lever, job_)) sizes_.push_back({&lever, s, nullptr});
  }
}

const std::optional<TrainingJob>& Space::Moved(const std::vector<Part>& parts) const {
  std::vector<const LeverMove*> moves;
  for (const Part& part : parts) {
    if (part.move != nullptr) moves.push_back(part.move);
  }
  const auto [at, fresh] = moved_.try_emplace(std::move(moves));
  if (!fresh) return at->second;
  if (at->first.empty()) {
    at->second = job_;
    return at->second;
  }
  Effective edited = leader_;
  for (const LeverMove* move : at->first) edited = ApplyEdits(std::move(edited), move->edits);
  auto resolved = ResolveMegatron(edited.args, edited.env, recipe_.workload);
  if (auto* job = std::get_if<TrainingJob>(&resolved)) {
    job->silent.clear();
    at->second = std::move(*job);
  }
  return at->second;
}

std::optional<TrainingJob> Space::JobOf(const std::vector<Part>& parts) const {
  const std::optional<TrainingJob>& job = Moved(parts);
  if (!job) return std::nullopt;
  const bool overlap = leader_.args.Find("--no-overlap-p2p-communication") == nullptr;
  Sizes all;
  const auto take = [](auto& to, const auto& from) {
    if (from) to = from;
  };
  for (const Part& part : parts) {
    const Sizes& s = part.sizes;
    take(all.tp, s.tp);
    take(all.pp, s.pp);
    take(all.ep, s.ep);
    take(all.etp, s.etp);
    take(all.cp, s.cp);
    take(all.vp, s.vp);
    take(all.mbs, s.mbs);
    take(all.first, s.first);
    take(all.last, s.last);
  }
  std::optional<TrainingJob> sized = WithSizes(*job, all, overlap);
  if (!sized) return std::nullopt;
  // DeepEP and HybridEP start transfers from the GPU (IBGDA), which EFA can't across nodes.
  const auto network = recipe_.stack.find("network");
  const bool across = sized->layout.ep * sized->layout.etp > sized->gpus_per_node;
  if (across && sized->switches.dispatcher == "flex" && network != recipe_.stack.end() &&
      network->second == "efa") {
    return std::nullopt;
  }
  return sized;
}

std::vector<Candidate> Space::Candidates(const Judge& judge, const Admits& admits) const {
  const auto make = [&](std::vector<Part> parts) -> std::optional<Candidate> {
    std::optional<TrainingJob> job = JobOf(parts);
    if (!job) return std::nullopt;
    const Projected p = judge(*job);
    return Candidate{.parts = std::move(parts),
                     .job = std::move(*job),
                     .seconds = p.seconds,
                     .peak_share = p.peak_share};
  };
  const Projected leader = judge(job_);
  Outlay outlay(make, admits, leader.seconds, leader.peak_share);
  std::vector<Part> modelled = sizes_;
  for (const Part& part : listed_) {
    if (part.lever->modelled) modelled.push_back(part);
  }
  outlay.Alone(modelled);
  outlay.WithEnablers();
  outlay.Jointly();
  return outlay.Take();
}

std::optional<Candidate> Space::Stack(const std::vector<Part>& parts) const {
  std::set<std::string> names, levers;
  for (const Part& part : parts) {
    if (part.move == nullptr || !levers.insert(part.lever->lever).second) return std::nullopt;
    for (const Edit& e : Effects(leader_, part.move->edits)) {
      if (!names.insert(e.name).second) return std::nullopt;
    }
  }
  std::optional<TrainingJob> job = JobOf(parts);
  if (!job || parts.empty()) return std::nullopt;
  Candidate c{.parts = parts, .job = std::move(*job)};
  c.stack = parts.size() > 1;
  return c;
}

}  // namespace attune::rules
