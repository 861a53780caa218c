#include "event_json.h"

#include <cmath>
#include <limits>

#include "attune/base/random.h"
#include "event_fields.h"
#include "gtest/gtest.h"

namespace attune {
namespace {

using store_fields::Care;
using store_fields::Fields;
using store_fields::kLast;

// Fills every field of a fact with odd values: the visitor that the codec uses to write and read.
struct Filler {
  Random& random;

  std::string Text() {
    static const char* const kTexts[] = {"",         "a",      "--micro-batch-size", "\"\\\n\t\x01",
                                         "ünï→日本", "\u202e", "{\"x\":1}",          "nan"};
    return kTexts[random.Below(std::size(kTexts))] + std::to_string(random.Below(1000));
  }
  double Number(Care care) {
    switch (random.Below(care == Care::kLoose ? 9 : 6)) {
      case 0:
        return 0.0;
      case 1:
        return -1e-308;
      case 2:
        return 0.1 + 0.2;
      case 3:
        return 1.7976931348623157e308;
      case 4:
        return -123456789.123456789;
      case 5:
        return random.Normal();
      case 6:
        return std::numeric_limits<double>::quiet_NaN();
      case 7:
        return std::numeric_limits<double>::infinity();
      default:
        return -std::numeric_limits<double>::infinity();
    }
  }

  template <class T>
  void operator()(const char*, T& x, Care care = Care::kExact) {
    Fill(x, care);
  }

