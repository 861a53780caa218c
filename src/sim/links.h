// Collectives: which links a group of ranks uses and how long it takes. Rank order is TP, CP,
// EP/DP, PP: a group's members stand `stride` ranks apart.
#pragma once

#include "physics.h"

namespace attune::sim {

struct Group {
  double size = 1;
  double per_domain = 1;  // members that share NVLink
  double domains = 1;     // NVLink domains (nodes) it spans
  double rate = 0;        // bytes a second of a ring through it, a rank
  double latency = 0;     // of one step
};

// Members in one node share as many rails as they are: rate = min(NVLink, members x NIC).
Group MakeGroup(const Machine& machine, const Coefficients& c, double size, double stride);

// All-gather or reduce-scatter whose whole result is `bytes`.
double RingTime(const Group& g, double bytes);
// Every member sends `bytes` in all, evenly to the members; `flex`: one copy a destination node.
struct Dispatch {
  double bytes = 0;  // that a rank sends, one copy an expert
  double topk = 1;
  double places = 1;  // nodes that one token may reach
  double efficiency = 1;
  bool flex = false;
};
double AllToAllTime(const Machine& machine, const Coefficients& c, const Group& g,
                    const Dispatch& d);
// One message between neighbouring stages.
double PointToPoint(const Machine& machine, const Coefficients& c, double bytes, bool same_domain);

}  // namespace attune::sim
