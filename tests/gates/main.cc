// attune_gate_mutants [--cases] [FOLDER]: runs the gate's cases unmutated, then once for each rule
// row dropped and each threshold flipped, and prints `N mutants, N killed, N survived`. Exit 1 when
// a case fails or a mutant survives. --cases: only the cases.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gates/suite.h"

int main(int argc, char** argv) {
  bool cases_only = false;
  std::string folder = ATTUNE_SOURCE_DIR "/tests/cases/gates";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cases") == 0) {
      cases_only = true;
    } else {
      folder = argv[i];
    }
  }
  std::string error;
  // One line a suite.
  std::vector<std::unique_ptr<attune::CaseSuite>> suites;
  suites.push_back(attune::MakeConfigSuite(folder, error));
  suites.push_back(attune::MakeThresholdSuite(folder, error));

  bool broken = false;
  for (const auto& suite : suites) {
    if (suite == nullptr) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return 2;
    }
    for (const std::string& failure : suite->Failures(std::nullopt, false)) {
      std::fprintf(stderr, "FAILED %s\n", failure.c_str());
      broken = true;
    }
  }
  if (broken) return 1;
  if (cases_only) return 0;

  std::size_t mutants = 0, killed = 0;
  for (const auto& suite : suites) {
    const std::vector<std::string> names = suite->Mutants();
    for (std::size_t m = 0; m < names.size(); ++m) {
      ++mutants;
      if (!suite->Failures(m, true).empty()) {
        ++killed;
      } else {
        std::fprintf(stderr, "SURVIVED %s\n", names[m].c_str());
      }
    }
  }
  std::printf("%zu mutants, %zu killed, %zu survived\n", mutants, killed, mutants - killed);
  return killed == mutants ? 0 : 1;
}
