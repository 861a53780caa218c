// Any bytes as a trace: the reader must end, keep its bounds, give the same figures however the
// bytes arrive, and never take a part for the whole. One entry for libFuzzer (ATTUNE_FUZZ) and for
// the replay that ctest runs.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyse.h"
#include "attune/base/check.h"
#include "attune/traces/diagnose.h"
#include "byte_source.h"
#include "event_store.h"
#include "kineto.h"

namespace attune::traces {
namespace {

struct Outcome {
  bool read = false, whole = false;
  std::int64_t events = 0, stopped_at = -1;
  std::string figures;
};

Outcome ReadBytes(std::string_view bytes, std::size_t piece, std::size_t window) {
  const bool packed = bytes.substr(0, 2) == "\x1f\x8b";
  std::unique_ptr<ByteSource> source = FromMemory(bytes, piece);
  if (packed) source = Inflate(std::move(source));
  EventStore store(std::size_t{4} << 20);
  KinetoOptions options;
  options.window_bytes = window;
  options.max_window_bytes = std::size_t{1} << 20;
  const auto read = ReadKineto(*source, options, store);
  Outcome out;
  if (!read) {
    ATTUNE_CHECK(!read.error().message.empty(), "a refusal says why");
    return out;
  }
  out.read = true;
  out.whole = read->whole;
  out.events = store.events;
  out.stopped_at = read->stopped_at;
  TraceSet set;
  set.ranks.push_back(Analyse(store));
  const RankTrace& t = set.ranks.back();
  const Breakdown& b = t.whole_file.time;
  ATTUNE_CHECK(b.busy <= b.span && b.busy >= 0, "the GPU is not busy beyond its span");
  ATTUNE_CHECK(b.compute <= b.busy && b.comm <= b.busy && b.mem <= b.busy, "parts of busy");
  ATTUNE_CHECK(b.overlap <= b.comm && b.exposed <= b.comm - b.overlap, "parts of communication");
  std::int64_t steps = 0;
  for (const StepFigures& s : t.steps) steps += s.time.busy;
  ATTUNE_CHECK(steps <= b.busy, "steps do not overlap");
  const Diagnosis diagnosis = DiagnoseTraces(set);
  out.figures = TracesJson(set, diagnosis);
  ATTUNE_CHECK(!TracesText(set, diagnosis, 80).empty(), "there is something to say");
  ATTUNE_CHECK(out.whole || !store.notes.Sentences().empty(), "what is not whole has a note");
  return out;
}

}  // namespace
}  // namespace attune::traces

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune::traces;
  if (size < 2) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  // The first two bytes steer and the rest is the file; a seed as it lies there is a file itself.
  const bool seed = all[0] == '{' || all[0] == '[' || all.substr(0, 3) == "\xef\xbb\xbf";
  const std::string_view bytes = seed ? all : all.substr(2);
  const std::size_t piece = seed ? 61 : 1 + data[0];
  const std::size_t window = seed ? 64 : 64 * (1 + data[1] % 16);
  const Outcome whole = ReadBytes(bytes, 0, std::size_t{1} << 16);
  const Outcome parts = ReadBytes(bytes, piece, window);
  ATTUNE_CHECK(whole.read == parts.read, "refused or not, whatever the pieces");
  ATTUNE_CHECK(whole.whole == parts.whole && whole.events == parts.events &&
                   whole.stopped_at == parts.stopped_at,
               "the same extent, whatever the pieces");
  ATTUNE_CHECK(whole.figures == parts.figures, "the same figures, whatever the pieces");
  return 0;
}
