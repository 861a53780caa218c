#include "job_keys.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "attune/base/text.h"
#include "attune/model/pipeline_layout.h"

namespace attune::gates {
namespace {

using Text = std::string_view;
using Op = Condition::Op;

// Remainder that never divides by zero: a zero divisor is refused elsewhere.
std::int64_t Mod(std::int64_t a, std::int64_t b) { return b > 0 ? a % b : 0; }

// Compute capability x 10 of a GPU name; nullopt when the name says nothing.
std::optional<std::int64_t> Generation(Text gpu) {
  struct Known {
    Text prefix;
    std::int64_t generation;
  };
  static constexpr Known kKnown[] = {
      {"GB200", 100}, {"GB300", 103}, {"B100", 100}, {"B200", 100}, {"B300", 103},
      {"GH200", 90},  {"H100", 90},   {"H200", 90},  {"H800", 90},  {"H20", 90},
      {"A100", 80},   {"A800", 80},   {"L40", 89},   {"V100", 70},
  };
  for (const Known& k : kKnown) {
    if (gpu.starts_with(k.prefix)) return k.generation;
  }
  return std::nullopt;
}

bool InChoices(Text choices, Text word) {
  while (true) {
    const std::size_t bar = choices.find('|');
    if (choices.substr(0, bar) == word) return true;
    if (bar == Text::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

bool Member(Text set, Text word) {
  while (true) {
    const std::size_t comma = set.find(',');
    if (set.substr(0, comma) == word) return true;
    if (comma == Text::npos) return false;
    set.remove_prefix(comma + 1);
  }
}

bool Has(const KeyValue& v, Text word) {
  if (v.list == nullptr) return Member(v.text, word);
  return std::find(v.list->values.begin(), v.list->values.end(), word) != v.list->values.end();
}

Truth Of(bool b) { return b ? Truth::kTrue : Truth::kFalse; }

bool Ordered(Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kGt:
      return a > b;
    case Op::kGe:
      return a >= b;
    case Op::kIn:
    case Op::kNotIn:
    case Op::kHas:
    case Op::kLacks:
      return false;
  }
  return false;
}

bool Same(const KeyValue& a, const KeyValue& b) {
  if (a.kind != b.kind) return false;
  // Two unknown values are the same one where what they are computed from is the same.
  if (a.kind == KeyValue::Kind::kUnknown) return a.number == b.number;
  if (a.list != nullptr || b.list != nullptr) {
    return a.list != nullptr && b.list != nullptr && a.list->values == b.list->values;
  }
  return a.kind == KeyValue::Kind::kInt ? a.number == b.number : a.text == b.text;
}

}  // namespace

// Fills one JobFacts: the arithmetic of the start-up constraints, once.
class JobFacts::Filler {
 public:
  Filler(JobFacts& out, const TrainingJob& job, const Effective& config, const Recipe& recipe,
         std::int64_t start_samples)
      : out_(out), job_(job), config_(config), recipe_(recipe), start_samples_(start_samples) {}

  void Run() {
    Sizes();
    Split();
    Hybrid();
    Switched();
    Outside();
  }

 private:
  void Int(JobKey key, std::int64_t n) {
    out_.values_[static_cast<std::size_t>(key)] = {KeyValue::Kind::kInt, n, {}, nullptr};
  }
  // `depends`: what is known of its inputs, so that a change of them shows (Touches).
  void Unknown(JobKey key, std::int64_t depends) {
    out_.values_[static_cast<std::size_t>(key)] = {KeyValue::Kind::kUnknown, depends, {}, nullptr};
  }
  void Word(JobKey key, Text text) {
    out_.values_[static_cast<std::size_t>(key)] = {KeyValue::Kind::kText, 0,
                                                   text.empty() ? Text("off") : text, nullptr};
  }
  void On(JobKey key, bool on) { Word(key, on ? "on" : "off"); }
  void Set(JobKey key, const std::set<std::string>& members) {
    if (members.empty()) return Word(key, "off");
    std::string joined;
    for (const std::string& m : members) joined += (joined.empty() ? "" : ",") + m;
    Word(key, out_.Keep(std::move(joined)));
  }
  bool Has(const FlagName& flag) const { return out_.Flag(flag) != nullptr; }
  Text Value(const FlagName& flag) const {
    const Argument* a = out_.Flag(flag);
    return a != nullptr && a->values.size() == 1 ? Text(a->values.front()) : Text();
  }
  std::int64_t IntOf(const FlagName& flag, std::int64_t otherwise) const {
    const std::optional<std::int64_t> n = ParseInt(Value(flag));
    return n ? *n : otherwise;
  }
  // A probability that is on unless it is set to zero: Megatron-LM's default is 0.1.
  bool Positive(const FlagName& flag) const {
    const Text v = Value(flag);
    return v.empty() || CompareDecimal(v, "0") != 0;
  }

  void Sizes() {
    using enum JobKey;
    const Layout& l = job_.layout;
    const Batch& b = job_.batch;
    const ModelShape& s = job_.shape;
    Int(k_world, job_.world);
    Int(k_gpus_per_node, job_.gpus_per_node);
    Int(k_tp, l.tp);
    Int(k_pp, l.pp);
    Int(k_cp, l.cp);
    Int(k_ep, l.ep);
    Int(k_etp, l.etp);
    Int(k_dp, l.dp);
    Int(k_vp, l.vp);
    Int(k_expert_dp, l.expert_dp);
    Int(k_instances, l.dist_opt_instances);
    On(k_weight_shards, IntOf("--tensor-parallel-num-weight-shards", l.tp) > l.tp ||
                            IntOf("--expert-tensor-parallel-num-weight-shards", l.etp) > l.etp);
    Int(k_layers, s.layers);
    Int(k_experts, s.experts);
    Int(k_mtp_layers, s.mtp_layers);
    const std::int64_t unit = IntOf("--make-vocab-size-divisible-by", 128) * l.tp;
    s.vocab > 0 ? Int(k_vocab_mod_tp, Mod(s.vocab, l.tp)) : Unknown(k_vocab_mod_tp, l.tp);
    b.padded_vocab > 0 ? Int(k_padded_vocab, b.padded_vocab) : Unknown(k_padded_vocab, unit);
    Int(k_gbs, b.gbs);
    Int(k_mbs, b.mbs);
    Int(k_microbatches, b.microbatches);
    Int(k_heads_mod_tp, Mod(s.heads, l.tp));
    Int(k_kv_mod_tp, Mod(s.kv_groups, l.tp));
    Int(k_tp_mod_kv, Mod(l.tp, s.kv_groups));
    Int(k_experts_mod_ep, Mod(s.experts, l.ep));
    Int(k_seq_mod_2cp, Mod(b.seq_len, 2LL * l.cp));
    Int(k_heads_mod_tp_cp, Mod(s.heads, 1LL * l.tp * l.cp));
    Int(k_dp_cp_mod_instances, Mod(1LL * l.dp * l.cp, l.dist_opt_instances));
    Int(k_expert_dp_mod_instances, Mod(l.expert_dp, l.dist_opt_instances));
    const std::int64_t eval_mbs = IntOf("--eval-micro-batch-size", b.mbs);
    Int(k_eval_remainder, Mod(IntOf("--eval-global-batch-size", b.gbs), eval_mbs * l.dp));
    const Text variant = Value("--experimental-attention-variant");
    const bool delta = variant.starts_with("gdn") || variant == "gated_delta_net";
    On(k_delta_net, delta);
    const std::int64_t keys = IntOf("--linear-num-key-heads", 16);
    const std::int64_t values = IntOf("--linear-num-value-heads", 32);
    Int(k_delta_net_remainder, Mod(keys, 1LL * l.tp * l.cp) + Mod(values, 1LL * l.tp * l.cp));
    const Argument* comm = out_.Flag("--cp-comm-type");
    Int(k_cp_comm_entries, comm == nullptr ? 0 : static_cast<std::int64_t>(comm->values.size()));
    std::int64_t product = 0;
    if (const Argument* sizes = out_.Flag("--hierarchical-context-parallel-sizes")) {
      product = 1;
      for (const std::string& size : sizes->values) product *= ParseInt(size).value_or(0);
    }
    Int(k_cp_hier_product, product);
  }

  void Split() {
    using enum JobKey;
    const Layout& l = job_.layout;
    const std::int64_t layers = job_.shape.layers;
    const std::int64_t first = l.first_layers.value_or(0), last = l.last_layers.value_or(0);
    const bool edges = l.first_layers || l.last_layers;
    const bool laid_out = !l.pipeline_layout.empty();
    Int(k_first_layers, first);
    Int(k_last_layers, last);
    On(k_edges, edges);
    On(k_accounts, l.account_embedding || l.account_loss);
    On(k_uneven, edges || laid_out);
    Int(k_vpp_options, (Has("--num-layers-per-virtual-pipeline-stage") ? 1 : 0) +
                           (Has("--num-virtual-stages-per-pipeline-rank") ? 1 : 0) +
                           (laid_out ? 1 : 0));
    Word(k_layout_error, laid_out
                             ? out_.Keep(PipelineLayoutError(ParsePipelineLayout(l.pipeline_layout),
                                                             l.pp, layers, job_.shape.mtp_layers))
                             : Text());
    Int(k_first_mod_vp, Mod(first, l.vp));
    Int(k_last_mod_vp, Mod(last, l.vp));
    const std::int64_t stages = l.pp - (l.first_layers ? 1 : 0) - (l.last_layers ? 1 : 0);
    const std::int64_t middle = layers - first - last;
    Int(k_middle_layers, middle);
    Int(k_middle_stages, stages);
    Int(k_middle_mod_stages, Mod(middle, stages));
    Int(k_middle_rank_mod_vp, stages > 0 ? Mod(middle / stages, l.vp) : 0);
    const std::int64_t counted = layers + (l.account_embedding ? 1 : 0) + (l.account_loss ? 1 : 0);
    Int(k_split_remainder, Mod(counted, l.pp));
    Int(k_even_vp_remainder, Mod(counted / l.pp, l.vp));
    const std::int64_t group = IntOf("--microbatch-group-size-per-virtual-pipeline-stage", l.pp);
    Int(k_group_size, group);
    Int(k_m_mod_group, Mod(job_.batch.microbatches, group));
    const std::int64_t first_stage = l.first_layers ? first : layers / l.pp;
    On(k_dense_only_stage,
       l.vp == 1 && !laid_out && first_stage > 0 && job_.shape.dense_layers >= first_stage);
    std::int64_t fullest = (counted + l.pp - 1) / l.pp;
    if (edges) fullest = std::max({first, last, stages > 0 ? middle / stages : 0});
    if (laid_out) fullest = layers;
    Int(k_stage_layers, fullest);
    Word(k_stage_split, out_.Keep(std::to_string(first) + "/" + std::to_string(last) + "/" +
                                  (l.account_embedding ? "e" : "") + (l.account_loss ? "l" : "") +
                                  "/" + l.pipeline_layout));
  }

  void Hybrid() {
    using enum JobKey;
    const std::string& pattern = job_.shape.hybrid_pattern;
    const Text main = Text(pattern).substr(0, pattern.find('/'));
    const std::int64_t pipes = std::count(main.begin(), main.end(), '|');
    On(k_hybrid, !pattern.empty());
    Int(k_hybrid_pipes, pipes);
    Int(k_hybrid_segments_mod_pp, Mod(pipes + 1, job_.layout.pp));
  }

  void Switched() {
    using enum JobKey;
    const Switches& w = job_.switches;
    On(k_sequence_parallel, job_.layout.sequence_parallel);
    On(k_overlap_p2p, w.overlap_p2p);
    Word(k_fsdp, job_.layout.fsdp);
    Word(k_dispatcher, w.dispatcher);
    Word(k_flex_backend, w.flex_backend);
    Word(k_recompute, w.recompute);
    Word(k_recompute_method, w.recompute_method);
    Int(k_recompute_layers, w.recompute_layers);
    Set(k_recompute_modules, w.recompute_modules);
    On(k_grouped_gemm, w.grouped_gemm);
    On(k_permute_fusion, w.permute_fusion);
    On(k_router_fusion, w.router_fusion);
    On(k_ce_fusion, w.ce_fusion);
    On(k_grad_accum_fusion, w.grad_accum_fusion);
    On(k_distributed_optimizer, w.distributed_optimizer);
    On(k_overlap_grad_reduce, w.overlap_grad_reduce);
    On(k_overlap_param_gather, w.overlap_param_gather);
    On(k_tp_comm_overlap, w.tp_comm_overlap);
    On(k_ep_overlap, w.ep_overlap);
    On(k_shared_expert_overlap, w.shared_expert_overlap);
    On(k_delay_wgrad, w.delay_wgrad);
    On(k_optimizer_offload, w.optimizer_offload);
    Int(k_activation_offload_layers, w.activation_offload_layers);
    Word(k_cuda_graph, w.cuda_graph);
    Set(k_cuda_graph_modules, w.cuda_graph_modules);
    Word(k_precision, out_.Keep(PrecisionSet(w.precision)));
    On(k_grads_fp32, w.grads_fp32);
    On(k_per_token_loss, w.per_token_loss);
    Word(k_attention_backend, w.attention_backend);
    On(k_mla, job_.shape.mla);
    On(k_tied_embeddings, job_.shape.tied_embeddings);
    On(k_linear_bias, !Has("--disable-bias-linear"));
    On(k_dropout, Positive("--attention-dropout") || Positive("--hidden-dropout"));
    On(k_moe_pad, w.moe_pad_to_capacity);
    const Text optimizer = Value("--optimizer");
    Word(k_optimizer, optimizer.empty() ? Text("adam") : optimizer);
    On(k_optimizer_state, !Has("--no-load-optim") && !Has("--finetune"));
    const Argument* aux = out_.Flag("--moe-aux-loss-coeff");
    On(k_aux_loss, aux != nullptr && std::any_of(aux->values.begin(), aux->values.end(),
                                                 [](const std::string& v) {
                                                   return CompareDecimal(v, "0") != 0;
                                                 }));
    On(k_gloo, !Has("--disable-gloo-process-groups"));
  }
  // "bf16+fp8:delayed" as the set bf16, fp8, fp8:delayed.
  static std::string PrecisionSet(Text precision) {
    const std::size_t plus = precision.find('+');
    if (plus == Text::npos) return std::string(precision);
    const Text low = precision.substr(plus + 1);
    return std::string(precision.substr(0, plus)) + "," +
           std::string(low.substr(0, low.find(':'))) + "," + std::string(low);
  }

  void Outside() {
    using enum JobKey;
    On(k_load, Has("--load"));
    const Text format = Value("--ckpt-format");
    Word(k_ckpt_format, format.empty() ? Text("torch_dist") : format);
    const Text loader = Value("--dataloader-type");
    Word(k_dataloader, loader.empty() ? Text("single") : loader);
    Word(k_order, recipe_.workload.order);
    Word(k_loss_mask, recipe_.workload.loss_mask);
    RampUp();
    On(k_variable_rows, recipe_.workload.variable_rows);
    const auto network = recipe_.stack.find("network");
    if (network != recipe_.stack.end()) Word(k_network, network->second);
    if (const auto generation = Generation(job_.gpu)) Int(k_gpu_generation, *generation);
    Int(k_max_connections, EnvInt("CUDA_DEVICE_MAX_CONNECTIONS"));
    On(k_expandable_segments, EnvIs("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True") ||
                                  EnvIs("PYTORCH_ALLOC_CONF", "expandable_segments:True"));
    // Racks of these GPUs are one NVLink domain; elsewhere it is the node.
    const bool rack = job_.gpu.starts_with("GB200") || job_.gpu.starts_with("GB300");
    On(k_tp_span_domain, job_.layout.tp > (rack ? 72 : job_.gpus_per_node));
    On(k_ep_span_nodes, 1LL * job_.layout.ep * job_.layout.etp > job_.gpus_per_node);
    VersionOf(k_te, "te");
    VersionOf(k_torch, "torch");
    VersionOf(k_ofi_nccl, "ofi_nccl");
  }
  void RampUp() {
    const Argument* ramp = out_.Flag("--rampup-batch-size");
    if (ramp == nullptr) return On(JobKey::k_rampup_open, false);
    const std::optional<std::int64_t> samples =
        ramp->values.size() == 3 ? ParseInt(ramp->values[2]) : std::nullopt;
    if (!samples || start_samples_ < 0) return;
    On(JobKey::k_rampup_open, start_samples_ < *samples);
  }
  std::int64_t EnvInt(const char* name) const {
    const auto it = config_.env.find(name);
    return it == config_.env.end() ? 0 : ParseInt(it->second).value_or(0);
  }
  bool EnvIs(const char* name, Text value) const {
    const auto it = config_.env.find(name);
    return it != config_.env.end() && it->second == value;
  }
  void VersionOf(JobKey key, const char* name) {
    const auto it = recipe_.stack.find(name);
    if (it == recipe_.stack.end()) return;
    if (const std::optional<std::int64_t> v = ParseVersion(it->second)) Int(key, *v);
  }

  JobFacts& out_;
  const TrainingJob& job_;
  const Effective& config_;
  const Recipe& recipe_;
  std::int64_t start_samples_;
};

void JobFacts::Fill(const TrainingJob& job, const Effective& config, const Recipe& recipe,
                    std::int64_t start_samples) {
  flags_.emplace(config.args);
  env_ = &config.env;
  Filler(*this, job, config, recipe, start_samples).Run();
}

std::string_view JobFacts::Keep(std::string text) { return kept_.emplace_back(std::move(text)); }

KeyValue JobFacts::Get(const Condition::Term& term) const {
  switch (term.source) {
    case Condition::Source::kJob:
      return values_[static_cast<std::size_t>(term.key)];
    case Condition::Source::kFlag: {
      const Argument* a = flags_->Find(term.flag);
      KeyValue v{KeyValue::Kind::kText, 0, "off", nullptr};
      if (a == nullptr) return v;
      v.text = a->values.empty() ? Text("on") : a->values.size() == 1 ? Text(a->values[0]) : Text();
      if (a->values.size() > 1) v.list = a;
      return v;
    }
    case Condition::Source::kEnv: {
      const auto it = env_->find(std::string(term.name));
      return {KeyValue::Kind::kText, 0, it == env_->end() ? Text("off") : Text(it->second),
              nullptr};
    }
  }
  return {};
}

Truth Evaluate(const Condition& c, const JobFacts& now, const JobFacts* was) {
  const auto read = [&](const Condition::Term& t) {
    if (!t.was) return now.Get(t);
    return was == nullptr ? KeyValue{} : was->Get(t);
  };
  const KeyValue left = read(c.left);
  if (left.kind == KeyValue::Kind::kUnknown) return Truth::kUnknown;
  if (c.right_is_key) {
    const KeyValue right = read(c.right);
    if (right.kind == KeyValue::Kind::kUnknown) return Truth::kUnknown;
    if (left.kind == KeyValue::Kind::kInt && right.kind == KeyValue::Kind::kInt) {
      return Of(Ordered(c.op, left.number, right.number));
    }
    return Of(c.op == Op::kEq ? Same(left, right) : !Same(left, right));
  }
  switch (c.op) {
    case Op::kEq:
    case Op::kNe: {
      const bool same = left.kind == KeyValue::Kind::kInt
                            ? c.is_number && left.number == c.number
                            : left.list == nullptr && left.text == c.text;
      return Of(same == (c.op == Op::kEq));
    }
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
      return Of(left.kind == KeyValue::Kind::kInt && Ordered(c.op, left.number, c.number));
    case Op::kIn:
      return Of(left.list == nullptr && InChoices(c.text, left.text));
    case Op::kNotIn:
      return Of(left.list != nullptr || !InChoices(c.text, left.text));
    case Op::kHas:
      return Of(Has(left, c.text));
    case Op::kLacks:
      return Of(left.text != "off" && !Has(left, c.text));
  }
  return Truth::kUnknown;
}

Truth EvaluateAll(std::span<const Condition> when, const JobFacts& now, const JobFacts* was) {
  Truth all = Truth::kTrue;
  for (const Condition& c : when) {
    const Truth t = Evaluate(c, now, was);
    if (t == Truth::kFalse) return Truth::kFalse;
    if (t == Truth::kUnknown) all = Truth::kUnknown;
  }
  return all;
}

bool Touches(std::span<const Condition> when, const JobFacts& now, const JobFacts& was) {
  const auto moved = [&](const Condition::Term& t) { return !Same(now.Get(t), was.Get(t)); };
  return std::any_of(when.begin(), when.end(), [&](const Condition& c) {
    return moved(c.left) || (c.right_is_key && moved(c.right));
  });
}

std::string FirstUnknown(std::span<const Condition> when, const JobFacts& now,
                         const JobFacts* was) {
  for (const Condition& c : when) {
    if (Evaluate(c, now, was) != Truth::kUnknown) continue;
    const KeyValue left =
        c.left.was ? (was == nullptr ? KeyValue{} : was->Get(c.left)) : now.Get(c.left);
    return std::string(left.kind == KeyValue::Kind::kUnknown ? c.left.name : c.right.name);
  }
  return {};
}

std::optional<std::int64_t> ParseVersion(std::string_view text) {
  std::int64_t v[3] = {0, 0, 0};
  std::size_t part = 0;
  for (Text word : Split(text, '.')) {
    // What follows the third part ("2.8.0.dev1", "2.11.0+cu129") does not order releases here.
    if (part == 3) break;
    const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
    if (digits == 0 || digits > 4 || (digits < word.size() && part < 2)) return std::nullopt;
    v[part++] = std::stoll(std::string(word.substr(0, digits)));
  }
  return v[0] * 1'000'000 + v[1] * 1000 + v[2];
}

std::optional<std::int64_t> ParseDate(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 4 || i == 7) continue;
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    n = n * 10 + (text[i] - '0');
  }
  return n;
}

}  // namespace attune::gates
