// Changes of a trace that must not change its figures, to the nanosecond: on a made-up trace
// always, on real ones when they are there ($ATTUNE_CORPORA).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "attune/base/random.h"
#include "byte_source.h"
#include "kineto_text.h"

namespace attune::traces {
namespace {

using Json = nlohmann::ordered_json;

std::string ReadAll(const std::string& path) {
  std::string text;
  auto file = OpenFile(path);
  if (!file) return text;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const auto got = file->source->Read(buffer.data(), buffer.size());
    if (!got || *got == 0) return text;
    text.append(buffer.data(), *got);
  }
}

// Elements of the event array, each as its text, and the text around them.
struct Pieces {
  std::string before, after;
  std::vector<std::string> events;
};

Pieces Split(const std::string& text) {
  Pieces p;
  const std::size_t array = text.find("\"traceEvents\"");
  std::size_t at = text.find('[', array == std::string::npos ? 0 : array) + 1;
  p.before = text.substr(0, at);
  for (;;) {
    at = text.find_first_of("{]", at);
    if (text[at] == ']') break;
    const std::size_t begin = at;
    int depth = 0;
    bool in_string = false;
    for (;; ++at) {
      const char c = text[at];
      if (in_string) {
        if (c == '\\') ++at;
        if (c == '"') in_string = false;
        continue;
      }
      if (c == '"') in_string = true;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) break;
    }
    p.events.push_back(text.substr(begin, ++at - begin));
  }
  p.after = text.substr(at);
  return p;
}

std::string Join(const Pieces& p) {
  std::string text = p.before;
  for (std::size_t i = 0; i < p.events.size(); ++i) text += (i == 0 ? "" : ",") + p.events[i];
  return text + p.after;
}

template <class T>
void Shuffle(std::vector<T>& v, Random& random) {
  for (std::size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[random.Below(i)]);
}

// Members of each event and of its args in another order; values keep their spelling.
std::string ReorderKeys(const std::string& event, Random& random) {
  // Numbers must keep their digits, so that no JSON library writes them: they go in as strings.
  std::string quoted;
  bool in_string = false;
  for (std::size_t i = 0; i < event.size(); ++i) {
    const char c = event[i];
    if (in_string) {
      quoted += c;
      if (c == '\\') quoted += event[++i];
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') {
      in_string = true;
      quoted += c;
    } else if ((c >= '0' && c <= '9') || c == '-') {
      quoted += "\"@";
      while (std::string_view("+-.eE0123456789").find(event[i]) != std::string_view::npos) {
        quoted += event[i++];
      }
      quoted += '"';
      --i;
    } else {
      quoted += c;
    }
  }
  const auto shuffled = [&random](const Json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    Shuffle(keys, random);
    Json out = Json::object();
    for (const std::string& key : keys) out[key] = object[key];
    return out;
  };
  Json j = Json::parse(quoted, nullptr, false);
  if (j.is_discarded()) return event;
  j = shuffled(j);
  if (j.contains("args") && j["args"].is_object()) j["args"] = shuffled(j["args"]);
  const std::string dumped = j.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  for (std::size_t i = 0; i < dumped.size(); ++i) {
    if (dumped.compare(i, 2, "\"@") != 0) {
      text += dumped[i];
      continue;
    }
    for (i += 2; dumped[i] != '"'; ++i) text += dumped[i];
  }
  return text;
}

// "ts" plus whole microseconds.
std::string Shift(const std::string& text, long long by) {
  std::string out;
  const std::string key = "\"ts\":";
  std::size_t from = 0;
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    at += key.size();
    while (text[at] == ' ') ++at;
    out.append(text, from, at - from);
    char* end = nullptr;
    const long long whole = std::strtoll(text.c_str() + at, &end, 10);
    out += std::to_string(whole + by);
    from = at = static_cast<std::size_t>(end - text.c_str());
  }
  return out.append(text, from, std::string::npos);
}

