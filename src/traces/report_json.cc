#include <nlohmann/json.hpp>

#include "attune/traces/diagnose.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

Json Of(const Breakdown& b) {
  return {{"span_ns", b.span},       {"busy_ns", b.busy},           {"idle_ns", b.idle()},
          {"compute_ns", b.compute}, {"comm_ns", b.comm},           {"mem_ns", b.mem},
          {"overlap_ns", b.overlap}, {"exposed_comm_ns", b.exposed}};
}

Json Of(const IdleSplit& i) {
  return {{"host_wait_ns", i.host_wait},
          {"kernel_wait_ns", i.kernel_wait},
          {"comm_wait_ns", i.comm_wait},
          {"other_ns", i.other},
          {"in_short_gaps_ns", i.in_short_gaps}};
}

Json Of(const GpuCounts& c) {
  return {{"events", c.events},
          {"compute", c.compute},
          {"comm", c.comm},
          {"mem", c.mem},
          {"zero_duration", c.zero_duration}};
}

Json Of(const WholeFile& w) {
  Json j = {{"counts", Of(w.counts)},
            {"time", Of(w.time)},
            {"launched_only", {{"counts", Of(w.launched_counts)}, {"time", Of(w.launched_time)}}},
            {"events_without_launch", w.without_launch},
            {"events_without_launch_ns", w.without_launch_time},
            {"start_before_launch", w.start_before_launch},
            {"streams", w.streams},
            {"same_stream_overlaps", w.same_stream_overlaps}};
  if (w.median_launch_delay) j["median_launch_delay_ns"] = *w.median_launch_delay;
  if (w.median_compute_kernel) j["median_compute_kernel_ns"] = *w.median_compute_kernel;
  return j;
}

Json Of(const StepFigures& s) {
  return {{"name", s.name},
          {"analysed", s.analysed},
          {"host_ns", s.host},
          {"begin_ns", s.begin},
          {"end_ns", s.end},
          {"time", Of(s.time)},
          {"idle", Of(s.idle)},
          {"launches", s.launches},
          {"kernels", s.kernels},
          {"data_loader_ns", s.data_loader},
          {"host_sync_ns", s.host_sync},
          {"host_syncs", s.host_syncs},
          {"allocations", s.allocations},
          {"allocation_ns", s.allocation_time},
          {"optimizer_kernels_ns", s.optimizer_kernels},
          {"pageable_exposed_ns", s.pageable_exposed},
          {"profiler_overhead_ns", s.profiler_overhead}};
}

Json Of(const KernelRow& k) {
  return {{"name", k.name},
          {"class", k.cls},
          {"count", k.count},
          {"total_ns", k.total},
          {"median_ns", k.median}};
}

Json Of(const ClassRow& c) { return {{"class", c.cls}, {"count", c.count}, {"total_ns", c.total}}; }

Json Of(const CollectiveRow& c) {
  return {{"type", c.type},
          {"name", c.name},
          {"group", c.group},
          {"description", c.description},
          {"group_size", c.group_size},
          {"count", c.count},
          {"count_in_file", c.count_in_file},
          {"with_arguments_in_file", c.with_arguments_in_file},
          {"bytes", c.bytes},
          {"time_ns", c.time},
          {"exposed_ns", c.exposed}};
}

Json Of(const StreamFigures& s) {
  return {{"device", s.device},
          {"stream", s.stream},
          {"events", s.events},
          {"busy_ns", s.busy},
          {"idle", Of(s.idle)}};
}

Json Of(const Sums& s) {
  Json j = {{"compute_kernels_ns", s.compute_kernels},
            {"recompute_ns", s.recompute},
            {"kernels", s.kernel_count},
            {"kernels_under_10us", s.small_kernels},
            {"median_kernel_ns", s.median_kernel},
            {"gemm_ns", s.gemm},
            {"gemm_under_50us_ns", s.small_gemm},
            {"gemm_fp32_ns", s.fp32_gemm},
            {"gemm_undersized_ns", s.undersized_gemm},
            {"memory_bound_ns", s.memory_bound},
            {"graph_kernels", s.graph_kernels},
            {"graph_launches", s.graph_launches}};
  if (s.median_launch_delay >= 0) j["median_launch_delay_ns"] = s.median_launch_delay;
  return j;
}

