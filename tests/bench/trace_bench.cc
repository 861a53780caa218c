// trace_bench [--copies N] [--keep FILE] TRACE...: how fast traces are read, in user+system CPU
// time, as a ratio to Python's json.loads on the same file in the same run. A large file is made by
// repeating the events of a real one with their times shifted. Prints bytes of JSON a second of CPU
// and peak memory; asserts nothing.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "attune/traces/trace_reader.h"
#include "byte_source.h"
#include "event_store.h"
#include "kineto.h"

namespace {

using attune::traces::EventStore;

struct Cost {
  double cpu = 0;  // seconds
  double peak_mb = 0;
  bool ok = false;
};

// In a process of its own, so that peak memory is its own and caches start cold.
Cost Measure(const std::function<bool()>& work) {
  const pid_t pid = fork();
  if (pid == 0) _exit(work() ? 0 : 1);
  int status = 0;
  rusage used{};
  wait4(pid, &status, 0, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime),
          static_cast<double>(used.ru_maxrss) / 1024.0,
          WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

Cost Best(int times, const std::function<bool()>& work) {
  Cost best = Measure(work);
  for (int i = 1; i < times; ++i) {
    const Cost again = Measure(work);
    if (again.cpu < best.cpu) best = again;
  }
  return best;
}

std::string ReadAll(const std::string& path) {
  auto file = attune::traces::OpenFile(path);
  std::string text;
  if (!file) return text;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    auto got = file->source->Read(buffer.data(), buffer.size());
    if (!got || *got == 0) return text;
    text.append(buffer.data(), *got);
  }
}

// The events' text with `shift` microseconds added to each "ts".
std::string Shifted(const std::string& events, long long shift) {
  std::string out;
  out.reserve(events.size() + events.size() / 50);
  const std::string key = "\"ts\":";
  std::size_t from = 0;
  for (std::size_t at = events.find(key); at != std::string::npos; at = events.find(key, at)) {
    at += key.size();
    while (events[at] == ' ') ++at;
    out.append(events, from, at - from);
    char* end = nullptr;
    const long long whole = std::strtoll(events.c_str() + at, &end, 10);
    out += std::to_string(whole + shift);
    from = at = static_cast<std::size_t>(end - events.c_str());
  }
  out.append(events, from, std::string::npos);
  return out;
}

bool WriteRepeated(const std::string& text, int copies, const std::string& path) {
  const std::size_t array = text.find("\"traceEvents\"");
  const std::size_t first = array == std::string::npos ? array : text.find('[', array);
  if (first == std::string::npos) return false;
  // The array ends at the last bracket that closes it: behind it stand only short metadata.
  std::size_t last = text.rfind("}\n  ]");
  if (last == std::string::npos) last = text.rfind("}\n]");
  if (last == std::string::npos) last = text.rfind("}]");
  if (last == std::string::npos || last < first) return false;
  const std::string events = text.substr(first + 1, last + 1 - (first + 1));
  std::FILE* out = std::fopen(path.c_str(), "wb");
  if (out == nullptr) return false;
  std::fwrite(text.data(), 1, first + 1, out);
  constexpr long long kApart = 10'000'000;  // longer than any of the traces
  for (int i = 0; i < copies; ++i) {
    if (i > 0) std::fputc(',', out);
    const std::string copy = Shifted(events, i * kApart);
    std::fwrite(copy.data(), 1, copy.size(), out);
  }
  std::fwrite(text.data() + last + 1, 1, text.size() - last - 1, out);
  return std::fclose(out) == 0;
}

bool Compress(const std::string& path, const std::string& to) {
  auto file = attune::traces::OpenFile(path);
  gzFile out = gzopen(to.c_str(), "wb6");
  if (!file || out == nullptr) return false;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    auto got = file->source->Read(buffer.data(), buffer.size());
    if (!got) return false;
    if (*got == 0) return gzclose(out) == Z_OK;
    gzwrite(out, buffer.data(), static_cast<unsigned>(*got));
  }
}

