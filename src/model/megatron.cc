// Resolves a Megatron-LM argument list into what will be executed: declared defaults first, then
// the values that validate_args and the core configuration change without stopping, each noted in
// TrainingJob::silent. Read at d98e8a64 (core 0.20.0); the defaults used here are equal at 1dcf0da.
// Only what leaves no job to speak of is refused here (a size that does not divide, a value that is
// missing); everything else that start-up would reject is the gates' rows.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/text.h"
#include "attune/model/flag_index.h"
#include "model_table.h"
#include "attune/model/pipeline_layout.h"
#include "attune/model/training_job.h"

namespace attune {
namespace {

using Text = std::string_view;

std::string Show(std::int64_t n) { return std::to_string(n); }

class Flags {
 public:
  explicit Flags(const Arguments& args) : index_(args) {}
  const Argument* Find(const FlagName& flag) const { return index_.Find(flag); }
  bool On(const FlagName& flag) const { return Find(flag) != nullptr; }
  // Value of a flag with exactly one; empty otherwise.
  Text Value(const FlagName& flag) const {
    const Argument* a = Find(flag);
    return a != nullptr && a->values.size() == 1 ? Text(a->values.front()) : Text();
  }

 private:
  FlagIndex index_;
};

class Resolution {
 public:
  Resolution(const Arguments& args, const Env& env, const Workload& workload)
      : flags_(args), env_(env), workload_(workload) {}

  std::variant<TrainingJob, Finding> Run() {
    job_.world = workload_.gpus;
    job_.gpus_per_node = workload_.gpus_per_node;
    job_.gpu = workload_.gpu;
    FindRow();
    Shape();
    Grid();
    Stages();
    BatchSizes();
    Precision();
    Recompute();
    Experts();
    Communication();
    Memory();
    Kernels();
    if (failed_) return std::move(finding_);
    return std::move(job_);
  }

 private:
  void Refuse(std::string rule, std::string key, std::string now, std::string why) {
    if (failed_) return;
    failed_ = true;
    finding_ = {.severity = Severity::kRefuse,
                .rule = std::move(rule),
                .key = std::move(key),
                .was = {},
                .now = std::move(now),
                .why = std::move(why)};
  }
  void Silently(std::string what) { job_.silent.push_back(std::move(what)); }

  // An integer that was given; `otherwise` when it was not. Not an integer: refused by name.
  std::int64_t Int(const FlagName& flag, std::int64_t otherwise) {
    const Argument* a = flags_.Find(flag);
    if (a == nullptr) return otherwise;
    const std::optional<std::int64_t> n =
        a->values.size() == 1 ? ParseInt(a->values.front()) : std::nullopt;
    if (!n || *n > 1'000'000'000'000 || *n < -1'000'000'000'000) {
      Refuse("resolve.value", std::string(flag.text), Join(a->values, " "),
             std::string(flag.text) + " must be one whole number");
      return otherwise;
    }
    return *n;
  }
  double Real(const FlagName& flag, double otherwise) {
    const Argument* a = flags_.Find(flag);
    if (a == nullptr) return otherwise;
    const std::optional<double> x =
        a->values.size() == 1 ? ParseDouble(a->values.front()) : std::nullopt;
    if (!x) {
      Refuse("resolve.value", std::string(flag.text), Join(a->values, " "),
             std::string(flag.text) + " must be one number");
      return otherwise;
    }
    return *x;
  }
  // Parallel sizes: at least 1, and small enough that products stay far from overflow.
  int Size(const FlagName& flag, int otherwise) {
    const std::int64_t n = Int(flag, otherwise);
    if (n < 1 || n > 1'000'000) {
      Refuse("resolve.value", std::string(flag.text), Show(n),
             std::string(flag.text) + " must be at least 1");
      return 1;
    }
    return static_cast<int>(n);
  }
  void FindRow() {
    if (workload_.shape_row.empty()) return;
    row_ = FindModel(workload_.shape_row);
    if (row_ != nullptr) return;
    std::vector<std::string> names;
    for (const ModelRow& row : KnownModels()) names.emplace_back(row.name);
    const std::string near = Nearest(workload_.shape_row, names);
    Refuse("resolve.value", "workload.shape", workload_.shape_row,
           "the model table (skill/models.tsv) has no row " + workload_.shape_row +
               (near.empty() ? "" : "; did you mean " + near + "?"));
  }

