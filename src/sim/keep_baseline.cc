#include "keep_baseline.h"

#include <algorithm>

namespace attune::sim {
namespace {

// Of the device: what a recipe in use leaves to the steps that need more than the usual one.
constexpr double kRoom = 0.97;

double BytesOf(const ExtraMemory& m, const Truth& truth) {
  double most = 0;
  for (const StageModel& stage : truth.model.stages) {
    most = std::max(most, m.bytes + m.of_activations * stage.memory.activations +
                              m.of_static * stage.memory.Static());
  }
  return most;
}

bool DropLargest(Site& site, const TrainingJob& baseline, const Truth& truth) {
  auto largest = site.memory.end();
  for (auto it = site.memory.begin(); it != site.memory.end(); ++it) {
    if (!HoldAll((*it)->when, baseline)) continue;
    if (largest == site.memory.end() || BytesOf(**it, truth) > BytesOf(**largest, truth)) {
      largest = it;
    }
  }
  if (largest == site.memory.end()) return false;
  site.memory.erase(largest);
  return true;
}

}  // namespace

void PinAt(Site& site, const TrainingJob& baseline) {
  std::erase_if(site.interactions,
                [&](const Interaction* i) { return HoldAll(i->when, baseline); });
  Pin(site, PlaceOf(baseline));
}

void KeepBaseline(Site& site, const TrainingJob& baseline) {
  std::erase_if(site.defects, [&](const Defect* d) { return HoldAll(d->when, baseline); });
  Truth truth;
  const auto fits = [&] {
    TruthOf(site, baseline, truth);
    return truth.needed <= kRoom * truth.limit && truth.oom == OomAt::kNone;
  };
  while (!fits()) {
    if (DropLargest(site, baseline, truth)) continue;
    if (!site.pin) {
      // Only the activations' wave: the factors of the terms are not memory.
      Pin(site, PlaceOf(baseline));
      std::fill(site.at_pin.begin(), site.at_pin.end() - 1, 0.0);
      continue;
    }
    site.more_memory *= std::max(1.01, truth.needed / (kRoom * truth.limit));
    if (site.more_memory > 4) return;  // no device of this kind trains it
  }
}

}  // namespace attune::sim