Json Of(const ParseNote& n);
Json Of(const UnknownCategory& u);
Json Of(const RankTrace& t);
Json Of(const MatchedCollective& m);
Json Of(const RankLateness& l);
Json Of(const Bottleneck& b);

template <class T>
Json List(const std::vector<T>& rows) {
  Json list = Json::array();
  for (const T& row : rows) list.push_back(Of(row));
  return list;
}

Json Of(const HostFigures& h) {
  return {{"threads", h.threads},
          {"events", h.events},
          {"python_events", h.python_events},
          {"span_ns", h.span},
          {"operators_ns", h.operators},
          {"optimizer_ns", h.optimizer},
          {"data_loader_ns", h.data_loader},
          {"classes", List(h.classes)},
          {"top", List(h.top)}};
}

Json Of(const ParseNote& n) {
  Json j = {{"name", n.name}, {"count", n.count}, {"sentence", n.sentence}};
  if (n.first_byte >= 0) j["first_byte"] = n.first_byte;
  return j;
}

Json Of(const UnknownCategory& u) {
  return {{"category", u.category}, {"count", u.count}, {"total_ns", u.total}};
}

std::string_view Word(TraceFormat f) {
  switch (f) {
    case TraceFormat::kKineto:
      return "kineto";
    case TraceFormat::kKinetoArray:
      return "kineto_array";
    case TraceFormat::kNsightSystems:
      return "nsight_systems";
  }
  return "unknown";
}

Json Of(const RankTrace& t) {
  Json j = {{"file", t.path},
            {"format", Word(t.format)},
            {"whole", t.whole},
            {"rank", t.rank >= 0 ? Json(t.rank) : Json(nullptr)},
            {"world_size", t.world_size >= 0 ? Json(t.world_size) : Json(nullptr)},
            {"device", t.device},
            {"events", t.events},
            {"text_bytes", t.text_bytes},
            {"base_time_ns", t.base_time},
            {"steps_marked", t.steps_marked}};
  if (!t.whole) j["stopped_at"] = t.stopped_at;
  j["analysed"] = {{"time", Of(t.analysed)}, {"idle", Of(t.analysed_idle)}, {"sums", Of(t.sums)}};
  j["whole_file"] = Of(t.whole_file);
  j["steps"] = List(t.steps);
  j["streams"] = List(t.streams);
  j["classes"] = List(t.classes);
  j["top_kernels"] = List(t.top);
  j["collectives"] = List(t.collectives);
  j["host"] = Of(t.host);
  j["unknown_categories"] = List(t.unknown);
  j["notes"] = List(t.notes);
  return j;
}

Json Of(const MatchedCollective& m) {
  return {{"key", m.key},
          {"type", m.type},
          {"group", m.group},
          {"ranks", m.ranks},
          {"last_rank", m.last_rank},
          {"transfer_ns", m.transfer},
          {"longest_ns", m.longest},
          {"longest_rank", m.longest_rank},
          {"waiting_ns", m.waiting},
          {"end_spread_ns", m.end_spread}};
}

Json Of(const RankLateness& l) {
  return {
      {"rank", l.rank}, {"last_in", l.last_in}, {"caused_ns", l.caused}, {"waited_ns", l.waited}};
}

Json Of(const AcrossRanks& a) {
  Json j = {{"waiting_ns", a.waiting},
            {"comm_ns", a.comm},
            {"largest_skew_ns", a.largest_skew},
            {"lateness", List(a.lateness)},
            {"collectives", List(a.collectives)}};
  if (a.compute_imbalance) {
    j["compute_imbalance"] = *a.compute_imbalance;
    j["slowest_rank"] = a.slowest_rank;
  }
  if (!a.why_empty.empty()) j["why_empty"] = a.why_empty;
  return j;
}

Json Of(const Bottleneck& b) {
  return {{"class", b.cls},     {"named", b.named},         {"share", b.share},
          {"metric", b.metric}, {"threshold", b.threshold}, {"evidence", b.evidence}};
}

}  // namespace

std::string TracesJson(const TraceSet& traces, const Diagnosis& diagnosis) {
  const Json j = {{"schema", "attune.traces/1"},
                  {"summary", diagnosis.summary},
                  {"bottlenecks", List(diagnosis.bottlenecks)},
                  {"ranks", List(traces.ranks)},
                  {"across_ranks", Of(traces.across)},
                  {"remarks", traces.remarks}};
  // Paths may hold any bytes.
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace attune
