// Candidates are laid out in three ways: every lever alone; enablers for what is illegal or does
// not fit alone; and joint moves of several levers, climbed to on the projection.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "space.h"

namespace attune::rules {

class Outlay {
 public:
  // A candidate of these parts, projected; nothing where they are illegal together.
  using Make = std::function<std::optional<Candidate>(std::vector<Part>)>;
  Outlay(Make make, Space::Admits admits, double leader_seconds, double leader_peak)
      : make_(std::move(make)),
        admits_(std::move(admits)),
        leader_seconds_(leader_seconds),
        leader_peak_(leader_peak) {}

  void Alone(const std::vector<Part>& parts);
  // After Alone.
  void WithEnablers();
  // After Alone: from the leader, the best parts are added one at a time, several ways in parallel,
  // and each way's best are kept. What the gates refuse takes nobody's place among them.
  void Jointly();
  std::vector<Candidate> Take() { return std::move(out_); }

 private:
  struct Way {
    std::vector<std::size_t> of;  // places in pool_, sorted
    Candidate candidate;
  };
  void Sort(const Candidate& c);
  void Add(std::optional<Candidate> c);
  void Enable(const Part& primary, bool by_layout);
  void EnableByLayout(const Part& primary, bool pairs);
  std::vector<Way> Longer(const std::vector<Way>& ways, std::set<std::vector<std::size_t>>& seen);

  Make make_;
  Space::Admits admits_;
  double leader_seconds_, leader_peak_;
  std::map<std::string, std::vector<Candidate>> tight_;
  std::map<std::string, std::vector<Candidate>> alone_;  // legal alone, by lever
  std::vector<Candidate> layouts_, out_;
  std::vector<Part> room_, illegal_;
  std::vector<Part> pool_;
};

}  // namespace attune::rules
