#include "traits.h"

#include <iterator>
#include <utility>

namespace attune::rules {

std::set<std::string> TraitsOf(const TrainingJob& job) {
  const Layout& l = job.layout;
  const Switches& w = job.switches;
  const bool flex = w.dispatcher == "flex";
  const std::pair<const char*, bool> all[] = {
      {"tensor parallel", l.tp > 1},
      {"wide tensor parallel", l.tp >= 8},
      {"pipeline", l.pp > 1},
      {"deep pipeline", l.pp >= 8},
      {"virtual stages", l.vp > 1},
      {"four virtual stages", l.vp >= 4},
      {"uneven stages", l.first_layers || l.last_layers || !l.pipeline_layout.empty()},
      {"context parallel", l.cp > 1},
      {"wide context parallel", l.cp >= 4},
      {"expert parallel", l.ep > 1},
      {"wide expert parallel", l.ep >= 32},
      {"experts across nodes", l.ep * l.etp > job.gpus_per_node},
      {"sharded experts", l.etp > 1},
      {"rows of two", job.batch.mbs >= 2},
      {"rows of four", job.batch.mbs >= 4},
      {"full recomputation", w.recompute == "full"},
      {"recomputed experts", w.recompute_modules.contains("moe")},
      {"deepep", flex && w.flex_backend == "deepep"},
      {"hybridep", flex && w.flex_backend == "hybridep"},
      {"flex across nodes", flex && l.ep * l.etp > job.gpus_per_node},
      {"allgather dispatch", w.dispatcher == "allgather"},
      {"expert overlap", w.ep_overlap},
      {"delayed weight gradients", w.delay_wgrad},
      {"graphs", !w.cuda_graph.empty()},
      {"host optimizer", w.optimizer_offload},
      {"fully sharded", !l.fsdp.empty()},
  };
  std::set<std::string> traits;
  for (const auto& [name, has] : all) {
    if (has) traits.insert(name);
  }
  return traits;
}

std::set<std::string> TraitsAndPairsOf(const TrainingJob& job) {
  const std::set<std::string> single = TraitsOf(job);
  std::set<std::string> all = single;
  for (auto a = single.begin(); a != single.end(); ++a) {
    for (auto b = std::next(a); b != single.end(); ++b) all.insert(*a + ", " + *b);
  }
  return all;
}

}  // namespace attune::rules
