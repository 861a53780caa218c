#include "stages.h"

#include <algorithm>

#include "attune/model/pipeline_layout.h"
#include "shape.h"

namespace attune::sim {
namespace {

// Hands out the layers of the model in order.
class Dealer {
 public:
  explicit Dealer(const ModelShape& shape) : order_(shape) {}
  void Deal(int count, StageModel& to) {
    for (int i = 0; i < count && next_ < order_.size(); ++i) {
      ++to.layers[static_cast<std::size_t>(order_.At(next_, cursor_))];
      ++next_;
    }
  }

 private:
  LayerOrder order_;
  int next_ = 0;
  std::size_t cursor_ = 0;
};

void FromText(const TrainingJob& job, std::vector<StageModel>& stages) {
  const PipelineLayout layout = ParsePipelineLayout(job.layout.pipeline_layout);
  Dealer dealer(job.shape);
  for (std::size_t i = 0; i < layout.stages.size(); ++i) {
    StageModel& stage = stages[i % stages.size()];
    for (const char c : layout.stages[i]) {
      if (c == 't') dealer.Deal(1, stage);
      if (c == 'E') stage.embedding = true;
      if (c == 'L') stage.head = true;
      if (c == 'm') ++stage.mtp;
    }
  }
}

// Layers of each virtual chunk, in the order the model runs through them.
int ChunkLayers(const TrainingJob& job, int chunk, int chunks) {
  const Layout& l = job.layout;
  const int layers = static_cast<int>(job.shape.layers);
  const int pp = l.pp, vp = chunks / pp, stage = chunk % pp;
  if (l.first_layers || l.last_layers) {
    const int first = l.first_layers.value_or(0), last = l.last_layers.value_or(0);
    if (stage == 0 && l.first_layers) return first / vp;
    if (stage == pp - 1 && l.last_layers) return last / vp;
    const int middle = pp - (l.first_layers ? 1 : 0) - (l.last_layers ? 1 : 0);
    return middle > 0 ? (layers - first - last) / middle / vp : 0;
  }
  // Embedding and loss take a layer's place where they are counted, or where nothing else divides.
  const bool even = layers % chunks == 0;
  const bool embedding = l.account_embedding || (!even && !l.account_loss);
  const bool loss = l.account_loss || (!even && !l.account_embedding);
  const int units = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  int mine = units / chunks;
  const int rest = units % chunks;
  // The remainder goes to inner chunks: the ends already carry embedding and head.
  const int inner = chunk - (chunks - rest) / 2;
  if (inner >= 0 && inner < rest) ++mine;
  if (chunk == 0 && embedding) --mine;
  if (chunk == chunks - 1 && loss) --mine;
  return std::max(0, mine);
}

}  // namespace

void SplitStages(const TrainingJob& job, std::vector<StageModel>& stages) {
  const int pp = std::max(1, job.layout.pp);
  stages.resize(static_cast<std::size_t>(pp));
  for (StageModel& stage : stages) stage = StageModel{};
  if (!job.layout.pipeline_layout.empty()) {
    FromText(job, stages);
    return;
  }
  Dealer dealer(job.shape);
  const int chunks = pp * std::max(1, job.layout.vp);
  int dealt = 0;
  for (int c = 0; c < chunks; ++c) {
    int n = ChunkLayers(job, c, chunks);
    if (c == chunks - 1) n = static_cast<int>(job.shape.layers) - dealt;  // none is lost
    dealer.Deal(n, stages[static_cast<std::size_t>(c % pp)]);
    dealt += n;
  }
  stages.front().embedding = true;
  stages.back().head = true;
  stages.back().mtp = static_cast<int>(job.shape.mtp_layers);
}

}  // namespace attune::sim
