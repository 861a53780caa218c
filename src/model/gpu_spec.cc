// Datasheets of the vendors: NVIDIA A100, H100, H200, DGX B200/B300, GB200/GB300 NVL72; AMD MI300X,
// MI325X, MI355X. Network: the usual build (EFA or 400 Gb/s NDR a GPU; A100 DGX 200 Gb/s; B300 and
// GB300 800 Gb/s). H800: the reduced NVLink of the DeepSeek-V3 report.
#include "attune/model/gpu_spec.h"

#include <array>

namespace attune {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

constexpr GpuSpec Row(std::string_view name, double bf16, double fp8, double fp4, double memory_gb,
                      double memory_gbps, double nvlink_gbps, int domain, double network_gbit,
                      double host_gbps, double watts) {
  return {name,
          bf16 * kTera,
          fp8 * kTera,
          fp4 * kTera,
          static_cast<std::int64_t>(memory_gb * kGiga),
          memory_gbps * kGiga,
          nvlink_gbps * kGiga,
          domain,
          network_gbit * kGiga / 8,
          host_gbps * kGiga,
          watts};
}

constexpr std::array kTable = {
    Row("A100-40", 312, 0, 0, 40, 1555, 300, 8, 50, 25, 400),
    Row("A100-80", 312, 0, 0, 80, 2039, 300, 8, 200, 25, 400),
    Row("H100", 989.4, 1978.9, 0, 80, 3350, 450, 8, 400, 55, 700),
    Row("H800", 989.4, 1978.9, 0, 80, 3350, 200, 8, 400, 55, 700),
    // 96 GB HBM2e under a 500 W cap; the peak under the cap is not published: a placeholder.
    Row("H100-96-500W", 800, 1600, 0, 96, 2400, 450, 8, 400, 55, 500),
    Row("H200", 989.4, 1978.9, 0, 141, 4800, 450, 8, 400, 55, 700),
    Row("B200", 2250, 4500, 9000, 180, 7700, 900, 8, 400, 55, 1000),
    Row("GB200", 2500, 5000, 10000, 186, 8000, 900, 72, 400, 450, 1200),
    Row("B300", 2250, 4500, 13500, 270, 8000, 900, 8, 800, 64, 1400),
    Row("GB300", 2500, 5000, 15000, 279, 8000, 900, 72, 800, 450, 1400),
    Row("MI300X", 1307.4, 2614.9, 0, 192, 5300, 448, 8, 400, 64, 750),
    Row("MI325X", 1307.4, 2614.9, 0, 256, 6000, 448, 8, 400, 64, 1000),
    Row("MI355X", 2516, 5033, 10066, 288, 8000, 538, 8, 400, 64, 1400),
};

}  // namespace

std::span<const GpuSpec> KnownGpus() { return kTable; }

const GpuSpec* FindGpu(std::string_view name) {
  for (const GpuSpec& row : kTable) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace attune
