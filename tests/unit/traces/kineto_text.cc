#include "kineto_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "analyse.h"
#include "attune/base/check.h"
#include "attune/traces/diagnose.h"

namespace attune::traces {

std::string Micros(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

std::string KernelEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                        std::int64_t correlation, int stream, std::string_view more) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, \"ts\": "
      "{}, "
      "\"dur\": {}, \"args\": {{\"device\": 0, \"stream\": {}, \"correlation\": {}{}}}}}",
      name, stream, Micros(start), Micros(dur), stream, correlation, more);
}

std::string CopyEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                      std::int64_t correlation, int stream) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, "
      "\"ts\": {}, \"dur\": {}, \"args\": {{\"device\": 0, \"stream\": {}, \"correlation\": {}}}}}",
      name, stream, Micros(start), Micros(dur), stream, correlation);
}

std::string LaunchEvent(std::int64_t start, std::int64_t correlation, int thread,
                        std::string_view name) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"{}\", \"pid\": 100, \"tid\": {}, "
      "\"ts\": {}, \"dur\": 3, \"args\": {{\"External id\": 5, \"correlation\": {}}}}}",
      name, thread, Micros(start), correlation);
}

std::string RuntimeEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                         std::int64_t correlation) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"{}\", \"pid\": 100, \"tid\": 1, "
      "\"ts\": {}, \"dur\": {}, \"args\": {{\"correlation\": {}}}}}",
      name, Micros(start), Micros(dur), correlation);
}

std::string AnnotationEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                            int thread) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"{}\", \"pid\": 100, \"tid\": {}, "
      "\"ts\": {}, \"dur\": {}, \"args\": {{}}}}",
      name, thread, Micros(start), Micros(dur));
}

std::string OperatorEvent(std::string_view name, std::int64_t start, std::int64_t dur, int thread) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{}\", \"pid\": 100, \"tid\": {}, "
      "\"ts\": {}, \"dur\": {}, \"args\": {{\"External id\": 1, \"Ev Idx\": 0}}}}",
      name, thread, Micros(start), Micros(dur));
}

std::string Document(const std::vector<std::string>& events, std::string_view metadata) {
  std::string text =
      "{" + std::string(metadata) + (metadata.empty() ? "" : ",\n") + "\"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "" : ",\n") + events[i];
  return text + "\n], \"traceName\": \"t.json\"}\n";
}

Result<Read> ReadText(std::string_view text, std::size_t piece, const KinetoOptions& options) {
  const auto source = FromMemory(text, piece);
  EventStore store(std::size_t{64} << 20);
  ATTUNE_TRY(const KinetoResult result, ReadKineto(*source, options, store));
  Read read{result, Analyse(store)};
  read.trace.whole = result.whole;
  read.trace.notes = store.notes.Sentences();
  return read;
}

RankTrace MustRead(std::string_view text) {
  auto read = ReadText(text);
  EXPECT_TRUE(read.has_value()) << (read ? "" : read.error().message);
  return read ? read->trace : RankTrace{};
}

std::int64_t NoteCount(const RankTrace& trace, std::string_view name) {
  for (const ParseNote& n : trace.notes) {
    if (n.name == name) return n.count;
  }
  return 0;
}

std::string NoteNames(const RankTrace& trace) {
  std::string names;
  for (const ParseNote& n : trace.notes) names += n.name + " ";
  return names;
}

std::string Gzip(std::string_view text, int members) {
  std::string out;
  const std::size_t piece = text.size() / static_cast<std::size_t>(members) + 1;
  for (int i = 0; i < members; ++i) {
    const std::string_view part =
        text.substr(std::min(text.size(), piece * static_cast<std::size_t>(i)), piece);
    z_stream z{};
    ATTUNE_CHECK(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
    std::string packed(deflateBound(&z, static_cast<uLong>(part.size())) + 64, '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    z.avail_in = static_cast<uInt>(part.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    ATTUNE_CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
    out.append(packed, 0, z.total_out);
    deflateEnd(&z);
  }
  return out;
}

std::vector<std::string> BusyEvents(int steps, int kernels_per_step) {
  std::vector<std::string> events;
  constexpr std::int64_t kStep = 1'000'000;
  std::int64_t correlation = 1;
  for (int s = 0; s < steps; ++s) {
    const std::int64_t host = 1'000'000 + s * kStep;
    events.push_back(AnnotationEvent(fmt::format("ProfilerStep#{}", s), host, kStep - 1000));
    events.push_back(AnnotationEvent("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                     host + 1000, 120'500));
    events.push_back(AnnotationEvent("Optimizer.step#AdamW.step", host + 800'000, 100'001));
    events.push_back(OperatorEvent("aten::item", host + 950'000, 20'000));
    const std::int64_t each = 700'000 / kernels_per_step;
    for (int k = 0; k < kernels_per_step; ++k) {
      const std::int64_t launch = host + 150'000 + k * each;
      const std::int64_t start = launch + 12'345 + (k % 7) * 1000;
      events.push_back(LaunchEvent(launch, correlation));
      switch (k % 4) {
        case 0:
          events.push_back(
              KernelEvent("ampere_bf16_s16816gemm_bf16", start, each - 2'500, correlation));
          break;
        case 1:
          events.push_back(KernelEvent(
              "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, 2 * each, correlation, 20,
              ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"dtype\": "
              "\"Float\", "
              "\"Group size\": 8, \"Process Group Name\": \"0\", \"Process Group Description\": "
              "\"default_pg\""));
          break;
        case 2:
          events.push_back(
              CopyEvent("Memcpy HtoD (Pageable -> Device)", start, each / 3, correlation));
          break;
        default:
          events.push_back(KernelEvent("void at::native::vectorized_elementwise_kernel<4>", start,
                                       each / 2, correlation));
      }
      ++correlation;
    }
  }
  return events;
}

std::string Figures(const RankTrace& trace) {
  TraceSet set;
  set.ranks.push_back(trace);
  RankTrace& t = set.ranks.back();
  t.path.clear();
  t.notes.clear();
  t.text_bytes = 0;
  t.format = TraceFormat::kKineto;
  return TracesJson(set, DiagnoseTraces(set));
}

}  // namespace attune::traces