  // A size of the model: from the arguments, else a key of workload.shape or the row it names, else
  // `otherwise`.
  std::int64_t Shaped(const FlagName& flag, const char* key, std::int64_t otherwise) {
    if (!flag.text.empty() && flags_.On(flag)) return Int(flag, otherwise);
    const auto known = workload_.shape.find(key);
    if (known == workload_.shape.end()) {
      const std::optional<std::int64_t> size = row_ == nullptr ? std::nullopt : SizeOf(*row_, key);
      return size.value_or(otherwise);
    }
    const std::optional<std::int64_t> n = ParseInt(known->second);
    if (!n || *n < 0) {
      Refuse("resolve.value", "workload.shape." + std::string(key), known->second,
             "workload.shape." + std::string(key) + " must be a whole number");
      return otherwise;
    }
    return *n;
  }
  std::int64_t Needed(const FlagName& flag, const char* key) {
    const std::int64_t n = Shaped(flag, key, 0);
    if (n <= 0) {
      Refuse("resolve.missing", std::string(flag.text), "",
             "neither " + std::string(flag.text) + " nor workload.shape." + key + " gives a size");
      return 1;
    }
    return n;
  }

  void Shape() {
    ModelShape& s = job_.shape;
    s.hybrid_pattern = std::string(flags_.Value("--hybrid-override-pattern"));
    if (s.hybrid_pattern.empty()) {
      s.hybrid_pattern = std::string(flags_.Value("--hybrid-layer-pattern"));
    }
    if (s.hybrid_pattern.empty()) {
      s.layers = Needed("--num-layers", "layers");
    } else {
      // The main part ends at the first "/" (MTP parts follow); "|" only separates stages.
      const Text main = Text(s.hybrid_pattern).substr(0, s.hybrid_pattern.find('/'));
      s.layers = static_cast<std::int64_t>(main.size()) - std::count(main.begin(), main.end(), '|');
      if (const Argument* given = flags_.Find("--num-layers"); given != nullptr) {
        if (given->values != std::vector<std::string>{Show(s.layers)}) {
          Silently("num_layers: " + Join(given->values, " ") + " -> " + Show(s.layers) +
                   " (the hybrid pattern defines it)");
        }
      }
      if (s.layers < 1) {
        Refuse("resolve.value", "--hybrid-override-pattern", s.hybrid_pattern,
               "the hybrid pattern names no layer");
      }
    }
    s.hidden = Needed("--hidden-size", "hidden");
    s.heads = Needed("--num-attention-heads", "heads");
    if (flags_.On("--num-attention-heads")) {
      s.kv_groups = flags_.On("--group-query-attention") ? Int("--num-query-groups", 1) : s.heads;
    } else {
      s.kv_groups = Shaped("", "kv_groups", s.heads);
    }
    s.head_dim = Shaped("--kv-channels", "head_dim", s.hidden / std::max<std::int64_t>(s.heads, 1));
    s.gated_mlp =
        flags_.On("--swiglu") || (!flags_.On("--num-layers") && Shaped("", "gated_mlp", 1) != 0);
    const std::int64_t ffn_default =
        flags_.On("--swiglu") ? (4 * s.hidden * 2 / 3) / 64 * 64 : 4 * s.hidden;
    s.ffn = Shaped("--ffn-hidden-size", "ffn", ffn_default);
    s.vocab = Shaped("--vocab-size", "vocab", 0);
    s.tied_embeddings = !flags_.On("--untie-embeddings-and-output-weights");
    s.experts = Shaped("--num-experts", "experts", 0);
    if (s.experts > 0) {
      s.topk = Shaped("--moe-router-topk", "topk", 2);
      s.expert_ffn = Shaped("--moe-ffn-hidden-size", "expert_ffn", s.ffn);
      s.shared_ffn = Shaped("--moe-shared-expert-intermediate-size", "shared_ffn", 0);
      s.dense_layers = DenseLayers();
    }
    s.mla = flags_.On("--multi-latent-attention");
    if (s.mla) {
      s.q_lora_rank = Shaped("--q-lora-rank", "q_lora_rank", 0);
      s.kv_lora_rank = Shaped("--kv-lora-rank", "kv_lora_rank", 32);
      s.qk_head_dim = Shaped("--qk-head-dim", "qk_head_dim", 128);
      s.qk_rope_dim = Shaped("--qk-pos-emb-head-dim", "qk_rope_dim", 64);
      s.v_head_dim = Shaped("--v-head-dim", "v_head_dim", 128);
    }
    s.mtp_layers = Int("--mtp-num-layers", 0);
    s.window = Window();
    if (s.window > 0) s.window_layers = WindowLayers(s.layers);
    s.linear_bias = Shaped("", "linear_bias", flags_.On("--disable-bias-linear") ? 0 : 1) != 0;
    s.router_groups = Shaped("--moe-router-num-groups", "router_groups", 0);
    s.group_topk = Shaped("--moe-router-group-topk", "group_topk", 0);
    s.moe_latent = Shaped("--moe-latent-size", "moe_latent", 0);
    if (s.hybrid_pattern.find('M') != std::string::npos) {
      s.ssm_head_dim = Shaped("--mamba-head-dim", "ssm_head_dim", 64);
      s.ssm_state = Shaped("--mamba-state-dim", "ssm_state", 128);
      s.ssm_groups = Shaped("--mamba-num-groups", "ssm_groups", 8);
      // Unset: an inner width of twice the hidden size.
      s.ssm_heads = Shaped("--mamba-num-heads", "ssm_heads",
                           2 * s.hidden / std::max<std::int64_t>(s.ssm_head_dim, 1));
    }
    s.delta_layers = std::min(Shaped("", "delta_layers", 0), s.layers);
  }

