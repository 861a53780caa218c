#include "condition.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "attune/base/text.h"

namespace attune::sim {
namespace {

bool Take(std::string_view& rest, std::string_view literal) {
  if (!rest.starts_with(literal)) return false;
  rest.remove_prefix(literal.size());
  return true;
}

double Flag(bool on) { return on ? 1 : 0; }

int Edge(const TrainingJob& job, const std::optional<int>& given) {
  const int stages = std::max(job.layout.pp, 1);
  return given.value_or(static_cast<int>(job.shape.layers) / stages);
}

constexpr std::array kFeatures = {
    FeatureRow{"tp", [](const TrainingJob& j) { return double(j.layout.tp); }, "tensor parallel"},
    FeatureRow{"pp", [](const TrainingJob& j) { return double(j.layout.pp); }, "pipeline parallel"},
    FeatureRow{"ep", [](const TrainingJob& j) { return double(j.layout.ep); }, "expert parallel"},
    FeatureRow{"etp", [](const TrainingJob& j) { return double(j.layout.etp); },
               "expert-tensor parallel"},
    FeatureRow{"cp", [](const TrainingJob& j) { return double(j.layout.cp); }, "context parallel"},
    FeatureRow{"dp", [](const TrainingJob& j) { return double(j.layout.dp); }, "data parallel"},
    FeatureRow{"vp", [](const TrainingJob& j) { return double(j.layout.vp); }, "virtual stages"},
    FeatureRow{"mbs", [](const TrainingJob& j) { return double(j.batch.mbs); }, "micro-batch rows"},
    FeatureRow{"microbatches", [](const TrainingJob& j) { return double(j.batch.microbatches); },
               "micro-batches of a step and pipeline"},
    FeatureRow{"world", [](const TrainingJob& j) { return double(j.world); }, "GPUs"},
    FeatureRow{"experts", [](const TrainingJob& j) { return double(j.shape.experts); },
               "routed experts; 0: dense"},
    FeatureRow{"layers_per_stage",
               [](const TrainingJob& j) {
                 return double(j.shape.layers) / std::max(1, j.layout.pp * j.layout.vp);
               },
               "layers of one virtual stage"},
    FeatureRow{
        "ep_spans_nodes",
        [](const TrainingJob& j) { return Flag(j.layout.ep * j.layout.etp > j.gpus_per_node); },
        "the expert group is larger than a node"},
    FeatureRow{"tp_cp", [](const TrainingJob& j) { return double(j.layout.tp * j.layout.cp); },
               "ranks that share a sequence"},
    FeatureRow{"uneven",
               [](const TrainingJob& j) {
                 return Flag(j.layout.first_layers || j.layout.last_layers ||
                             !j.layout.pipeline_layout.empty());
               },
               "stages are given unequal layers"},
    FeatureRow{"edge_layers",
               [](const TrainingJob& j) {
                 return double(Edge(j, j.layout.first_layers) - Edge(j, j.layout.last_layers));
               },
               "layers of the first stage less those of the last"},
    FeatureRow{"flex", [](const TrainingJob& j) { return Flag(j.switches.dispatcher == "flex"); },
               "DeepEP or HybridEP dispatcher"},
    FeatureRow{"allgather",
               [](const TrainingJob& j) { return Flag(j.switches.dispatcher == "allgather"); },
               "all-gather dispatcher"},
    FeatureRow{"full_recompute",
               [](const TrainingJob& j) { return Flag(j.switches.recompute == "full"); },
               "whole layers are recomputed"},
    FeatureRow{"recompute_moe",
               [](const TrainingJob& j) {
                 return Flag(j.switches.recompute_modules.contains("moe") ||
                             j.switches.recompute_modules.contains("moe_act"));
               },
               "experts or their activation are recomputed"},
    FeatureRow{"recompute_modules",
               [](const TrainingJob& j) {
                 return j.switches.recompute == "selective"
                            ? double(j.switches.recompute_modules.size())
                            : 0.0;
               },
               "modules that are recomputed"},
    FeatureRow{"grad_overlap",
               [](const TrainingJob& j) { return Flag(j.switches.overlap_grad_reduce); },
               "gradient reduction is overlapped"},
    FeatureRow{"param_overlap",
               [](const TrainingJob& j) { return Flag(j.switches.overlap_param_gather); },
               "parameter gathering is overlapped"},
    FeatureRow{"tp_overlap", [](const TrainingJob& j) { return Flag(j.switches.tp_comm_overlap); },
               "tensor-parallel communication is overlapped"},
    FeatureRow{"ep_overlap", [](const TrainingJob& j) { return Flag(j.switches.ep_overlap); },
               "expert all-to-all is overlapped"},
    FeatureRow{"shared_overlap",
               [](const TrainingJob& j) { return Flag(j.switches.shared_expert_overlap); },
               "the shared expert is overlapped"},
    FeatureRow{"delay_wgrad", [](const TrainingJob& j) { return Flag(j.switches.delay_wgrad); },
               "weight gradients are delayed"},
    FeatureRow{"graphs", [](const TrainingJob& j) { return Flag(!j.switches.cuda_graph.empty()); },
               "CUDA graphs"},
    FeatureRow{"offload", [](const TrainingJob& j) { return Flag(j.switches.optimizer_offload); },
               "optimizer on the host"},
    FeatureRow{"permute_fusion",
               [](const TrainingJob& j) { return Flag(j.switches.permute_fusion); },
               "fused permutation"},
    FeatureRow{"sequence_parallel",
               [](const TrainingJob& j) { return Flag(j.layout.sequence_parallel); },
               "sequence parallelism"},
    FeatureRow{"hybrid", [](const TrainingJob& j) { return Flag(!j.shape.hybrid_pattern.empty()); },
               "state-space hybrid"},
    FeatureRow{"fsdp", [](const TrainingJob& j) { return Flag(!j.layout.fsdp.empty()); }, "FSDP"},
    FeatureRow{"fp8",
               [](const TrainingJob& j) {
                 return Flag(j.switches.precision.find("fp8") != std::string::npos);
               },
               "FP8"},
};

}  // namespace

std::span<const FeatureRow> Features() { return kFeatures; }

Result<Condition> ParseCondition(std::string_view text) {
  const std::size_t name_end = text.find_first_of("<>=!");
  if (name_end == std::string_view::npos) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no condition", EscapeForDisplay(text, 60)),
                "write FEATURE=N, FEATURE!=N, FEATURE>=N or FEATURE<=N");
  }
  const std::string_view name = Trim(text.substr(0, name_end));
  std::string_view rest = text.substr(name_end);
  Condition c;
  if (Take(rest, ">=")) {
    c.op = Condition::Op::kLeast;
  } else if (Take(rest, "<=")) {
    c.op = Condition::Op::kMost;
  } else if (Take(rest, "!=")) {
    c.op = Condition::Op::kUnequal;
  } else if (!Take(rest, "=")) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no condition", EscapeForDisplay(text, 60)),
                "write FEATURE=N, FEATURE!=N, FEATURE>=N or FEATURE<=N");
  }
  const auto row = std::find_if(kFeatures.begin(), kFeatures.end(),
                                [&](const FeatureRow& r) { return r.name == name; });
  if (row == kFeatures.end()) {
    std::vector<std::string> names;
    for (const FeatureRow& r : kFeatures) names.emplace_back(r.name);
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no property of a job", EscapeForDisplay(name, 40)),
                "known: " + Join(names, ", "));
  }
  const std::optional<double> value = ParseDouble(Trim(rest));
  if (!value) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' needs a number", EscapeForDisplay(text, 60)));
  }
  c.feature = &*row;
  c.value = *value;
  return c;
}

std::string Show(const Condition& c) {
  constexpr std::string_view kOps[] = {"=", "!=", ">=", "<="};
  return fmt::format("{}{}{}", c.feature->name, kOps[static_cast<std::size_t>(c.op)], c.value);
}

bool Holds(const Condition& c, const TrainingJob& job) {
  const double x = c.feature->value(job);
  switch (c.op) {
    case Condition::Op::kEqual:
      return x == c.value;
    case Condition::Op::kUnequal:
      return x != c.value;
    case Condition::Op::kLeast:
      return x >= c.value;
    case Condition::Op::kMost:
      return x <= c.value;
  }
  return false;
}

bool HoldAll(std::span<const Condition> conditions, const TrainingJob& job) {
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const Condition& c) { return Holds(c, job); });
}

}  // namespace attune::sim