  void Fill(bool& x, Care) { x = random.Below(2) == 1; }
  void Fill(double& x, Care care) { x = Number(care); }
  void Fill(std::string& x, Care) { x = Text(); }
  void Fill(Millis& x, Care) { x = Millis{static_cast<std::int64_t>(random.Next() >> 2)}; }
  void Fill(GpuMillis& x, Care) { x.value = static_cast<std::int64_t>(random.Next()); }
  template <class T>
  void Fill(Id<T>& x, Care) {
    x.value = Text();
  }
  template <class T>
  void Fill(std::optional<T>& x, Care care) {
    x.reset();
    if (random.Below(2) == 1) Fill(x.emplace(), care);
  }
  template <class T>
  void Fill(std::vector<T>& x, Care care) {
    x.clear();
    x.resize(random.Below(4));
    for (T& item : x) Fill(item, care);
  }
  template <class A, class B>
  void Fill(std::pair<A, B>& x, Care care) {
    Fill(x.first, care);
    Fill(x.second, care);
  }
  template <class T>
  void Fill(std::map<std::string, T>& x, Care care) {
    x.clear();
    for (std::uint64_t i = random.Below(4); i > 0; --i) Fill(x[Text()], care);
  }
  void Fill(Arguments& x, Care care) {
    std::vector<Argument> items;
    Fill(items, care);
    x = Arguments(std::move(items));
  }
  template <class T>
  void Fill(T& x, Care) {
    if constexpr (std::is_enum_v<T>) {
      x = static_cast<T>(random.Below(static_cast<std::uint64_t>(kLast<T>) + 1));
    } else if constexpr (std::is_integral_v<T>) {
      const std::uint64_t bits = random.Next();
      x = random.Below(3) == 0 ? std::numeric_limits<T>::max() : static_cast<T>(bits);
    } else {
      Fields(*this, x);
    }
  }
};

template <std::size_t... I>
std::vector<Fact> OneOfEach(std::index_sequence<I...>) {
  return {Fact(std::in_place_index<I>)...};
}
std::vector<Fact> EveryKind() {
  return OneOfEach(std::make_index_sequence<std::variant_size_v<Fact>>{});
}

TEST(EventJson, EveryKindOfFactReadsBackAsItWasWritten) {
  Random random(20261130);
  for (Fact fact : EveryKind()) {
    for (int round = 0; round < 60; ++round) {
      std::visit([&](auto& f) { Filler{random}.Fill(f, Care::kExact); }, fact);
      const Result<std::string> body = EncodeFact(fact);
      ASSERT_TRUE(body) << body.error().message;
      const Result<Fact> back = DecodeFact(FactWord(fact), *body);
      ASSERT_TRUE(back) << back.error().message << "\n" << *body;
      EXPECT_EQ(back->index(), fact.index());
      const Result<std::string> again = EncodeFact(*back);
      ASSERT_TRUE(again);
      EXPECT_EQ(*again, *body) << FactWord(fact);
    }
  }
}

// Events stay as they were stored, whatever writes them.
TEST(EventJson, EscapesAndDigitsAreThoseOfEarlierVersions) {
  RunEnded ended;
  ended.detail.cause = std::string("q\"b\\c\x08\x0c\n\r\t\x01\x1f\x7f/\xc3\xbc");
  EXPECT_NE(EncodeFact(ended).value().find("q\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/\xc3\xbc"),
            std::string::npos)
      << EncodeFact(ended).value();
  Step step;
  for (const auto& [number, text] :
       std::vector<std::pair<double, std::string>>{{1, "1.0"},
                                                   {-0.0, "-0.0"},
                                                   {1e22, "1e+22"},
                                                   {1e15, "1e+15"},
                                                   {1e-7, "1e-07"},
                                                   {0.1 + 0.2, "0.30000000000000004"}}) {
    step.printed_ms = number;
    const std::string body = EncodeFact(StepsSeen{RunId("r1"), {step}}).value();
    EXPECT_NE(body.find("\"printed_ms\":" + text + ","), std::string::npos) << body;
  }
}

TEST(EventJson, AFieldThatIsMissingUnknownOrTwiceIsRefusedForEveryKind) {
  Random random(7);
  for (Fact fact : EveryKind()) {
    std::visit([&](auto& f) { Filler{random}.Fill(f, Care::kExact); }, fact);
    const std::string body = EncodeFact(fact).value();
    const std::string_view word = FactWord(fact);
    const std::string rest = body.substr(1);
    const Result<Fact> unknown = DecodeFact(word, "{\"zz_new\":1," + rest);
    ASSERT_FALSE(unknown) << word;
    EXPECT_EQ(unknown.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(unknown.error().message.find("zz_new: unknown field"), std::string::npos);
    const Result<Fact> empty = DecodeFact(word, "{}");
    ASSERT_FALSE(empty) << word;
    EXPECT_NE(empty.error().message.find("missing"), std::string::npos);
    // The first field once more.
    const std::string first = rest.substr(0, rest.find(':'));
    const Result<Fact> twice = DecodeFact(word, "{" + first + ":0," + rest);
    ASSERT_FALSE(twice) << word;
    EXPECT_NE(twice.error().message.find("stands twice"), std::string::npos);
  }
}

// Facts only grow: what an earlier version did not write has its default.
TEST(EventJson, AnEventOfAnEarlierVersionIsRead) {
  const Result<Fact> fact = DecodeFact(
      "diagnosed", R"({"run":"r001","diagnosis":{"source":"log","summary":"s","bottlenecks":[]}})");
  ASSERT_TRUE(fact) << fact.error().message;
  const Diagnosis& d = std::get<Diagnosed>(*fact).diagnosis;
  EXPECT_EQ(d.source, "log");
  EXPECT_TRUE(d.times.empty() && d.traces.empty() && d.notes.empty());
}

TEST(EventJson, ACutBodyIsCorruptAtEveryByte) {
  StepsSeen seen;
  seen.id = RunId("r001");
  seen.steps.resize(2);
  seen.steps[0].losses["lm loss"] = std::nan("");
  const std::string body = EncodeFact(seen).value();
  for (std::size_t n = 0; n < body.size(); ++n) {
    const Result<Fact> fact = DecodeFact("steps_seen", body.substr(0, n));
    ASSERT_FALSE(fact) << n;
    EXPECT_EQ(fact.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_TRUE(DecodeFact("steps_seen", body));
}

TEST(EventJson, TheStoredFormOfAStepIsWhatTheFormatPageSays) {
  Step step;
  step.iteration = 12;
  step.printed_ms = 20.5;
  step.losses["lm loss"] = std::nan("");
  step.nan = true;
  EXPECT_EQ(EncodeFact(StepsSeen{RunId("r007"), {step}}).value(),
            R"({"run":"r007","steps":[{"arrival_ms":-1,"consumed_samples":null,"cut":false,)"
            R"("global_batch":null,"grad_norm":null,"iteration":12,"learning_rate":null,)"
            R"("losses":{"lm loss":"NaN"},"nan":true,"printed_ms":20.5,"skipped":0,)"
            R"("tokens":null}]})");
}

TEST(EventJson, ALossThatIsNoNumberComesBackAsNoNumber) {
  Step step;
  step.losses["lm loss"] = std::nan("");
  step.grad_norm = std::numeric_limits<double>::infinity();
  const std::string body = EncodeFact(StepsSeen{RunId("r1"), {step}}).value();
  const Fact fact = DecodeFact("steps_seen", body).value();
  const Step& back = std::get<StepsSeen>(fact).steps[0];
  EXPECT_TRUE(std::isnan(back.losses.at("lm loss")));
  EXPECT_EQ(back.grad_norm, std::numeric_limits<double>::infinity());
}

TEST(EventJson, AGainOrABandThatIsNotFiniteIsRefusedByName) {
  Judged judged;
  judged.gain = std::nan("");
  const Result<std::string> body = EncodeFact(judged);
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(body.error().message, "fact judged can't be stored: gain: a number that is not finite");
  Calibrated calibrated;
  calibrated.calibration.band = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(EncodeFact(calibrated));
  // A string in its place is no number either.
  EXPECT_FALSE(DecodeFact("shipped", R"({"bundle":"b","recipe_path":"r","gain":"NaN"})"));
}

TEST(EventJson, BadBytesAreReplacedInFreeTextAndRefusedWhereTextHasMeaning) {
  RunEnded ended;
  ended.detail.cause = "said \xff\xfe and died";
  const std::string body = EncodeFact(ended).value();
  EXPECT_NE(body.find("said \xEF\xBF\xBD\xEF\xBF\xBD and died"), std::string::npos);
  EXPECT_TRUE(DecodeFact("run_ended", body));

  LaunchIntended intended;
  intended.runs.resize(1);
  intended.runs[0].argv = {"python3", "--data=\xff"};
  const Result<std::string> refused = EncodeFact(intended);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("runs[0].argv[1]: text that is not UTF-8"),
            std::string::npos)
      << refused.error().message;
}

TEST(EventJson, TwoPrintedNamesThatDifferInBadBytesOnlyDoNotSpoilTheRecord) {
  DumpSeen dump{RunId("r1"), {{"a\xff", "1"}, {"a\xfe", "2"}, {"lr", "3"}}};
  const std::string body = EncodeFact(dump).value();
  const Result<Fact> back = DecodeFact("dump_seen", body);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<DumpSeen>(*back).block.at("lr"), "3");
}

TEST(EventJson, WrongTypesAndUnknownWordsAreNamed) {
  const auto message = [](const char* word, const char* body) {
    const Result<Fact> fact = DecodeFact(word, body);
    return fact ? std::string("accepted") : fact.error().message;
  };
  EXPECT_EQ(message("opened2", "{}"), "unknown kind of event \"opened2\"");
  EXPECT_EQ(message("phase_set", R"({"phase":"resting","reason":"","stop":""})"),
            "phase_set: phase: unknown word \"resting\"");
  EXPECT_EQ(message("budget_set", R"({"budget_gpu_ms":1.5,"why":""})"),
            "budget_set: budget_gpu_ms: expected an integer");
  EXPECT_EQ(message("budget_set", R"({"budget_gpu_ms":9223372036854775808,"why":""})"),
            "budget_set: budget_gpu_ms: integer out of range");
  EXPECT_EQ(message("paused", R"({"why":"","exit_code":4294967296})"),
            "paused: exit_code: integer out of range");
  EXPECT_EQ(message("paused", R"({"why":"","exit_code":-2147483649})"),
            "paused: exit_code: integer out of range");
  EXPECT_EQ(message("stop_sent", R"({"run":null})"), "stop_sent: run: expected a text");
  EXPECT_EQ(message("stop_sent", R"([])"), "stop_sent: expected an object");
  EXPECT_EQ(message("stop_sent", R"({"run":"r1"} x)"), "stop_sent: body is no JSON");
}

TEST(EventJson, ALineOfTheExportNamesCampaignSeqTimeAndKind) {
  const Event event{.seq = 3, .at = Instant{1'795'000'000'123}, .fact = StopSent{RunId("r\"1")}};
  EXPECT_EQ(EventLine(CampaignId("c-1"), event).value(),
            R"({"schema":"attune.event/1","campaign":"c-1","seq":3,)"
            R"("at":"2026-11-18T11:06:40.123Z","kind":"stop_sent","body":{"run":"r\"1"}})");
}

}  // namespace
}  // namespace attune
