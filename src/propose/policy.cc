#include "attune/propose/policy.h"

#include <algorithm>
#include <array>

namespace attune {
namespace {

// The first row of a proposer is its default.
constexpr std::array kRecords = {
    PolicyRecord{.name = "rules", .proposer = "rules", .what = "deterministic rules; no model"},
    PolicyRecord{.name = "random",
                 .proposer = "random",
                 .prefilter = false,
                 .what = "uniform draws over legal values"},
    PolicyRecord{.name = "scripted",
                 .proposer = "scripted",
                 .prefilter = false,
                 .what = "replies from a file"},
    PolicyRecord{.name = "full", .proposer = "agent", .what = "the agent with all it may read"},
    PolicyRecord{.name = "paper",
                 .proposer = "agent",
                 .prefilter = false,
                 .what = "full without the memory pre-filter"},
    PolicyRecord{.name = "bare",
                 .proposer = "agent",
                 .rules = false,
                 .catalog = "none",
                 .lessons = false,
                 .inspections = 0,
                 .what = "no rules, catalog, lessons or scripts"},
    PolicyRecord{.name = "fixed-knobs",
                 .proposer = "agent",
                 .space = "fixed",
                 .what = "full, but only the knobs that the other tuners have"},
    PolicyRecord{.name = "no-diagnosis",
                 .proposer = "agent",
                 .diagnosis = false,
                 .what = "full, but no diagnosis is shown"},
    PolicyRecord{.name = "committee",
                 .proposer = "agent",
                 .agents = 3,
                 .what = "three agents propose, criticise and vote"},
    PolicyRecord{.name = "public-guide",
                 .proposer = "agent",
                 .catalog = "public",
                 .lessons = false,
                 .what = "a catalog of public guides' advice instead of the skill's"},
    PolicyRecord{.name = "minimal-skill",
                 .proposer = "agent",
                 .catalog = "none",
                 .what = "search rules and scripts, no lever catalog"},
};

constexpr std::array<std::string_view, 10> kFixedKnobs = {
    "tensor_parallel", "pipeline_layout", "experts",    "virtual_pipeline", "recompute",
    "microbatch",      "dispatcher",      "dp_overlap", "tp_overlap",       "optimizer_offload"};

}  // namespace

std::span<const PolicyRecord> PolicyRecords() { return kRecords; }

const PolicyRecord* FindPolicy(std::string_view name) {
  const auto it = std::find_if(kRecords.begin(), kRecords.end(),
                               [&](const PolicyRecord& r) { return r.name == name; });
  return it == kRecords.end() ? nullptr : &*it;
}

const PolicyRecord* DefaultPolicy(std::string_view proposer) {
  const auto it = std::find_if(kRecords.begin(), kRecords.end(),
                               [&](const PolicyRecord& r) { return r.proposer == proposer; });
  return it == kRecords.end() ? nullptr : &*it;
}

void ApplyRecord(const PolicyRecord& record, Policy& policy) {
  policy.proposer = record.proposer;
  policy.name = record.name;
  policy.prefilter = record.prefilter;
  policy.rules = record.rules;
  policy.catalog = record.catalog;
  policy.lessons = record.lessons;
  policy.diagnosis = record.diagnosis;
  policy.inspections = record.inspections;
  policy.space = record.space;
  policy.agents = record.agents;
}

std::span<const std::string_view> FixedKnobs() { return kFixedKnobs; }

}  // namespace attune
