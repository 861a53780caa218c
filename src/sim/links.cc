#include "links.h"

#include <algorithm>
#include <cmath>

namespace attune::sim {
namespace {

double NodeRate(const Machine& m, const Coefficients& c) {
  return m.network.nic_rate * c.network_efficiency * m.network.efficiency;
}
double NvlinkRate(const Machine& m, const Coefficients& c) {
  return m.network.nvlink_rate * c.nvlink_efficiency;
}
// Expected number of distinct places that k uniform draws out of n hit.
double Distinct(double n, double k) { return n * (1 - std::pow(1 - 1 / n, k)); }

}  // namespace

Group MakeGroup(const Machine& m, const Coefficients& c, double size, double stride) {
  Group g;
  g.size = std::max(1.0, size);
  g.per_domain = std::clamp(std::floor(m.network.nvlink_domain / stride), 1.0, g.size);
  g.domains = std::ceil(g.size / g.per_domain);
  const double nvlink = NvlinkRate(m, c);
  if (g.domains <= 1) {
    g.rate = nvlink;
    g.latency = c.nvlink_latency_s;
    return g;
  }
  const double rails = std::min(g.per_domain, static_cast<double>(m.network.nics_per_node));
  g.rate = NodeRate(m, c) * rails;
  if (g.per_domain > 1) g.rate = std::min(g.rate, nvlink);
  g.latency = c.network_latency_s * std::max(1.0, std::log2(g.domains));
  return g;
}

double RingTime(const Group& g, double bytes) {
  if (g.size <= 1 || bytes <= 0) return 0;
  return bytes * (g.size - 1) / g.size / g.rate + g.latency;
}

double AllToAllTime(const Machine& m, const Coefficients& c, const Group& g, const Dispatch& d) {
  if (g.size <= 1 || d.bytes <= 0) return 0;
  double inside = d.bytes * (1 - 1 / g.size), across = 0;
  double latency = c.nvlink_latency_s;
  if (g.domains > 1) {
    across = d.bytes * (1 - 1 / g.domains);
    latency = c.network_latency_s * std::max(1.0, std::log2(g.domains));
  }
  if (d.flex) {
    // A token goes once to a rank (inside) and once to a node (across).
    const double one = d.bytes / d.topk;
    inside = one * Distinct(g.size, d.topk) * (1 - 1 / g.size);
    if (g.domains > 1) {
      across = one * std::min(d.places, Distinct(g.domains, d.topk)) * (1 - 1 / g.domains);
    }
  } else if (g.domains > 1) {
    inside -= across;
  }
  double time = inside / (NvlinkRate(m, c) * d.efficiency);
  if (across > 0) {
    const double congestion = 1 + c.ep_congestion * std::log2(g.domains);
    const double rate = NodeRate(m, c) * d.efficiency * m.network.alltoall_efficiency / congestion;
    time = std::max(time, across / rate);
  }
  return time + latency;
}

double PointToPoint(const Machine& m, const Coefficients& c, double bytes, bool same_domain) {
  if (same_domain) return bytes / NvlinkRate(m, c) + c.nvlink_latency_s;
  return bytes / NodeRate(m, c) + c.network_latency_s;
}

}  // namespace attune::sim
