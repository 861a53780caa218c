// What diagnose prints of traces and logs, word for word, for people and for programs. The traces
// are made here.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "unit/traces/kineto_text.h"

namespace attune::cli {
namespace {

using traces::AnnotationEvent;
using traces::BusyEvents;
using traces::Document;
using traces::Gzip;
using traces::KernelEvent;
using traces::LaunchEvent;

std::string OfRank(int rank, int of) {
  return fmt::format(
      "\"schemaVersion\": 1, \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, "
      "\"world_size\": {}}}, \"deviceProperties\": [{{\"id\": 0, \"name\": \"GPU of a test\", "
      "\"numSms\": 100}}]",
      rank, of);
}

// Four steps of a millisecond: a GEMM, then an all-reduce that ends at the same moment on every
// rank; `late`: how long after its peers this rank enters it.
std::string OneOfAGroup(int rank, int of, std::int64_t late) {
  std::vector<std::string> events;
  for (int step = 0; step < 4; ++step) {
    const std::int64_t host = 1'000'000 + step * 1'000'000;
    const std::int64_t id = 10 * step + 1;
    events.push_back(AnnotationEvent(fmt::format("ProfilerStep#{}", step), host, 999'000));
    events.push_back(LaunchEvent(host + 10'000, id));
    events.push_back(KernelEvent("sm90_gemm_bf16", host + 20'000, 500'000 + late, id));
    events.push_back(LaunchEvent(host + 15'000, id + 1));
    events.push_back(KernelEvent(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", host + 530'000 + late, 440'000 - late, id + 1,
        20,
        ", \"Collective name\": \"allreduce\", \"In msg nelems\": 4096, \"dtype\": \"BFloat16\", "
        "\"Group size\": 2, \"Process Group Name\": \"0\", \"Process Group Description\": "
        "\"default_pg\""));
  }
  return Document(events, OfRank(rank, of));
}

class DiagnoseGolden : public Program {
 protected:
  std::string Out(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"diagnose"};
    all.insert(all.end(), words.begin(), words.end());
    const os::CommandResult result = Attune(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
  // Laid out in lines, so that a change of one figure is a change of one line.
  std::string Json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const std::string text = Out(words);
    const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << text;
    return json.dump(1) + "\n";
  }
};

TEST_F(DiagnoseGolden, OneRankIsToldByStepsClassesKernelsAndStreams) {
  Write("trace.json.gz", Gzip(Document(BusyEvents(5, 8), OfRank(3, 8)), 2));
  ExpectGolden("diagnose-one-rank", Out({"trace.json.gz"}));
  ExpectGolden("diagnose-one-rank-json", Json({"trace.json.gz"}));
}

TEST_F(DiagnoseGolden, RanksAreComparedAndTheLateOneIsNamed) {
  Write("rank0_.json", OneOfAGroup(0, 2, 0));
  Write("rank1_.json", OneOfAGroup(1, 2, 300'000));
  ExpectGolden("diagnose-two-ranks", Out({"."}));
  ExpectGolden("diagnose-two-ranks-json", Json({"."}));
}

TEST_F(DiagnoseGolden, ACutTraceAndAFailedLogSayWhatTheyAre) {
  const std::string whole = OneOfAGroup(0, 1, 0);
  Write("cut.json", whole.substr(0, whole.size() * 6 / 10));
  std::string log;
  for (int i = 1; i <= 12; ++i) {
    log += fmt::format(
        " iteration {:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): "
        "{:.1f} | learning rate: 1.000000E-04 | global batch size:     8 | lm loss: "
        "{:.6f}E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |\n",
        i, 8 * i, i == 7 ? 900.0 : 400.0, 9.5 - 0.1 * i);
  }
  log += "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n";
  Write("train.log", log);
  ExpectGolden("diagnose-cut-and-log", Out({"cut.json", "train.log"}));
  ExpectGolden("diagnose-cut-and-log-json", Json({"cut.json", "train.log"}));
}

// What the diagnosis reads from a simulated job's trace is what the job was made from: the shares
// that only this test reads, within two points.
TEST_F(DiagnoseGolden, TheSharesOfASimulatedJobAreFoundInItsTrace) {
  const std::string recipe = ATTUNE_SOURCE_DIR "/examples/glm-4.7-flash-h200x8/recipe.yaml";
  const auto plan = nlohmann::json::parse(Attune({"plan", recipe, "--json"}).out);
  const auto argv = plan["launch"]["argv"].get<std::vector<std::string>>();
  auto at = std::find_if(argv.begin(), argv.end(),
                         [](const std::string& word) { return word.ends_with(".py"); });
  ASSERT_NE(at, argv.end());
  std::vector<std::string> words = {
      "sim-train", "--world",         "default:1", "--gpu",   "H200",   "--gpus",
      "8",         "--gpus-per-node", "8",         "--speed", "100000", "--stack",
      "megatron-lm=1dcf0da",          "--truth",   folder_ + "/truth.json", "--"};
  const std::map<std::string, std::string> own = {{"--profile-step-start", "8"},
                                                  {"--profile-step-end", "10"},
                                                  {"--exit-interval", "14"},
                                                  {"--tensorboard-dir", folder_ + "/traces"}};
  for (++at; at != argv.end(); ++at) {
    words.push_back(*at);
    if (const auto mine = own.find(*at); mine != own.end()) {
      words.push_back(mine->second);
      ++at;
    }
  }
  ASSERT_EQ(mkdir((folder_ + "/traces").c_str(), 0700), 0);
  const os::CommandResult job = Attune(words);
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const auto truth = nlohmann::json::parse(Slurp(folder_ + "/truth.json"))["shares"];
  const auto read = nlohmann::json::parse(Json({folder_ + "/traces"}))["traces"]["ranks"];
  ASSERT_EQ(read.size(), 1u);
  const auto time = read[0]["analysed"]["time"];
  const auto share = [&](const char* part) {
    return time[part].get<double>() / time["span_ns"].get<double>();
  };
  EXPECT_NEAR(share("compute_ns"), truth["compute"].get<double>(), 0.02);
  EXPECT_NEAR(share("exposed_comm_ns"), truth["exposed"].get<double>(), 0.02);
  EXPECT_NEAR(share("idle_ns"), truth["idle"].get<double>(), 0.02);
  EXPECT_GT(share("compute_ns"), 0.05);  // a job without work would agree with anything
}

}  // namespace
}  // namespace attune::cli
