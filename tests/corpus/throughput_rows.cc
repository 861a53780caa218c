// What a row states becomes a TrainingJob; what it leaves blank gets the default of its framework,
// written here by framework, never by model or row. docs/physics.md lists these defaults.
#include "throughput_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "attune/base/text.h"
#include "model_table.h"
#include "corpus.h"
#include "csv.h"

namespace attune::corpus {
namespace {

// The columns, in order. Inputs are those an answer may look at.
constexpr std::array<std::string_view, 36> kColumns = {"id",
                                                       "model",
                                                       "gpus",
                                                       "gpu",
                                                       "framework",
                                                       "stack_version",
                                                       "task",
                                                       "seq_len",
                                                       "gbs",
                                                       "mbs",
                                                       "tp",
                                                       "pp",
                                                       "vpp",
                                                       "ep",
                                                       "etp",
                                                       "cp",
                                                       "dp",
                                                       "fsdp",
                                                       "first_stage_layers",
                                                       "last_stage_layers",
                                                       "recompute",
                                                       "precision",
                                                       "optimizer_offload",
                                                       "dispatcher",
                                                       "ep_overlap",
                                                       "dp_overlap",
                                                       "cuda_graph",
                                                       "routing",
                                                       "other",
                                                       "tokens_per_s_gpu",
                                                       "model_tflops_gpu",
                                                       "mfu_pct",
                                                       "step_time_s",
                                                       "peak_mem_gb",
                                                       "outcome",
                                                       "group"};
constexpr std::size_t kFirstInput = 1, kFirstResult = 29;
constexpr std::array<std::string_view, 3> kUnread = {"split", "source", "notes"};

using Fields = std::vector<std::string>;

std::size_t Column(std::string_view name) {
  return static_cast<std::size_t>(std::find(kColumns.begin(), kColumns.end(), name) -
                                  kColumns.begin());
}

// Where each of kColumns stands in the file. The columns that an answer is made of have to be there;
// id, results and what is not read may be missing.
class Header {
 public:
  static Result<Header> Read(const Fields& names) {
    Header header;
    header.fields_ = names.size();
    for (std::size_t at = 0; at < names.size(); ++at) {
      if (std::find(kUnread.begin(), kUnread.end(), names[at]) != kUnread.end()) continue;
      const std::size_t column = Column(names[at]);
      if (column == kColumns.size() || header.at_[column]) {
        return Fail(ErrorCode::kInvalidInput, "column \"" + names[at] + "\" is " +
                                                  (column == kColumns.size() ? "none of a throughput table"
                                                                             : "there twice"));
      }
      header.at_[column] = at;
    }
    for (std::size_t column = kFirstInput; column < kFirstResult; ++column) {
      if (!header.at_[column]) {
        return Fail(ErrorCode::kInvalidInput,
                    "no column \"" + std::string(kColumns[column]) + "\" of a throughput table");
      }
    }
    return header;
  }
  // A row's fields in the order of kColumns, empty where the file has no such column.
  Result<Fields> Order(const Fields& row) const {
    if (row.size() != fields_) {
      return Fail(ErrorCode::kInvalidInput, std::to_string(row.size()) + " fields, not " +
                                                std::to_string(fields_));
    }
    Fields ordered(kColumns.size());
    for (std::size_t column = 0; column < kColumns.size(); ++column) {
      if (at_[column]) ordered[column] = row[*at_[column]];
    }
    return ordered;
  }

 private:
  std::array<std::optional<std::size_t>, kColumns.size()> at_;
  std::size_t fields_ = 0;
};

class RowReader {
 public:
  explicit RowReader(const Fields& fields) : fields_(fields) {}

