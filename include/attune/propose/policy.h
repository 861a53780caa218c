// Policy records: what an arm of a comparison is (control_plane.md section 8). An arm is a row of
// one table; nothing else in the program knows their names. Gates and budget are the same in all.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/model/event.h"

namespace attune {

struct PolicyRecord {
  std::string_view name;
  std::string_view proposer;
  bool prefilter = true;
  bool rules = true;                  // the skill's search rules are in the prompt
  std::string_view catalog = "full";  // full | public (general guides' advice only) | none
  bool lessons = true;
  bool diagnosis = true;
  int inspections = 6;              // the skill's scripts; 0: none
  std::string_view space = "open";  // open | fixed
  int agents = 1;
  std::string_view what;  // one line for people
};

std::span<const PolicyRecord> PolicyRecords();
const PolicyRecord* FindPolicy(std::string_view name);
// The record a tuner has when no policy is named; nullptr for an unknown tuner.
const PolicyRecord* DefaultPolicy(std::string_view proposer);
// Everything of the record, written into a campaign's policy before it opens.
void ApplyRecord(const PolicyRecord& record, Policy& policy);

// The knobs of `space: fixed`: lever ids (paper, Table E1: degrees of parallelism, virtual stages,
// pipeline split, and the recomputation, micro-batch, dispatcher and overlap switches).
std::span<const std::string_view> FixedKnobs();

}  // namespace attune
