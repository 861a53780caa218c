// Cases of one kind and the mutants they must kill. attune_gate_mutants runs every suite: first
// unmutated (no case may fail), then with one rule row dropped or one threshold flipped at a time
// (at least one case must fail). A suite is one source file and one line in main.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune {

class CaseSuite {
 public:
  virtual ~CaseSuite() = default;
  virtual std::string Name() const = 0;
  // One name a mutant: "config flags --lr dropped", "config limits.edits + 1".
  virtual std::vector<std::string> Mutants() const = 0;
  // Messages of the failing cases under mutant `m`, or under none. May stop at the first failure
  // when `first_only`.
  virtual std::vector<std::string> Failures(std::optional<std::size_t> m, bool first_only) = 0;
};

// Reads every config_*.case below `folder`. `error` names the file and line that can't be read.
std::unique_ptr<CaseSuite> MakeConfigSuite(const std::string& folder, std::string& error);
// Every run_*.case: the limits of the run-time gates.
std::unique_ptr<CaseSuite> MakeThresholdSuite(const std::string& folder, std::string& error);

}  // namespace attune