  ThroughputRow Run() {
    row_.id = Text("id");
    row_.group = Text("group");
    row_.outcome = Text("outcome");
    row_.framework = Text("framework");
    row_.version = Text("stack_version");
    row_.model = Text("model");
    row_.gpu = Text("gpu");
    row_.precision = Text("precision");
    row_.task = Text("task");
    for (std::size_t i = kFirstInput; i < kFirstResult; ++i) {
      const std::string line = std::string(kColumns[i]) + "=" + fields_[i] + "\n";
      row_.input += line;
      if (kColumns[i] != "stack_version") row_.design += line;
    }
    row_.states_layout = !Text("tp").empty();
    row_.states_recompute = !Text("recompute").empty();
    Numbers();
    if (row_.not_modelled.empty()) Describe();
    Published();
    return std::move(row_);
  }

 private:
  const std::string& Text(std::string_view column) const { return fields_[Column(column)]; }
  bool Says(std::string_view phrase) const {
    return Text("other").find(phrase) != std::string::npos;
  }
  bool Is(std::string_view framework) const { return row_.framework == framework; }
  bool Nvidia() const { return Is("Megatron-Bridge") || Is("NeMo"); }
  // Stacks before fused kernels and the distributed optimizer.
  bool Old() const {
    return Is("Megatron-DeepSpeed") ||
           (Is("Megatron-LM") && (row_.version == "2021" || row_.version == "2022"));
  }

  std::string Wrong(std::string_view column, const std::string& what) const {
    return std::string(column) + " \"" + Text(column) + "\" " + what;
  }
  std::optional<std::int64_t> Whole(std::string_view column, std::int64_t low) {
    if (Text(column).empty()) return std::nullopt;
    const std::optional<std::int64_t> n = ParseInt(Text(column));
    if (!n || *n < low || *n > 1'000'000'000) {
      Refuse(Wrong(column, "is no whole number of at least " + std::to_string(low)));
      return std::nullopt;
    }
    return n;
  }
  // A result: one that cannot be read leaves the row without a published rate, and says so.
  std::optional<double> Real(std::string_view column) {
    if (Text(column).empty()) return std::nullopt;
    const std::optional<double> x = ParseDouble(Text(column));
    if (!x || *x < 0) {
      if (row_.bad_result.empty()) row_.bad_result = Wrong(column, "is no number");
      return std::nullopt;
    }
    return x;
  }

  void Numbers() {
    Layout& l = row_.job.layout;
    row_.job.world = static_cast<int>(Whole("gpus", 1).value_or(1));
    l.tp = static_cast<int>(Whole("tp", 1).value_or(1));
    l.pp = static_cast<int>(Whole("pp", 1).value_or(1));
    l.vp = static_cast<int>(Whole("vpp", 1).value_or(1));
    l.ep = static_cast<int>(Whole("ep", 1).value_or(1));
    l.etp = static_cast<int>(Whole("etp", 1).value_or(1));
    l.cp = static_cast<int>(Whole("cp", 1).value_or(1));
    dp_ = Whole("dp", 1);
    seq_ = Whole("seq_len", 1).value_or(0);
    gbs_ = Whole("gbs", 1);
    mbs_ = Whole("mbs", 1);
    const auto edge = [&](std::string_view column) -> std::optional<int> {
      const std::optional<std::int64_t> n = Whole(column, 0);
      return n ? std::optional<int>(static_cast<int>(*n)) : std::nullopt;
    };
    l.first_layers = edge("first_stage_layers");
    l.last_layers = edge("last_stage_layers");
    for (const std::string_view flag : {"fsdp", "optimizer_offload", "ep_overlap", "dp_overlap"}) {
      const std::string& v = Text(flag);
      if (!v.empty() && v != "0" && v != "1" && !ParseDouble(v)) {
        Refuse(Wrong(flag, "is neither 0 nor 1"));
      }
    }
  }

  void Refuse(std::string why) {
    if (row_.not_modelled.empty()) row_.not_modelled = std::move(why);
  }

