// Time of one layer, one micro-batch, one rank.
#pragma once

#include "setting.h"

namespace attune::sim {

// Fills forward, backward and backward_full of a kind; `count` is left alone.
void TimeLayer(const Setting& s, LayerKind kind, LayerModel& out);
// What graphs and compilation leave of the host's launch time.
double LaunchFactor(const Setting& s);
// Output layer and loss of one micro-batch.
void TimeHead(const Setting& s, Pass& forward, Pass& backward);

}  // namespace attune::sim
