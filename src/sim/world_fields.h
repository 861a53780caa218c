// The plain numbers of a world as tables: one list serves reading, bounds, the hash and the page
// docs/formats/world.md.
#pragma once

#include <span>
#include <string_view>

#include "world.h"

namespace attune::sim {

template <class T>
struct Field {
  std::string_view name;
  double T::*member;
  double low, high;
  double unit = 1;  // the file's value times this is the member's
};

inline constexpr double kGiga = 1e9, kGibi = 1024.0 * 1024.0 * 1024.0;

inline constexpr Field<World> kMachineFields[] = {
    {"nvlink_gbs", &World::nvlink_rate, 1, 1e5, kGiga},
    {"nic_gbs", &World::nic_rate, 0.1, 1e5, kGiga},
    {"hbm_gib", &World::hbm_bytes, 1, 1e5, kGibi},
    {"network_efficiency", &World::network_efficiency, 0.01, 2},
    {"alltoall_efficiency", &World::alltoall_efficiency, 0.01, 2},
};
inline constexpr Field<Residuals> kResidualFields[] = {
    {"time", &Residuals::time, 0, 1},
    {"memory", &Residuals::memory, 0, 1},
    {"reach", &Residuals::reach, 0.5, 20},
};
inline constexpr Field<Noise> kNoiseFields[] = {
    {"allocation_sigma", &Noise::allocation_sigma, 0, 0.2},
    {"launch_bound_factor", &Noise::launch_bound_factor, 1, 10},
    {"step_sigma", &Noise::step_sigma, 0, 0.2},
    {"step_lag1", &Noise::step_lag1, -0.9, 0.95},
    {"slow_first", &Noise::slow_first, 0, 20},
    {"straggler_rate", &Noise::straggler_rate, 0, 0.5},
};
inline constexpr Field<Starting> kStartingFields[] = {
    {"queue_s", &Starting::queue_s, 0, 1e6},
    {"fixed_s", &Starting::fixed_s, 0.001, 1e5},
    {"nccl_s_per_gpu", &Starting::nccl_s_per_gpu, 0, 100},
    {"load_s_per_billion", &Starting::load_s_per_billion, 0, 100},
    {"sigma", &Starting::sigma, 0, 1},
    {"teardown_s", &Starting::teardown_s, 0, 1e4},
    {"release_s", &Starting::release_s, 0, 14},
};
inline constexpr Field<Hazards> kHazardFields[] = {
    {"preemption_per_hour", &Hazards::preemption, 0, 1000},
    {"node_failure_per_hour", &Hazards::node_failure, 0, 1000},
    {"hang_per_hour", &Hazards::hang, 0, 1000},
    {"watchdog_minutes", &Hazards::watchdog_minutes, 0.001, 1440},
};
inline constexpr Field<Training> kTrainingFields[] = {
    {"first_loss", &Training::first_loss, 0.01, 100},
    {"last_loss", &Training::last_loss, 0.01, 100},
    {"steps", &Training::steps, 1, 1e9},
    {"data_sigma", &Training::data_sigma, 0, 0.5},
    {"replica_sigma", &Training::replica_sigma, 0, 0.01},
    {"placement_shift", &Training::placement_shift, 0, 0.01},
    {"kernel_shift", &Training::kernel_shift, 0, 0.02},
    {"routing_shift", &Training::routing_shift, 0, 0.02},
    {"routing_most", &Training::routing_most, 0, 0.1},
    {"balance_loss", &Training::balance_loss, 0.001, 100},
    {"grad_norm", &Training::grad_norm, 0.001, 1e6},
};
inline constexpr Field<Input> kInputFields[] = {
    {"tokens_per_gpu", &Input::tokens_per_gpu, 1, 1e9},
    {"of_baseline", &Input::of_baseline, 0.01, 100},
};
inline constexpr Field<ExtraMemory> kMemoryFields[] = {
    {"gib", &ExtraMemory::bytes, 0, 1e4, kGibi},
    {"of_activations", &ExtraMemory::of_activations, -0.9, 10},
    {"of_static", &ExtraMemory::of_static, -0.9, 10},
};
inline constexpr Field<Defect> kDefectFields[] = {
    {"factor", &Defect::factor, 0.1, 1000},
    {"step0_loss", &Defect::step0_loss, -0.99, 100},
    {"loss_drift", &Defect::loss_drift, -0.5, 0.5},
    {"balance_factor", &Defect::balance_factor, 0, 100},
    {"grad_factor", &Defect::grad_factor, 0.001, 1000},
};

std::string_view Word(Effect e);
// Every value of a world in a fixed order, one a line: what its hash is of.
std::string CanonicalText(const World& world);

}  // namespace attune::sim