  void Describe() {
    if (!row_.states_layout) return Refuse("no layout is stated");
    if (row_.task != "pretrain" && row_.task != "sft" && row_.task != "lora") {
      return Refuse("task " + row_.task + " is no plain training step");
    }
    const ModelRow* model = FindModel(row_.model);
    if (model == nullptr) return Refuse("no shape of model " + row_.model);
    row_.job.shape = ShapeOf(*model);
    const sim::StackProfile stack = StackOf(row_, false);
    if (!stack.multi_token_prediction) row_.job.shape.mtp_layers = 0;
    const std::optional<sim::Machine> machine = sim::FindMachine(row_.gpu, stack.network);
    if (!machine) return Refuse("no datasheet of GPU " + row_.gpu);
    row_.machine = *machine;
    row_.job.gpu = row_.gpu;
    row_.job.gpus_per_node = std::min(8, row_.job.world);
    if (seq_ <= 0) return Refuse("no sequence length is stated");
    Grid();
    BatchSizes();
    Precision();
    Recompute();
    Communication();
    Experts();
    row_.conditions.frozen_base = row_.task == "lora";
    row_.conditions.varying_shapes = row_.task == "sft" && Is("Megatron-Bridge");
  }

  void Grid() {
    Layout& l = row_.job.layout;
    const int world = row_.job.world, grid = l.tp * l.pp * l.cp;
    if (grid > world || world % grid != 0) {
      return Refuse("TP x PP x CP does not divide the GPUs");
    }
    l.dp = world / grid;
    const int expert_grid = l.etp * l.ep * l.pp;
    l.expert_dp = std::max(1, world / expert_grid);
    l.sequence_parallel = l.tp > 1 && !Says("no sequence parallel") && !Is("NeMo-AutoModel") &&
                          (!Old() || Says("sequence parallel"));
    const bool fsdp = !Text("fsdp").empty() && Text("fsdp") != "0";
    if (fsdp) l.fsdp = Nvidia() || Is("Megatron-LM") ? "megatron" : "torch";
    l.fsdp_keeps_weights = Says("SHARD_GRAD_OP") || Is("Meta internal");
    if (l.pp == 1) l.vp = 1;
    // Point-to-point overlap exists with virtual stages only: where it is said to be on and their
    // number is not, the smallest one that divides.
    if (Text("vpp").empty() && l.pp > 1 && (Says("PP overlap on") || Is("Meta internal"))) {
      const std::int64_t chunk = row_.job.shape.layers / l.pp;
      for (int v = 2; v <= chunk; ++v) {
        if (chunk % v == 0) {
          l.vp = v;
          break;
        }
      }
    }
  }

  void BatchSizes() {
    Batch& b = row_.job.batch;
    const Layout& l = row_.job.layout;
    b.seq_len = seq_;
    // Not stated: one row where stages are filled by many micro-batches, else up to four.
    std::int64_t mbs = mbs_.value_or(0);
    if (mbs == 0) {
      const std::int64_t rows = gbs_.value_or(l.dp) / l.dp;
      mbs = l.pp > 1 ? 1 : std::clamp<std::int64_t>(rows, 1, 4);
    }
    b.mbs = mbs;
    // Not stated: four micro-batches a step, eight a stage in a pipeline.
    const std::int64_t rows = mbs * l.dp;
    const std::int64_t gbs = gbs_.value_or(rows * (l.pp > 1 ? 8 * l.pp : 4));
    b.microbatches = std::max<std::int64_t>(1, (gbs + rows / 2) / rows);
    b.gbs = b.microbatches * rows;
    b.padded_vocab = (row_.job.shape.vocab + 127) / 128 * 128;
  }