// Figures without the places of steps, which a shift moves.
std::string WithoutPlaces(const std::string& figures) {
  Json j = Json::parse(figures);
  for (Json& rank : j["ranks"]) {
    for (Json& step : rank["steps"]) {
      step.erase("begin_ns");
      step.erase("end_ns");
    }
  }
  return j.dump();
}

std::vector<std::string> Traces() {
  std::vector<std::string> traces = {Document(BusyEvents(4, 30))};
  if (const char* corpora = std::getenv("ATTUNE_CORPORA"); corpora != nullptr) {
    for (const char* name : {"hta_mi250_minitoy.json.gz", "hta_simple_add.json.gz",
                             "param_dlrm8_rank1.json.gz", "tl_sglang_decode_graph.json.gz"}) {
      const std::string text = ReadAll(std::string(corpora) + "/traces/" + name);
      EXPECT_FALSE(text.empty()) << name;
      traces.push_back(text);
    }
  }
  return traces;
}

TEST(Metamorphic, TheOrderOfEventsDoesNotMatter) {
  Random random(11);
  for (const std::string& text : Traces()) {
    Pieces p = Split(text);
    const std::string want = Figures(MustRead(text));
    for (int round = 0; round < 3; ++round) {
      Shuffle(p.events, random);
      ASSERT_EQ(Figures(MustRead(Join(p))), want);
    }
  }
}

TEST(Metamorphic, TheOrderOfKeysDoesNotMatter) {
  Random random(12);
  for (const std::string& text : Traces()) {
    Pieces p = Split(text);
    const std::string want = Figures(MustRead(text));
    for (std::string& event : p.events) event = ReorderKeys(event, random);
    ASSERT_EQ(Figures(MustRead(Join(p))), want);
  }
}

TEST(Metamorphic, AConstantAddedToAllTimesChangesNothing) {
  for (const std::string& text : Traces()) {
    const std::string want = WithoutPlaces(Figures(MustRead(text)));
    for (const long long by : {1LL, 123'456'789LL, 1'600'000'000'000'000LL}) {
      ASSERT_EQ(WithoutPlaces(Figures(MustRead(Shift(text, by)))), want) << by;
    }
  }
}

TEST(Metamorphic, CompressionInMembersChangesNothing) {
  for (const std::string& text : Traces()) {
    const std::string want = Figures(MustRead(text));
    for (const int members : {1, 5, 40}) {
      const std::string packed = Gzip(text, members);
      const auto source = Inflate(FromMemory(packed, 5000));
      std::string unpacked;
      std::vector<char> buffer(100'000);
      for (;;) {
        const auto got = source->Read(buffer.data(), buffer.size());
        ASSERT_TRUE(got.has_value());
        if (*got == 0) break;
        unpacked.append(buffer.data(), *got);
      }
      ASSERT_EQ(unpacked, text);
      ASSERT_EQ(Figures(MustRead(unpacked)), want);
    }
  }
}

TEST(Metamorphic, MetadataBeforeOrAfterTheEvents) {
  const std::vector<std::string> events = BusyEvents(3, 5);
  const std::string meta =
      "\"baseTimeNanoseconds\": 1700000000000000000, \"distributedInfo\": {\"rank\": 1, "
      "\"world_size\": 2}";
  const std::string before = Document(events, meta);
  std::string after = Document(events, "");
  after.insert(after.rfind('}'), ", " + meta);
  EXPECT_EQ(Figures(MustRead(before)), Figures(MustRead(after)));
}

TEST(Metamorphic, ACutAtEvery997thByteNeverPassesForWhole) {
  std::vector<std::string> traces = Traces();
  for (const std::string& text : traces) {
    const std::size_t complete = text.find_last_of("]}") + 1;
    // Of a large one some cuts: each costs a reading.
    const std::size_t stride = 997 * (1 + complete / 400'000);
    for (std::size_t cut = 997; cut < complete; cut += stride) {
      const auto read = ReadText(std::string_view(text).substr(0, cut));
      if (!read) continue;
      ASSERT_FALSE(read->trace.whole) << cut << " of " << complete;
    }
  }
}

}  // namespace
}  // namespace attune::traces
