// Conditions over a resolved job.
#include "condition.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <variant>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/skill/skill.h"

namespace attune {
namespace {

using Value = std::variant<double, std::string, const std::set<std::string>*>;

struct Key {
  std::string_view name;
  Value (*get)(const TrainingJob&);
};

Value Flag(bool on) { return std::string(on ? "on" : "off"); }
Value Number(std::int64_t n) { return static_cast<double>(n); }

const std::array kKeys = {
    Key{"activation_offload_layers",
        [](const TrainingJob& j) { return Number(j.switches.activation_offload_layers); }},
    Key{"attention_backend",
        [](const TrainingJob& j) -> Value { return j.switches.attention_backend; }},
    Key{"ce_fusion", [](const TrainingJob& j) { return Flag(j.switches.ce_fusion); }},
    Key{"cp", [](const TrainingJob& j) { return Number(j.layout.cp); }},
    Key{"cuda_graph",
        [](const TrainingJob& j) -> Value {
          return j.switches.cuda_graph.empty() ? std::string("off") : j.switches.cuda_graph;
        }},
    Key{"delay_wgrad", [](const TrainingJob& j) { return Flag(j.switches.delay_wgrad); }},
    Key{"dispatcher",
        [](const TrainingJob& j) -> Value {
          return j.switches.dispatcher.empty() ? std::string("off") : j.switches.dispatcher;
        }},
    Key{"distributed_optimizer",
        [](const TrainingJob& j) { return Flag(j.switches.distributed_optimizer); }},
    Key{"dp", [](const TrainingJob& j) { return Number(j.layout.dp); }},
    Key{"ep", [](const TrainingJob& j) { return Number(j.layout.ep); }},
    Key{"ep_overlap", [](const TrainingJob& j) { return Flag(j.switches.ep_overlap); }},
    Key{"etp", [](const TrainingJob& j) { return Number(j.layout.etp); }},
    Key{"experts", [](const TrainingJob& j) { return Number(j.shape.experts); }},
    Key{"flex_backend",
        [](const TrainingJob& j) -> Value {
          return j.switches.flex_backend.empty() ? std::string("off") : j.switches.flex_backend;
        }},
    Key{"fsdp",
        [](const TrainingJob& j) -> Value {
          return j.layout.fsdp.empty() ? std::string("off") : j.layout.fsdp;
        }},
    Key{"grouped_gemm", [](const TrainingJob& j) { return Flag(j.switches.grouped_gemm); }},
    Key{"hybrid", [](const TrainingJob& j) { return Flag(!j.shape.hybrid_pattern.empty()); }},
    Key{"mbs", [](const TrainingJob& j) { return Number(j.batch.mbs); }},
    Key{"microbatches", [](const TrainingJob& j) { return Number(j.batch.microbatches); }},
    Key{"mla", [](const TrainingJob& j) { return Flag(j.shape.mla); }},
    Key{"mtp_layers", [](const TrainingJob& j) { return Number(j.shape.mtp_layers); }},
    Key{"nodes",
        [](const TrainingJob& j) {
          return Number((j.world + j.gpus_per_node - 1) / std::max(1, j.gpus_per_node));
        }},
    Key{"optimizer_offload",
        [](const TrainingJob& j) { return Flag(j.switches.optimizer_offload); }},
    Key{"overlap_grad_reduce",
        [](const TrainingJob& j) { return Flag(j.switches.overlap_grad_reduce); }},
    Key{"overlap_param_gather",
        [](const TrainingJob& j) { return Flag(j.switches.overlap_param_gather); }},
    Key{"permute_fusion", [](const TrainingJob& j) { return Flag(j.switches.permute_fusion); }},
    Key{"pp", [](const TrainingJob& j) { return Number(j.layout.pp); }},
    Key{"recompute",
        [](const TrainingJob& j) -> Value {
          return j.switches.recompute.empty() ? std::string("off") : j.switches.recompute;
        }},
    Key{"recompute_modules",
        [](const TrainingJob& j) -> Value { return &j.switches.recompute_modules; }},
    Key{"seq_len", [](const TrainingJob& j) { return Number(j.batch.seq_len); }},
    Key{"shared_experts", [](const TrainingJob& j) { return Flag(j.shape.shared_ffn > 0); }},
    Key{"shared_expert_overlap",
        [](const TrainingJob& j) { return Flag(j.switches.shared_expert_overlap); }},
    Key{"tp", [](const TrainingJob& j) { return Number(j.layout.tp); }},
    Key{"tp_comm_overlap", [](const TrainingJob& j) { return Flag(j.switches.tp_comm_overlap); }},
    Key{"vp", [](const TrainingJob& j) { return Number(j.layout.vp); }},
};

const Key* FindKey(std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

struct Operator {
  std::string_view text;
  JobCondition::Op op;
};
using enum JobCondition::Op;
constexpr std::array kOperators = {
    Operator{"=", kEq}, Operator{"!=", kNe}, Operator{"<", kLt},    Operator{"<=", kLe},
    Operator{">", kGt}, Operator{">=", kGe}, Operator{"has", kHas}, Operator{"lacks", kLacks}};

bool Compare(JobCondition::Op op, double a, double b) {
  switch (op) {
    case kEq:
      return a == b;
    case kNe:
      return a != b;
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kGe:
      return a >= b;
    case kHas:
    case kLacks:
      break;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> JobConditionKeys() {
  std::vector<std::string_view> names;
  for (const Key& key : kKeys) names.push_back(key.name);
  return names;
}

bool JobCondition::Holds(const TrainingJob& job) const {
  const Key* found = FindKey(key);
  ATTUNE_CHECK(found != nullptr, "conditions are checked when they are read");
  const Value now = found->get(job);
  if (const auto* number = std::get_if<double>(&now)) {
    return Compare(op, *number, ParseDouble(value).value_or(0));
  }
  if (const auto* set = std::get_if<const std::set<std::string>*>(&now)) {
    return (*set)->contains(value) == (op == kHas);
  }
  return (std::get<std::string>(now) == value) == (op == kEq);
}

std::string JobCondition::Text() const {
  for (const Operator& o : kOperators) {
    if (o.op == op) return fmt::format("{} {} {}", key, o.text, value);
  }
  return {};
}

namespace skill {

std::optional<JobCondition> ParseCondition(std::string_view text, std::string& why) {
  const std::vector<std::string_view> words = Split(text, ' ');
  if (words.size() != 3) {
    why = "a condition is 'key operator value'";
    return std::nullopt;
  }
  const Key* key = FindKey(words[0]);
  if (key == nullptr) {
    why = fmt::format("no key '{}'", EscapeForDisplay(words[0], 40));
    return std::nullopt;
  }
  JobCondition c;
  c.key = std::string(words[0]);
  c.value = std::string(words[2]);
  bool known = false;
  for (const Operator& o : kOperators) {
    if (o.text != words[1]) continue;
    c.op = o.op;
    known = true;
  }
  const Value kind = key->get(TrainingJob{});
  const bool number = std::holds_alternative<double>(kind);
  const bool set = std::holds_alternative<const std::set<std::string>*>(kind);
  const bool fits = number ? c.op != kHas && c.op != kLacks && ParseDouble(words[2]).has_value()
                    : set  ? c.op == kHas || c.op == kLacks
                           : c.op == kEq || c.op == kNe;
  if (!known || !fits) {
    why = fmt::format("'{}' does not go with {}",
                      EscapeForDisplay(text.substr(words[0].size()), 40), words[0]);
    return std::nullopt;
  }
  return c;
}

}  // namespace skill
}  // namespace attune