  void Precision() {
    Switches& w = row_.job.switches;
    const std::string& p = row_.precision;
    if (p == "bf16" || p == "fp16") {
      w.precision = p;
    } else if (p == "mxfp8") {
      w.precision = "bf16+fp8:mxfp8";
    } else if (p == "fp8-block") {
      w.precision = "bf16+fp8:blockwise";
    } else if (p == "nvfp4") {
      w.precision = "bf16+fp4:nvfp4";
    } else if (p == "fp8-cs" || p == "fp8-tensorwise") {
      w.precision = "bf16+fp8:tensorwise";
    } else if (p == "fp8-rowwise") {
      w.precision = "bf16+fp8:rowwise";
    } else if (p == "fp8" || p == "fp8-ds") {
      w.precision = "bf16+fp8:delayed";
    } else {
      Refuse("precision " + p + " is not known");
    }
    w.grads_fp32 = !(Nvidia() || Says("MP PURE") || Old());
    w.ce_fusion = Nvidia();
  }

  void Recompute() {
    Switches& w = row_.job.switches;
    const std::string& text = Text("recompute");
    if (text.empty() || text == "none") return;
    if (text == "full" || text == "full uniform 1") {
      w.recompute = "full";
      w.recompute_method = "uniform";
      w.recompute_layers = 1;
      return;
    }
    if (text.starts_with("full block ")) {
      w.recompute = "full";
      w.recompute_method = "block";
      w.recompute_layers = static_cast<int>(ParseInt(text.substr(11)).value_or(1));
      return;
    }
    w.recompute = "selective";
    if (text == "selective") {
      if (Is("torchtitan")) {
        // Its per-operator choice computes every second matrix again.
        w.recompute = "full";
        w.recompute_method = "block";
        w.recompute_layers = static_cast<int>(row_.job.shape.layers / 2 / row_.job.layout.pp);
      } else {
        w.recompute_modules = {"core_attn"};
      }
      return;
    }
    if (!text.starts_with("selective:")) return Refuse("recompute " + text + " is not known");
    for (const std::string_view part : Split(std::string_view(text).substr(10), ',')) {
      std::string name(Trim(part));
      if (name == "RMSNorm") name = "layernorm";
      if (name == "MLA up-projection") name = "mla_up_proj";
      w.recompute_modules.insert(std::move(name));
    }
  }

  void Communication() {
    Switches& w = row_.job.switches;
    const Layout& l = row_.job.layout;
    w.distributed_optimizer = !Old() || Is("Megatron-DeepSpeed");
    const bool overlap = Text("dp_overlap").empty() ? !Old() : Text("dp_overlap") != "0";
    w.overlap_grad_reduce = w.overlap_param_gather = overlap;
    w.overlap_p2p = l.vp > 1 && !Old();
    // NVIDIA's dense recipes overlap TP traffic with userbuffers.
    w.tp_comm_overlap = l.tp > 1 && ((Nvidia() && row_.job.shape.experts == 0) ||
                                     Says("TP and PP overlap on") || Says("asyncTP"));
    if (Text("optimizer_offload") == "1") {
      w.optimizer_offload = true;
      w.offload_fraction = 1;
    } else if (const auto part = ParseDouble(Text("optimizer_offload")); part && *part > 0) {
      w.optimizer_offload = true;
      w.offload_fraction = std::min(1.0, *part);
    }
    const std::string& other = Text("other");
    if (const std::size_t at = other.find("activation offload "); at != std::string::npos) {
      std::string_view rest = std::string_view(other).substr(at + 19);
      rest = rest.substr(0, rest.find(' '));
      w.activation_offload_layers = static_cast<int>(ParseInt(rest).value_or(0));
    }
    const std::string& graph = Text("cuda_graph");
    if (graph.starts_with("full_iteration")) {
      w.cuda_graph = "full_iteration";
    } else if (!graph.empty() && graph != "none") {
      w.cuda_graph = graph.substr(0, graph.find(' '));
    } else if (Says("CUDA graphs")) {
      w.cuda_graph = "transformer_engine";
    }
    // A study of memory starts from PyTorch's own allocator; recipes as shipped set segments.
    const bool study = !other.empty() && !Says("recipe flags") && !Says("golden");
    w.expandable_segments = Nvidia() && (!study || Says("expandable segments"));
  }

