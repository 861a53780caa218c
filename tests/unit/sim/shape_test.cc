// Parameter and FLOP counts against what the models' authors and NVIDIA's counter state.
#include "shape.h"

#include "jobs.h"

namespace attune::sim {
namespace {

ModelShape Shape(std::string_view name, bool mtp = false) {
  ModelShape s = ShapeOf(*FindModel(name));
  if (!mtp) s.mtp_layers = 0;
  return s;
}

TEST(Flops, MatchTheVendorsCounter) {
  const struct {
    const char* model;
    double seq, gflops, tolerance;
  } rows[] = {{"Llama-3.1-405B", 8192, 2524, 0.002},   {"Llama-3.1-70B", 8192, 449.3, 0.002},
              {"Llama-3.1-8B", 8192, 51.5, 0.002},     {"DeepSeek-V3", 4096, 249.7, 0.005},
              {"Qwen3-30B-A3B", 4096, 23.0, 0.01},     {"Qwen3-235B-A22B", 4096, 148.0, 0.005},
              {"Moonlight-16B-A3B", 4096, 17.3, 0.01}, {"GPT-OSS-120B", 4096, 32.6, 0.01}};
  for (const auto& row : rows) {
    const double flops = FlopsPerToken(Shape(row.model), row.seq) / 1e9;
    EXPECT_NEAR(flops, row.gflops, row.gflops * row.tolerance) << row.model;
  }
}

TEST(Flops, HybridModelsStayALittleBelowTheCounter) {
  // The counter treats scan and token prediction differently: 22.3 and 85 GFLOP a token.
  EXPECT_NEAR(FlopsPerToken(Shape("Nemotron-3-Nano-30B-A3B"), 8192) / 1e9, 20.8, 0.5);
  EXPECT_NEAR(FlopsPerToken(Shape("Nemotron-3-Super-120B-A12B"), 8192) / 1e9, 75.7, 1.5);
}

TEST(Parameters, MatchWhatTheAuthorsClaim) {
  const struct {
    const char* model;
    double billions;
  } rows[] = {{"Llama-3.1-405B", 405.9},
              {"Llama-3.1-70B", 70.6},
              {"GLM-4.5", 355},
              {"DeepSeek-V3", 671},
              {"MiniMax-M2", 229},
              {"Qwen3-235B-A22B", 235},
              {"Mixtral-8x22B", 141},
              {"GPT-OSS-120B", 116.8},
              {"Kimi-K2", 1026},
              {"Moonlight-16B-A3B", 16},
              {"Qwen3.5-397B-A17B", 397},
              {"Nemotron-3-Nano-30B-A3B", 31.6},
              {"Nemotron-3-Super-120B-A12B", 120.6}};
  for (const auto& row : rows) {
    EXPECT_NEAR(TotalParameters(Shape(row.model)) / 1e9, row.billions, row.billions * 0.012)
        << row.model;
  }
}

TEST(Parameters, EveryModelOfTheTableHasAShapeThatAddsUp) {
  for (const ModelRow& row : KnownModels()) {
    const ModelShape s = ShapeOf(row);
    EXPECT_GT(TotalParameters(s), 1e8) << row.name;
    EXPECT_LE(ActiveMatmulParameters(s), TotalParameters(s) * 1.1) << row.name;
    if (!s.hybrid_pattern.empty()) {
      EXPECT_EQ(s.hybrid_pattern.size(), static_cast<std::size_t>(s.layers)) << row.name;
    }
  }
}

TEST(AttendedTokens, WindowOnHalfTheLayersAveragesWithFullAttention) {
  ModelShape s = Shape("GPT-OSS-120B");
  EXPECT_DOUBLE_EQ(AttendedTokens(s, 4096), (128 + 2048) / 2.0);
  s.window = 0;
  EXPECT_DOUBLE_EQ(AttendedTokens(s, 4096), 2048);
}

TEST(LayerOrder, PutsDenseLayersFirstAndFullAttentionLastOfItsPeriod) {
  std::size_t cursor = 0;
  const ModelShape glm = Shape("GLM-4.5");
  const LayerOrder order(glm);
  EXPECT_EQ(order.At(2, cursor), LayerKind::kDense);
  EXPECT_EQ(order.At(3, cursor), LayerKind::kMoe);
  const ModelShape qwen = Shape("Qwen3.5-122B-A10B");
  const LayerOrder periods(qwen);
  EXPECT_EQ(periods.At(2, cursor), LayerKind::kDeltaMoe);
  EXPECT_EQ(periods.At(3, cursor), LayerKind::kMoe);
}

}  // namespace
}  // namespace attune::sim
