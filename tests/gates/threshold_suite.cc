// The run-time gates' limits as a suite: run_*.case.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gates/suite.h"
#include "threshold_cases.h"

namespace attune {
namespace {

class ThresholdSuite final : public CaseSuite {
 public:
  explicit ThresholdSuite(std::string text) : text_(std::move(text)) {}

  std::string Name() const override { return "thresholds"; }
  std::vector<std::string> Mutants() const override {
    std::vector<std::string> names;
    for (const ThresholdMutant& m : mutants_) names.push_back("thresholds " + m.name);
    return names;
  }
  std::vector<std::string> Failures(std::optional<std::size_t> m, bool) override {
    return RunThresholdCases(m ? mutants_[*m].limits : Thresholds{}, text_);
  }

 private:
  std::string text_;
  std::vector<ThresholdMutant> mutants_ = ThresholdMutants();
};

}  // namespace

std::unique_ptr<CaseSuite> MakeThresholdSuite(const std::string& folder, std::string& error) {
  std::vector<std::filesystem::path> files;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("run_") && name.ends_with(".case")) files.push_back(entry.path());
  }
  if (ec || files.empty()) {
    error = "no run_*.case below " + folder;
    return nullptr;
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(in), {}).append("\n\n");
  }
  return std::make_unique<ThresholdSuite>(std::move(text));
}

}  // namespace attune
