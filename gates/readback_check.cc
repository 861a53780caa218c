#include "attune/gates/readback_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "attune/base/text.h"

namespace attune {
namespace {

Finding Refusal(std::string rule, std::string key, std::string was, std::string now,
                std::string why) {
  return {.severity = Severity::kRefuse,
          .rule = "readback." + std::move(rule),
          .key = std::move(key),
          .was = std::move(was),
          .now = std::move(now),
          .why = std::move(why)};
}

// What the two blocks print for one key; nullptr: nothing.
struct Printed {
  const std::string *was = nullptr, *now = nullptr;
};

// A key whose printed value we know beforehand.
void CheckKnown(const std::string& key, Printed printed, const std::string& wanted,
                std::vector<Finding>& findings) {
  const auto& [was, now] = printed;
  const std::string before = was == nullptr ? "" : *was;
  if (now == nullptr) {
    findings.push_back(Refusal("missing", key, before, "",
                               fmt::format("{} is not printed, {} was intended", key, wanted)));
  } else if (!SameBlockValue(*now, wanted)) {
    findings.push_back(
        Refusal("value", key, before, *now,
                fmt::format("the job runs with {} = {}, {} was intended", key, *now, wanted)));
  }
}

void CheckOther(const std::string& key, Printed printed, std::vector<Finding>& findings) {
  const auto& [was, now] = printed;
  if (was == nullptr) {
    findings.push_back(
        Refusal("added", key, "", *now,
                fmt::format("{} = {} is printed by the candidate alone", key, *now)));
  } else if (now == nullptr) {
    findings.push_back(
        Refusal("missing", key, *was, "", fmt::format("{} is printed by the baseline alone", key)));
  } else if (!SameBlockValue(*now, *was)) {
    findings.push_back(Refusal(
        "unexplained", key, *was, *now,
        fmt::format("{} was {} and is {}, and nothing in the change says so", key, *was, *now)));
  }
}

// `intended`: set when the change names the key; without a value: its value is the framework's.
void CheckKey(const ReadbackInput& input, const std::string& key, Printed printed,
              const std::optional<std::string>* intended, std::vector<Finding>& findings) {
  if (intended != nullptr) {
    if (*intended) {
      CheckKnown(key, printed, **intended, findings);
    } else {
      findings.push_back({.severity = Severity::kNote,
                          .rule = "readback.default",
                          .key = key,
                          .was = {},
                          .now = {},
                          .why = key + " was unset: the framework's default is not known here"});
    }
  } else if (const auto set = input.instrumented.find(key); set != input.instrumented.end()) {
    CheckKnown(key, printed, set->second, findings);
  } else if (const auto rule = input.derived.find(key); rule != input.derived.end()) {
    // A version that does not print the key derives nothing from it that we could read.
    CheckKnown(key, printed, rule->second, findings);
  } else if (!input.per_launch.contains(key)) {
    CheckOther(key, printed, findings);
  }
}

std::string Bool(bool b) { return b ? "True" : "False"; }

}  // namespace

ReadbackVerdict CheckReadback(const ReadbackInput& input, const Thresholds&) {
  ReadbackVerdict result;
  if (input.baseline == nullptr || input.candidate == nullptr || input.baseline->empty() ||
      input.candidate->empty()) {
    // The other checks decide; without a block this one says nothing, and the strength is basic.
    result.verdict = VerdictOf({{.severity = Severity::kNote,
                                 .rule = "readback.not_available",
                                 .key = {},
                                 .was = {},
                                 .now = {},
                                 .why = "the job prints no argument block"}});
    return result;
  }
  result.available = true;
  std::vector<Finding> findings;
  // In the order of keys, walking the three maps side by side: blocks have hundreds of lines, and a
  // run is looked at often.
  auto was = input.baseline->begin();
  auto now = input.candidate->begin();
  auto intended = input.intended.begin();
  for (;;) {
    const std::string* key = nullptr;
    const auto first = [&](const auto& at, const auto& end) {
      if (at != end && (key == nullptr || at->first < *key)) key = &at->first;
    };
    first(was, input.baseline->end());
    first(now, input.candidate->end());
    first(intended, input.intended.end());
    if (key == nullptr) break;
    const std::string& here = *key;
    Printed printed;
    if (was != input.baseline->end() && was->first == here) printed.was = &(was++)->second;
    if (now != input.candidate->end() && now->first == here) printed.now = &(now++)->second;
    const std::optional<std::string>* wanted = nullptr;
    if (intended != input.intended.end() && intended->first == here) {
      wanted = &(intended++)->second;
    }
    CheckKey(input, here, printed, wanted, findings);
  }
  result.verdict = VerdictOf(std::move(findings));
  return result;
}

GateVerdict CheckPrintedSteps(std::span<const Step> steps, const Calibration& calibration) {
  std::vector<Finding> findings;
  const auto compare = [&](const char* rule, const Step& step, const auto& was, const auto& now) {
    if (!was || (now && *now == *was)) {
      return false;
    }
    findings.push_back(
        Refusal(rule, rule, fmt::format("{}", *was), now ? fmt::format("{}", *now) : std::string(),
                fmt::format("iteration {}: the baseline prints another {}", step.iteration, rule)));
    return true;
  };
  const std::size_t shared = std::min(steps.size(), calibration.steps.size());
  for (std::size_t n = 0; n < shared; ++n) {
    const Calibration::StepReference& was = calibration.steps[n];
    const Step& now = steps[n];
    const bool differs =
        compare("learning_rate", now, was.learning_rate, now.learning_rate) |
        compare("global_batch", now, was.global_batch, now.global_batch) |
        compare("consumed_samples", now, was.consumed_samples, now.consumed_samples);
    if (differs) {
      break;  // every later step differs for the same reason
    }
  }
  return VerdictOf(std::move(findings));
}

std::string BlockKey(std::string_view flag) {
  while (!flag.empty() && flag.front() == '-') {
    flag.remove_prefix(1);
  }
  std::string key(flag);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

bool SameBlockValue(std::string_view a, std::string_view b) {
  if (a == b) {
    return true;
  }
  const std::optional<int> order = CompareDecimal(a, b);
  return order && *order == 0;
}

std::map<std::string, std::optional<std::string>> IntendedKeys(
    const Effective& baseline, const Effective& candidate,
    const std::map<std::string, BlockDestination>& destinations) {
  std::set<std::string> flags;
  for (const Effective* e : {&baseline, &candidate}) {
    for (const Argument& argument : e->args.items()) {
      if (!argument.flag.empty()) {
        flags.insert(argument.flag);
      }
    }
  }
  std::map<std::string, std::optional<std::string>> intended;
  for (const std::string& flag : flags) {
    const Argument* was = baseline.args.Find(flag);
    const Argument* now = candidate.args.Find(flag);
    if (was != nullptr && now != nullptr && was->values == now->values) {
      continue;
    }
    BlockDestination destination{BlockKey(flag), ""};
    if (const auto known = destinations.find(flag); known != destinations.end()) {
      destination = known->second;
    }
    std::optional<std::string>& value = intended[destination.key];
    if (now == nullptr) {
      // A bare flag of its own name stores True, so its absence is False. Else another flag with
      // the same destination may have set the key, or the default is the framework's own.
      if (destination.when_present.empty() && was->values.empty() && !value) {
        value = "False";
      }
      continue;
    }
    if (!destination.when_present.empty()) {
      value = destination.when_present;
    } else if (now->values.empty()) {
      value = "True";
    } else if (now->values.size() == 1) {
      value = now->values.front();
    } else {
      value = "['" + Join(now->values, "', '") + "']";
    }
  }
  return intended;
}

// Megatron-LM sets these from others while it validates its arguments (megatron/training/
// arguments.py: validate_args; padded_vocab_size: vocab_utils.py).
std::map<std::string, std::string> DerivedMegatronKeys(const TrainingJob& job) {
  std::map<std::string, std::string> keys;
  keys["data_parallel_size"] = std::to_string(job.layout.dp);
  keys["world_size"] = std::to_string(job.world);
  keys["sequence_parallel"] = Bool(job.layout.sequence_parallel && job.layout.tp > 1);
  keys["virtual_pipeline_model_parallel_size"] =
      job.layout.vp > 1 ? std::to_string(job.layout.vp) : "None";
  if (job.batch.padded_vocab > 0) {
    keys["padded_vocab_size"] = std::to_string(job.batch.padded_vocab);
  }
  return keys;
}

std::set<std::string> PerLaunchKeys() {
  return {"rank",        "local_rank",     "node_rank",
          "master_addr", "master_port",    "rdzv_endpoint",
          "rdzv_id",     "run_id",         "tensorboard_dir",
          "trace_dir",   "wandb_save_dir", "one_logger_run_name"};
}

}  // namespace attune
