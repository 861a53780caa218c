// attune_threshold_mutants FILE.case...: moves each limit of the run-time gates up and down and
// prints which mutants no case notices, then `N mutants, N killed, N survived`; exit 1 when one
// survives or a case fails with the true limits.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "threshold_cases.h"

int main(int argc, char** argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot open %s\n", argv[i]);
      return 2;
    }
    text.append(std::istreambuf_iterator<char>(in), {}).append("\n\n");
  }
  const auto failures = attune::RunThresholdCases(attune::Thresholds{}, text);
  for (const std::string& failure : failures) {
    std::fprintf(stderr, "FAILED %s\n", failure.c_str());
  }
  int killed = 0;
  int survived = 0;
  for (const attune::ThresholdMutant& mutant : attune::ThresholdMutants()) {
    if (attune::RunThresholdCases(mutant.limits, text) != failures) {
      ++killed;
    } else {
      ++survived;
      std::printf("survived: %s\n", mutant.name.c_str());
    }
  }
  std::printf("%d mutants, %d killed, %d survived\n", killed + survived, killed, survived);
  return failures.empty() && survived == 0 ? 0 : 1;
}