bool ReadOnly(const std::string& path) {
  auto file = attune::traces::OpenFile(path);
  if (!file) return false;
  EventStore store(std::size_t{1} << 20);
  attune::traces::KinetoOptions options;
  options.decode = false;
  const auto read = attune::traces::ReadKineto(*file->source, options, store);
  return read && read->whole;
}

bool Decode(const std::string& path) {
  auto file = attune::traces::OpenFile(path);
  if (!file) return false;
  EventStore store(std::size_t{120} << 20);
  const auto read = attune::traces::ReadKineto(*file->source, {}, store);
  return read && read->whole;
}

bool Python(const std::string& path) {
  const char* program = "import json,sys\nwith open(sys.argv[1],'rb') as f: json.loads(f.read())\n";
  execlp("python3", "python3", "-c", program, path.c_str(), static_cast<char*>(nullptr));
  return false;
}

void Print(const char* what, const Cost& cost, double bytes, double python) {
  if (!cost.ok) {
    std::printf("  %-28s failed\n", what);
    return;
  }
  std::printf("  %-28s %7.3f s  %6.3f GB/s  %7.1f MB", what, cost.cpu, bytes / cost.cpu / 1e9,
              cost.peak_mb);
  if (python > 0) std::printf("  %6.1f x json.loads", python / cost.cpu);
  std::printf("\n");
  std::fflush(stdout);
}

void Run(const std::string& trace, int copies, bool python, int times) {
  const char* tmp = std::getenv("TMPDIR");
  const std::string base =
      fmt::format("{}/trace_bench.{}", tmp != nullptr ? tmp : "/tmp", getpid());
  const std::string plain = base + ".json", packed = base + ".json.gz";
  // In a process of its own, or its memory would count as that of the readings.
  if (!Measure([&] { return WriteRepeated(ReadAll(trace), copies, plain); }).ok) {
    std::printf("%s: cannot repeat it\n", trace.c_str());
    return;
  }
  auto whole = attune::traces::OpenFile(plain);
  const double bytes = whole ? static_cast<double>(whole->identity.bytes) : 0;
  std::printf("%s x %d: %.0f MB\n", trace.substr(trace.rfind('/') + 1).c_str(), copies,
              bytes / 1e6);
  Cost loads;
  if (python) loads = Best(1, [&] { return Python(plain); });
  const double reference = loads.ok ? loads.cpu : 0;
  if (python) Print("python json.loads", loads, bytes, 0);
  Print("scan .json", Best(times, [&] { return ReadOnly(plain); }), bytes, reference);
  Print("read and decode .json", Best(times, [&] { return Decode(plain); }), bytes, reference);
  Print("every analysis .json",
        Best(times, [&] { return attune::ReadTraceFile(plain).has_value(); }), bytes, reference);
  if (copies <= 20 && Measure([&] { return Compress(plain, packed); }).ok) {
    Print("scan .json.gz", Best(times, [&] { return ReadOnly(packed); }), bytes, reference);
    Print("read and decode .json.gz", Best(times, [&] { return Decode(packed); }), bytes,
          reference);
    Print("every analysis .json.gz",
          Best(times, [&] { return attune::ReadTraceFile(packed).has_value(); }), bytes, reference);
  }
  unlink(plain.c_str());
  unlink(packed.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  int copies = 6, times = 3;
  bool python = true;
  std::vector<std::string> traces;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--copies" && i + 1 < argc) {
      copies = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--times" && i + 1 < argc) {
      times = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--no-python") {
      python = false;
    } else {
      traces.push_back(word);
    }
  }
  if (traces.empty()) {
    if (const char* corpora = std::getenv("ATTUNE_CORPORA"); corpora != nullptr) {
      traces = {std::string(corpora) + "/traces/hta_ddp_2rank_rank1.json.gz",
                std::string(corpora) + "/traces/tl_mi300_xdit_flux.json.gz"};
    } else {
      std::fprintf(stderr, "usage: trace_bench [--copies N] [--times N] [--no-python] TRACE...\n");
      return 2;
    }
  }
  for (const std::string& t : traces) Run(t, copies, python, times);
  return 0;
}