  // Leading dense layers from --moe-layer-freq: an integer, or a list expression such as
  // "([0]*3+[1]*89)". What is no run of dense layers followed by MoE layers only has no place in
  // ModelShape: workload.shape.dense_layers must then say what to reckon with.
  std::int64_t DenseLayers() {
    if (workload_.shape.contains("dense_layers") ||
        (row_ != nullptr && !flags_.On("--moe-layer-freq"))) {
      return Shaped("", "dense_layers", 0);
    }
    const Text text = flags_.Value("--moe-layer-freq");
    if (text.empty() || text == "1") return 0;
    if (const std::optional<std::int64_t> leading = LeadingZeros(text)) return *leading;
    Refuse("resolve.value", "--moe-layer-freq", std::string(text),
           "--moe-layer-freq is no run of dense layers followed by expert layers: "
           "state workload.shape.dense_layers");
    return 0;
  }
  static std::optional<std::int64_t> LeadingZeros(Text text) {
    if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
    std::int64_t zeros = 0;
    bool ones = false;
    for (Text term : Split(text, '+')) {
      term = Trim(term);
      const std::size_t close = term.find(']');
      if (!term.starts_with('[') || close == Text::npos) return std::nullopt;
      std::int64_t times = 1;
      Text rest = Trim(term.substr(close + 1));
      if (!rest.empty()) {
        if (!rest.starts_with('*')) return std::nullopt;
        const std::optional<std::int64_t> n = ParseInt(Trim(rest.substr(1)));
        if (!n || *n < 0 || *n > 100'000) return std::nullopt;
        times = *n;
      }
      if (times == 0) continue;
      std::int64_t zeros_here = 0;
      bool ones_here = false;
      for (Text item : Split(term.substr(1, close - 1), ',')) {
        item = Trim(item);
        if (item == "1") {
          ones_here = true;
        } else if (item == "0" && !ones && !ones_here) {
          ++zeros_here;
        } else {
          return std::nullopt;
        }
      }
      if (times > 1 && ones_here && zeros_here > 0) return std::nullopt;  // zeros behind ones
      zeros += times * zeros_here;
      ones = ones || ones_here;
    }
    return zeros;
  }
  // "(1023,0)" or "1023,0": tokens to the left that a position sees.
  std::int64_t Window() {
    Text text = flags_.Value("--window-size");
    if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
    const std::optional<std::int64_t> left = ParseInt(Trim(text.substr(0, text.find(','))));
    return left && *left > 0 ? *left : 0;
  }

  // --window-attn-skip-freq N: every N-th layer has full attention; unset: none has. A list is not
  // counted: workload.shape.window_layers says it.
  std::int64_t WindowLayers(std::int64_t layers) {
    const std::optional<std::int64_t> every = ParseInt(flags_.Value("--window-attn-skip-freq"));
    const std::int64_t windowed = every && *every > 0 ? layers - layers / *every : layers;
    return std::min(Shaped("", "window_layers", windowed), layers);
  }

  void Grid() {
    Layout& l = job_.layout;
    l.tp = Size("--tensor-model-parallel-size", 1);
    l.pp = Size("--pipeline-model-parallel-size", 1);
    l.cp = Size("--context-parallel-size", 1);
    l.ep = Size("--expert-model-parallel-size", 1);
    l.etp = Size("--expert-tensor-parallel-size", l.tp);
    if (job_.shape.experts > 0 && l.etp != 1 && !flags_.On("--expert-tensor-parallel-size")) {
      Silently("expert_tensor_parallel_size: unset -> " + Show(l.etp) + " (follows TP)");
    }
    const std::int64_t shards = Int("--tensor-parallel-num-weight-shards", l.tp);
    if (shards < l.tp || shards % l.tp != 0) {
      Refuse("resolve.value", "--tensor-parallel-num-weight-shards", Show(shards),
             "weight shards must be a multiple of TP " + Show(l.tp));
    }
    const std::int64_t gtp = failed_ ? 1 : shards / l.tp;
    const std::int64_t expert_shards = Int("--expert-tensor-parallel-num-weight-shards", l.etp);
    if (expert_shards < l.etp || expert_shards % l.etp != 0) {
      Refuse("resolve.value", "--expert-tensor-parallel-num-weight-shards", Show(expert_shards),
             "expert weight shards must be a multiple of ETP " + Show(l.etp));
    }
    const std::int64_t expert_gtp = failed_ ? 1 : expert_shards / l.etp;
    const std::int64_t dense = std::int64_t{l.tp} * l.pp * l.cp * gtp;
    if (dense > job_.world || job_.world % dense != 0) {
      Refuse("legality.world", "world", Show(job_.world),
             Show(job_.world) + " GPUs do not divide by TP " + Show(l.tp) + " x PP " + Show(l.pp) +
                 " x CP " + Show(l.cp) + (gtp > 1 ? " x weight shards " + Show(gtp) : ""));
      return;
    }
    l.dp = static_cast<int>(job_.world / dense);
    const std::int64_t expert = std::int64_t{l.etp} * l.ep * l.pp * expert_gtp;
    if (expert > job_.world || job_.world % expert != 0) {
      Refuse("legality.expert_world", "world", Show(job_.world),
             Show(job_.world) + " GPUs do not divide by ETP " + Show(l.etp) + " x EP " +
                 Show(l.ep) + " x PP " + Show(l.pp));
      return;
    }
    l.expert_dp = static_cast<int>(job_.world / expert);
    l.sequence_parallel = flags_.On("--sequence-parallel");
    if (l.sequence_parallel && l.tp == 1) {
      l.sequence_parallel = false;
      Silently("sequence_parallel: on -> off (TP 1)");
    }
    l.dist_opt_instances = Size("--num-distributed-optimizer-instances", 1);
    if (flags_.On("--use-torch-fsdp2")) l.fsdp = "torch";
    if (flags_.On("--use-megatron-fsdp")) l.fsdp = "megatron";
    l.fsdp_keeps_weights =
        l.fsdp == "megatron" && flags_.On("--data-parallel-sharding-strategy") &&
        flags_.Value("--data-parallel-sharding-strategy") != "optim_grads_params";
  }

  void Stages() {
    if (failed_) return;
    Layout& l = job_.layout;
    const auto edge = [&](const FlagName& flag) -> std::optional<int> {
      if (!flags_.On(flag)) return std::nullopt;
      return static_cast<int>(std::clamp<std::int64_t>(Int(flag, 0), -1, 1'000'000));
    };
    l.first_layers = edge("--decoder-first-pipeline-num-layers");
    l.last_layers = edge("--decoder-last-pipeline-num-layers");
    l.account_embedding = flags_.On("--account-for-embedding-in-pipeline-split");
    l.account_loss = flags_.On("--account-for-loss-in-pipeline-split");
    l.pipeline_layout = std::string(flags_.Value("--pipeline-model-parallel-layout"));
    if (!l.pipeline_layout.empty()) {
      const std::size_t stages = ParsePipelineLayout(l.pipeline_layout).stages.size();
      l.vp = std::max(1, static_cast<int>(stages) / l.pp);
    } else if (flags_.On("--num-virtual-stages-per-pipeline-rank")) {
      l.vp = Size("--num-virtual-stages-per-pipeline-rank", 1);
    } else if (flags_.On("--num-layers-per-virtual-pipeline-stage")) {
      const std::int64_t chunk = Int("--num-layers-per-virtual-pipeline-stage", 1);
      const std::int64_t counted =
          job_.shape.layers + (l.account_embedding ? 1 : 0) + (l.account_loss ? 1 : 0);
      if (chunk < 1 || counted % l.pp != 0 || (counted / l.pp) % chunk != 0) {
        Refuse("legality.virtual_layers", "--num-layers-per-virtual-pipeline-stage", Show(chunk),
               Show(counted) + " layers over PP " + Show(l.pp) + " do not split into chunks of " +
                   Show(chunk));
        return;
      }
      l.vp = static_cast<int>(counted / l.pp / chunk);
    }
    const bool asked = flags_.On("--num-virtual-stages-per-pipeline-rank") ||
                       flags_.On("--num-layers-per-virtual-pipeline-stage");
    if (asked && l.vp == 1) Silently("virtual stages: 1 -> off");
    Switches& w = job_.switches;
    w.overlap_p2p = !flags_.On("--no-overlap-p2p-communication");
    if (w.overlap_p2p && l.vp == 1) {
      w.overlap_p2p = false;
      if (l.pp > 1) Silently("overlap_p2p_comm: on -> off (no virtual stages)");
    }
  }

  void BatchSizes() {
    if (failed_) return;
    Batch& b = job_.batch;
    if (!flags_.On("--micro-batch-size")) {
      Refuse("resolve.missing", "--micro-batch-size", "", "--micro-batch-size must be given");
      return;
    }
    b.mbs = Size("--micro-batch-size", 1);
    b.seq_len = Int("--seq-length", workload_.seq_length.value_or(0));
    if (b.seq_len < 1) {
      Refuse("resolve.missing", "--seq-length", "",
             "neither --seq-length nor workload.seq_length gives a length");
      return;
    }
    const std::int64_t rows = b.mbs * job_.layout.dp;
    b.gbs = Int("--global-batch-size", 0);
    if (!flags_.On("--global-batch-size")) {
      b.gbs = rows;
      Silently("global_batch_size: unset -> " + Show(rows) +
               " (MBS x DP: changes with the layout)");
    }
    if (b.gbs % rows != 0 && b.gbs > rows && flags_.On("--decrease-batch-size-if-needed")) {
      const std::int64_t lower = b.gbs / rows * rows;
      Silently("global_batch_size: " + Show(b.gbs) + " -> " + Show(lower) + " (rounded down)");
      b.gbs = lower;
    }
    if (b.gbs < rows || b.gbs % rows != 0) {
      Refuse("legality.global_batch", "--global-batch-size", Show(b.gbs),
             "global batch " + Show(b.gbs) + " does not divide by MBS " + Show(b.mbs) + " x DP " +
                 Show(job_.layout.dp));
      return;
    }
    b.microbatches = b.gbs / rows;
    const std::int64_t vocab = job_.shape.vocab;
    b.padded_vocab = Int("--padded-vocab-size", 0);
    if (b.padded_vocab == 0 && vocab > 0) {
      const std::int64_t unit =
          std::max<std::int64_t>(1, Int("--make-vocab-size-divisible-by", 128) * job_.layout.tp);
      const bool pads = !flags_.On("--no-pad-vocab-size") && !flags_.On("--disable-pad-vocab-size");
      b.padded_vocab = pads ? (vocab + unit - 1) / unit * unit : vocab;
      if (b.padded_vocab != vocab) {
        Silently("padded_vocab_size: " + Show(vocab) + " -> " + Show(b.padded_vocab));
      }
    }
  }

  void Precision() {
    Switches& w = job_.switches;
    const bool bf16 = flags_.On("--bf16"), fp16 = flags_.On("--fp16");
    w.precision = bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
    if (flags_.On("--fp8-format")) {
      const Text recipe = flags_.Value("--fp8-recipe");
      w.precision += "+fp8:" + std::string(recipe.empty() ? Text("delayed") : recipe);
    } else if (flags_.On("--fp4-format")) {
      const Text recipe = flags_.Value("--fp4-recipe");
      w.precision += "+fp4:" + std::string(recipe.empty() ? Text("nvfp4") : recipe);
    }
    const bool given = flags_.On("--accumulate-allreduce-grads-in-fp32");
    w.grads_fp32 = given || (!bf16 && !fp16);
    if (bf16 && !given && !flags_.On("--grad-reduce-in-bf16")) {
      w.grads_fp32 = true;
      Silently("accumulate_allreduce_grads_in_fp32: off -> on (bf16)");
    }
    if (w.grads_fp32 && flags_.On("--ddp-reduce-scatter-with-fp32-accumulation")) {
      Silently("ddp_reduce_scatter_with_fp32_accumulation: on -> off (fp32 gradients)");
    }
    w.per_token_loss = flags_.On("--calculate-per-token-loss");
  }

  std::set<std::string> List(const FlagName& flag) const {
    const Argument* a = flags_.Find(flag);
    return a == nullptr ? std::set<std::string>{}
                        : std::set<std::string>(a->values.begin(), a->values.end());
  }

  void Recompute() {
    Switches& w = job_.switches;
    w.recompute = std::string(flags_.Value("--recompute-granularity"));
    w.recompute_modules = List("--recompute-modules");
    if (flags_.On("--recompute-activations") && w.recompute.empty()) {
      w.recompute = "selective";
      Silently("recompute_granularity: unset -> selective (--recompute-activations)");
    }
    if (flags_.On("--moe-layer-recompute")) {
      w.recompute = "selective";
      w.recompute_modules.insert("moe");
      Silently("recompute_modules: + moe (--moe-layer-recompute)");
    }
    if (w.recompute == "selective" && w.recompute_modules.empty()) {
      w.recompute_modules.insert("core_attn");
    }
    if (w.recompute != "selective") w.recompute_modules.clear();
    w.recompute_method = std::string(flags_.Value("--recompute-method"));
    w.recompute_layers =
        static_cast<int>(std::clamp<std::int64_t>(Int("--recompute-num-layers", 0), -1, 1'000'000));
  }

  void Experts() {
    Switches& w = job_.switches;
    if (job_.shape.experts == 0) return;
    const Text dispatcher = flags_.Value("--moe-token-dispatcher-type");
    w.dispatcher = std::string(dispatcher.empty() ? Text("allgather") : dispatcher);
    if (w.dispatcher == "flex") {
      const Text backend = flags_.Value("--moe-flex-dispatcher-backend");
      w.flex_backend = std::string(backend.empty() ? Text("deepep") : backend);
    }
    w.grouped_gemm = flags_.On("--moe-grouped-gemm");
    w.permute_fusion = flags_.On("--moe-permute-fusion");
    w.router_fusion = flags_.On("--moe-router-fusion");
    w.shared_expert_overlap = flags_.On("--moe-shared-expert-overlap");
    w.ep_overlap = flags_.On("--overlap-moe-expert-parallel-comm");
    w.delay_wgrad = flags_.On("--delay-wgrad-compute");
    w.moe_pad_to_capacity = flags_.On("--moe-pad-expert-input-to-capacity");
    w.forced_balance = flags_.On("--moe-router-force-load-balancing");
    if (flags_.On("--moe-expert-capacity-factor")) {
      const double factor = Real("--moe-expert-capacity-factor", 0);
      if (factor < 0) {
        Silently("moe_expert_capacity_factor: negative -> dropless");
      } else {
        w.capacity_factor = factor;
      }
    }
  }

  void Communication() {
    Switches& w = job_.switches;
    w.distributed_optimizer = flags_.On("--use-distributed-optimizer");
    w.overlap_grad_reduce = flags_.On("--overlap-grad-reduce");
    w.overlap_param_gather = flags_.On("--overlap-param-gather");
    w.tp_comm_overlap = flags_.On("--tp-comm-overlap");
    const bool megatron_fsdp_1 =
        job_.layout.fsdp == "megatron" && flags_.Value("--megatron-fsdp-version") != "2";
    if (megatron_fsdp_1 && !w.distributed_optimizer) {
      w.distributed_optimizer = true;
      Silently("use_distributed_optimizer: off -> on (Megatron-FSDP)");
    }
    if (flags_.On("--freeze-all-layers") && (w.distributed_optimizer || w.overlap_param_gather)) {
      w.distributed_optimizer = w.overlap_param_gather = false;
      Silently("use_distributed_optimizer, overlap_param_gather: on -> off (all layers frozen)");
    }
    static constexpr std::array<Text, 6> kEmerging = {"muon", "dist_muon", "adaptive_muon",
                                                      "lion", "soap",      ""};
    const Text optimizer = flags_.Value("--optimizer");
    if (!optimizer.empty() && w.distributed_optimizer &&
        std::find(kEmerging.begin(), kEmerging.end(), optimizer) != kEmerging.end()) {
      Silently("use_distributed_optimizer: on -> layer-wise (" + std::string(optimizer) + ")");
    }
  }

  void Memory() {
    Switches& w = job_.switches;
    w.optimizer_offload = flags_.On("--optimizer-cpu-offload");
    if (w.optimizer_offload) w.offload_fraction = Real("--optimizer-offload-fraction", 1.0);
    w.activation_offload_layers = static_cast<int>(
        std::clamp<std::int64_t>(Int("--cpu-offloading-num-layers", 0), -1, 1'000'000));
    for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
      const auto it = env_.find(name);
      if (it != env_.end() && it->second.find("expandable_segments:True") != std::string::npos) {
        w.expandable_segments = true;
      }
    }
  }