  void Experts() {
    if (row_.job.shape.experts == 0) return;
    Switches& w = row_.job.switches;
    const std::string& d = Text("dispatcher");
    if (d == "alltoall" || d == "allgather") {
      w.dispatcher = d;
    } else if (d.empty()) {
      // NVIDIA's recipes take a flex dispatcher.
      w.dispatcher = Nvidia() ? "flex" : "alltoall";
    } else {
      w.dispatcher = "flex";
    }
    if (w.dispatcher == "flex") w.flex_backend = d == "deepep" ? "deepep" : "hybridep";
    w.grouped_gemm = w.permute_fusion = true;
    w.ep_overlap = Text("ep_overlap") == "1" || Says("A2A overlap") || Says("DualPipe");
    w.shared_expert_overlap = Says("shared-expert overlap on");
    const std::string& routing = Text("routing");
    w.forced_balance = routing == "force_balance";
    if (routing == "tokendrop") {
      w.capacity_factor = 1;
      w.moe_pad_to_capacity = true;
    }
  }

  // Narayanan et al. 2021, equation 3: with recomputation, attention not halved.
  double OldFlopsPerToken() const {
    const ModelShape& m = row_.job.shape;
    const double h = static_cast<double>(m.hidden), l = static_cast<double>(m.layers);
    return 96 * l * h * h *
           (1 + static_cast<double>(seq_) / (6 * h) + static_cast<double>(m.vocab) / (16 * l * h));
  }

  void Published() {
    const std::optional<double> tokens = Real("tokens_per_s_gpu"), step = Real("step_time_s"),
                                tflops = Real("model_tflops_gpu");
    Real("mfu_pct");
    Real("peak_mem_gb");
    const bool unread = !row_.bad_result.empty() || !row_.not_modelled.empty();
    if (unread || row_.outcome == "oom") return;
    if (tokens) {
      row_.published = tokens;
    } else if (step && *step > 0) {
      row_.published = static_cast<double>(gbs_.value_or(0) * seq_) / *step / row_.job.world;
    } else if (tflops) {
      const bool hardware = Is("Megatron-LM") && row_.version == "2021";
      const double flops = hardware ? OldFlopsPerToken()
                                    : sim::FlopsPerToken(row_.job.shape, static_cast<double>(seq_));
      row_.published = *tflops * 1e12 / flops;
    }
  }

  const Fields& fields_;
  ThroughputRow row_;
  std::optional<std::int64_t> dp_, gbs_, mbs_;
  std::int64_t seq_ = 0;
};

}  // namespace

sim::StackProfile StackOf(const ThroughputRow& row, bool by_version) {
  const std::optional<sim::StackProfile> found =
      by_version ? sim::FindStack(row.framework, row.version) : sim::FrameworkStack(row.framework);
  // A framework nobody has a profile of is taken as it is: no scalar, today's kernels.
  return found.value_or(sim::StackProfile{.framework = row.framework, .version = row.version});
}

Result<std::vector<ThroughputRow>> ReadThroughputRows(const std::string& path) {
  ATTUNE_TRY(const std::string text, ReadFile(path));
  auto records = ParseCsv(text);
  if (!records) return Fail(path, std::move(records.error()));
  if (records->empty()) return Fail(ErrorCode::kInvalidInput, path + ": no rows");
  const auto header = Header::Read(records->front());
  if (!header) return Fail(path + ":1", header.error());
  std::vector<ThroughputRow> rows;
  for (std::size_t i = 1; i < records->size(); ++i) {
    const auto fields = header->Order((*records)[i]);
    if (!fields) return Fail(path + ": record " + std::to_string(i + 1), fields.error());
    rows.push_back(RowReader(*fields).Run());
  }
  if (rows.empty()) return Fail(ErrorCode::kInvalidInput, path + ": no rows");
  return rows;
}

}  // namespace attune::corpus
