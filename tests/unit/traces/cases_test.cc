// tests/cases/traces: a trace and, in NAME.expect, what must be read from it. Lines of an .expect
// file: "KEY NUMBER", "whole yes|no", "note NAME", "named CLASS", "refused WORDS"; # begins a
// comment.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "attune/base/text.h"
#include "attune/traces/diagnose.h"
#include "attune/traces/trace_reader.h"

namespace attune {
namespace {

std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::map<std::string, std::int64_t> Numbers(const RankTrace& t) {
  const WholeFile& w = t.whole_file;
  return {{"events", t.events},
          {"gpu_events", w.counts.events},
          {"span_ns", w.time.span},
          {"busy_ns", w.time.busy},
          {"compute_ns", w.time.compute},
          {"comm_ns", w.time.comm},
          {"mem_ns", w.time.mem},
          {"overlap_ns", w.time.overlap},
          {"exposed_ns", w.time.exposed},
          {"without_launch", w.without_launch},
          {"median_launch_delay_ns", w.median_launch_delay.value_or(-1)},
          {"rank", t.rank},
          {"world_size", t.world_size},
          {"steps", static_cast<std::int64_t>(t.steps.size())},
          {"analysed_span_ns", t.analysed.span},
          {"analysed_compute_ns", t.analysed.compute},
          {"analysed_exposed_ns", t.analysed.exposed}};
}

void Check(const std::string& key, const std::string& value, const RankTrace& t) {
  if (key == "whole") {
    EXPECT_EQ(t.whole ? "yes" : "no", value);
  } else if (key == "note") {
    EXPECT_TRUE(std::any_of(t.notes.begin(), t.notes.end(), [&](const ParseNote& n) {
      return n.name == value;
    })) << value;
  } else if (key == "named") {
    TraceSet set;
    set.ranks.push_back(t);
    const Diagnosis d = DiagnoseTraces(set);
    EXPECT_TRUE(std::any_of(d.bottlenecks.begin(), d.bottlenecks.end(),
                            [&](const Bottleneck& b) { return b.named && b.cls == value; }))
        << value << ": " << d.summary;
  } else {
    const auto numbers = Numbers(t);
    ASSERT_TRUE(numbers.contains(key)) << "no such key: " << key;
    EXPECT_EQ(numbers.at(key), ParseInt(value).value_or(-2)) << key;
  }
}

TEST(TraceCases, AreReadAsExpected) {
  int cases = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(ATTUNE_SOURCE_DIR "/tests/cases/traces")) {
    if (entry.path().extension() != ".json") continue;
    ++cases;
    const std::string path = entry.path().string();
    SCOPED_TRACE(path);
    const std::string expect = Slurp(path.substr(0, path.size() - 5) + ".expect");
    ASSERT_FALSE(expect.empty());
    const auto read = ReadTraceFile(path);
    for (const std::string_view line : SplitLines(expect)) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t space = line.find(' ');
      ASSERT_NE(space, std::string_view::npos) << line;
      const std::string key(line.substr(0, space)), value(line.substr(space + 1));
      if (key == "refused") {
        ASSERT_FALSE(read.has_value());
        EXPECT_NE(read.error().message.find(value), std::string::npos) << read.error().message;
        continue;
      }
      ASSERT_TRUE(read.has_value()) << read.error().message;
      Check(key, value, *read);
    }
  }
  EXPECT_GE(cases, 8);
}

TEST(TraceCases, AStoredExportOfNsightSystems) {
  const auto read = ReadTraceFile(ATTUNE_SOURCE_DIR "/tests/data/nsys/small.sqlite");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->steps.size(), 3u);
  EXPECT_EQ(read->whole_file.counts.events, 6);
  EXPECT_EQ(read->analysed.span, 1'000'000);
  EXPECT_EQ(read->analysed.exposed, 100'000);
}

}  // namespace
}  // namespace attune