  void Kernels() {
    Switches& w = job_.switches;
    const Text impl = flags_.Value("--cuda-graph-impl");
    w.cuda_graph = impl == "none" ? std::string() : std::string(impl);
    if (impl.empty() && flags_.On("--enable-cuda-graph")) w.cuda_graph = "local";
    if (impl.empty() && flags_.On("--external-cuda-graph")) w.cuda_graph = "transformer_engine";
    w.cuda_graph_modules = List("--cuda-graph-modules");
    w.cuda_graph_modules.merge(List("--cuda-graph-scope"));
    if ((w.cuda_graph == "local" || w.cuda_graph == "transformer_engine") &&
        !flags_.On("--te-rng-tracker")) {
      Silently("te_rng_tracker: off -> on (CUDA graphs)");
    }
    w.ce_fusion = flags_.On("--cross-entropy-loss-fusion");
    w.grad_accum_fusion = !flags_.On("--no-gradient-accumulation-fusion");
    const Text backend = flags_.Value("--attention-backend");
    w.attention_backend = std::string(backend.empty() ? Text("auto") : backend);
  }

  Flags flags_;
  const Env& env_;
  const Workload& workload_;
  const ModelRow* row_ = nullptr;
  TrainingJob job_;
  Finding finding_;
  bool failed_ = false;
};

}  // namespace

std::variant<TrainingJob, Finding> ResolveMegatron(const Arguments& args, const Env& env,
                                                   const Workload& workload) {
  if (workload.gpus < 1) {
    return Finding{.severity = Severity::kRefuse,
                   .rule = "resolve.missing",
                   .key = "workload.gpus",
                   .was = {},
                   .now = std::to_string(workload.gpus),
                   .why = "workload.gpus must be at least 1"};
  }
  return Resolution(args, env, workload).Run();
}

}  // namespace attune
