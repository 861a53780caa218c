// Every number of the physics that is fitted or chosen, as one plain value: a world draws its own,
// a caller perturbs a copy, nothing is global. Built-in values, bounds, meaning and source of each
// stand in data/coefficients.tsv; docs/physics.md gives the formulas they enter.
#pragma once

#include <span>
#include <string_view>

namespace attune::sim {

struct Coefficients {
  // Matrix multiplication: share of the peak at infinite size, by generation and precision, and the
  // tile sizes of the shape loss x/(x + tile * q), q = peak / 989 TFLOP/s.
  double gemm_ampere = 0.85, gemm_hopper = 0.80, gemm_blackwell = 0.80, gemm_instinct = 0.55;
  double gemm_fp8_hopper = 0.72, gemm_fp8_blackwell = 0.75, gemm_fp8_instinct = 0.45;
  double gemm_fp4 = 0.60;
  double gemm_rowwise = 0.70;  // FP8 with a scale a row, against one a tensor
  double power_exponent = 1;   // how much a board with fewer watts a FLOP is throttled
  double tile_m = 128, tile_n = 256, tile_k = 256;
  double expert_gemm = 0.85;      // grouped GEMM against one plain GEMM
  double expert_gemm_fp8 = 0.75;  // likewise under FP8 and FP4
  // Attention: share of the BF16 peak.
  double attention_ampere = 0.60, attention_hopper = 0.55, attention_blackwell = 0.45;
  double attention_instinct = 0.35;
  double attention_flash2_hopper = 0.30;  // kernels written for Ampere, run on Hopper
  double attention_triton_hopper = 0.20;
  double attention_backward_ratio = 2.3;
  double attention_head_width = 40;     // d/(d + this), relative to d = 128
  double attention_short_tokens = 256;  // s/(s + this)
  double score_bytes = 16;              // a score element without a flash kernel, forward
  // Memory-bound work.
  double hbm_efficiency = 0.75;
  double norm_bytes = 15;            // a (token x hidden) of a sub-layer, forward
  double wide_bytes = 6;             // an element of QKV or of the MLP's inner width, forward
  double permute_bytes = 9;          // a (token x hidden x top-k), forward
  double quantize_bytes = 3;         // an input element of a GEMM in FP8, forward
  double quantize_block_bytes = 4;   // in MXFP8, block-wise or FP4
  double expert_quantize_ratio = 2;  // routed tokens are quantised in small pieces
  double fused_experts = 0.5;  // routed tokens' memory-bound work, fused with the experts' GEMMs
  double bias_bytes = 6;       // an element of a biased expert GEMM's output
  double memory_backward_ratio = 1.6;
  double logit_bytes = 12;        // a logit, loss forward and backward
  double scan_efficiency = 0.05;  // of the BF16 peak, state-space scan
  double scan_bytes = 30;         // an element of the inner width, forward
  double compiled_memory = 0.7;   // torch.compile fuses memory-bound work
  // Host: seconds to launch one layer forward.
  double launch_dense_s = 0.6e-3, launch_moe_s = 3e-3, launch_mixer_s = 1e-3;
  double launch_pass_s = 1e-3;  // a virtual stage's pass: schedule, batch, point-to-point
  double launch_backward_ratio = 1.8;
  double launch_flex = 0.65;          // flex dispatchers
  double launch_sync_free = 0.4;      // experts whose token counts stay on the device
  double launch_graph_partial = 0.8;  // per-module graphs
  double launch_graph_full = 0.1;     // one graph for the iteration
  double launch_compiled = 0.6;       // torch.compile
  double launch_module_s = 0.15e-3;   // a module recomputed
  double launch_sharpness = 4;        // of the soft maximum of device and host time
  // Collectives.
  double nvlink_efficiency = 0.75, network_efficiency = 0.80;
  double nvlink_latency_s = 10e-6, network_latency_s = 25e-6;
  double tp_exposed = 0.85, tp_exposed_overlapped = 0.4;
  double ep_alltoall = 0.6, ep_flex = 0.8;  // of what the links give to a ring
  double ep_congestion = 0.2;               // added for each doubling of the nodes spanned
  double ep_overlap_hidden = 0.45, ep_shared_hidden = 0.1;
  double cp_exposed = 0.3;
  double pp_exposed = 1.0, pp_exposed_overlapped = 0.4;
  double dp_exposed = 0.15;    // of what compute covers
  double fsdp_exposed = 0.15;  // likewise, gathers of FSDP
  // Routing: slowest rank's tokens over the mean, added at full spread.
  double imbalance_natural = 0.35;
  // Optimizer and the rest of a step.
  double optimizer_bytes = 30, optimizer_fixed_s = 50e-3;
  double offload_rate = 0.24e9;  // parameters a second and rank on the host
  double step_fixed_s = 20e-3;
  // Memory.
  double fixed_bytes = 3e9;
  double usable_memory = 0.985;         // of the card's bytes: driver and ECC keep the rest
  double fragmentation = 0.06;          // of what is allocated and not static, default allocator
  double fragmentation_varying = 0.35;  // of all, default allocator, shapes that vary
  double activation_share = 1.0;        // saved tensors over the counted ones
  double flex_buffer_bytes = 1e9, graph_bytes = 3e9;
  double graph_peak_full = 0.6;  // of the activations, full-iteration graphs
  double late_imbalance = 0.25;  // expert tokens of an unlucky step over the usual
};

struct CoefficientRow {
  std::string_view name;
  double Coefficients::*member;
  double low, high;  // what is physical: a value at a bound is "at the edge" (docs/physics.md)
  bool fitted;       // false: taken from its source, not moved by the fit
  std::string_view source;
};

// One row a member, in the order of the table.
std::span<const CoefficientRow> CoefficientRows();
// The values of data/coefficients.tsv.
Coefficients BuiltInCoefficients();

}  // namespace attune::sim
