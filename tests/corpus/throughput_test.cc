// The corpus kind `throughput`: its reader, its figures, and, where ATTUNE_CORPORA points at the
// published table, its bars and that answers come from the inputs alone.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "attune/base/text.h"
#include "corpus.h"
#include "csv.h"
#include "throughput_score.h"

namespace attune::corpus {
namespace {

using Records = std::vector<std::vector<std::string>>;

const char* const kHeader =
    "id,model,gpus,gpu,framework,stack_version,task,seq_len,gbs,mbs,tp,pp,vpp,ep,etp,cp,dp,fsdp,"
    "first_stage_layers,last_stage_layers,recompute,precision,optimizer_offload,dispatcher,"
    "ep_overlap,dp_overlap,cuda_graph,routing,other,tokens_per_s_gpu,model_tflops_gpu,mfu_pct,"
    "step_time_s,peak_mem_gb,outcome,group,split,source,notes\n";

// A file that goes away with the test.
class Table {
 public:
  explicit Table(const std::string& text) {
    char name[] = "/tmp/attune_throughput_XXXXXX";
    const int fd = mkstemp(name);
    if (fd >= 0) close(fd);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~Table() { unlink(path_.c_str()); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string RowText(const std::string& id, const std::string& model, const std::string& tokens) {
  return id + "," + model +
         ",64,H100,Megatron-LM,x,pretrain,4096,512,1,4,2,,1,,1,,0,,,none,bf16,,,,,,,," + tokens +
         ",,,,,ok,g,fit,us,\n";
}

std::vector<std::string> Answers(const std::vector<Row>& rows) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Row& row : rows) {
    if (!row.closing) lines.emplace_back(Sha256Hex(row.input), row.answer);
  }
  std::sort(lines.begin(), lines.end());
  std::vector<std::string> out;
  for (auto& [key, answer] : lines) out.push_back(answer);
  return out;
}

TEST(Csv, ReadsQuotedFieldsAndBothLineEnds) {
  const auto records = ParseCsv("a,\"b,\"\"c\"\"\",\r\n1,,2\n");
  ASSERT_TRUE(records.has_value());
  EXPECT_EQ(*records, (Records{{"a", "b,\"c\"", ""}, {"1", "", "2"}}));
}

TEST(Csv, RefusesWhatIsNotWellFormedWithItsLine) {
  for (const char* text : {"a\n\"b", "a\nb\"c\n", "a\n\"b\"c\n"}) {
    const auto records = ParseCsv(text);
    ASSERT_FALSE(records.has_value()) << text;
    EXPECT_NE(records.error().message.find("line 2"), std::string::npos) << text;
  }
}

TEST(ThroughputRows, RefuseAnotherTable) {
  const Table other("id,model\n1,2\n");
  EXPECT_FALSE(ReadThroughput({other.path()}).has_value());
  const Table narrow(std::string(kHeader) + "T1,Llama-3.1-8B\n");
  EXPECT_FALSE(ReadThroughput({narrow.path()}).has_value());
  for (const auto& [column, instead] : {std::pair{",tp,", ",tensor,"}, {",tp,", ",pp,"}}) {
    std::string header = kHeader;
    header.replace(header.find(column), std::strlen(column), instead);
    const Table wrong(header + RowText("T1", "Llama-3.1-8B", "5"));
    EXPECT_FALSE(ReadThroughput({wrong.path()}).has_value()) << header;
  }
}

TEST(ThroughputRows, AResultThatIsNoNumberSkipsItsRowAndLeavesItsAnswer) {
  const Table table(std::string(kHeader) + RowText("T1", "Llama-3.1-8B", "many") +
                    RowText("T2", "Llama-3.1-8B", "9000"));
  const auto rows = ReadThroughput({table.path()});
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ((*rows)[0].outcome, Outcome::kSkipped);
  EXPECT_EQ((*rows)[0].why, "tokens_per_s_gpu \"many\" is no number");
  EXPECT_EQ((*rows)[1].outcome, Outcome::kPassed);
  EXPECT_EQ((*rows)[0].answer, (*rows)[1].answer);
}

TEST(ThroughputRows, AModelNobodyKnowsIsNotModelled) {
  const Table table(std::string(kHeader) + RowText("T1", "Llama-9-1B", "5"));
  const auto rows = ReadThroughput({table.path()});
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->front().answer, "not modelled: no shape of model Llama-9-1B");
}

TEST(Throughput, AnswersDoNotLookAtWhatWasPublished) {
  const Table one(std::string(kHeader) + RowText("T1", "Llama-3.1-8B", "9000") +
                  RowText("T2", "Llama-3.1-70B", "900"));
  const Table other(std::string(kHeader) + RowText("a", "Llama-3.1-70B", "") +
                    RowText("b", "Llama-3.1-8B", "1"));
  const auto x = ReadThroughput({one.path()}), y = ReadThroughput({other.path()});
  ASSERT_TRUE(x && y);
  EXPECT_EQ(Answers(*x), Answers(*y));
  EXPECT_EQ(Answers(*x).size(), 2U);
}

TEST(Spearman, GivesTiesTheirMeanRank) {
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3}, {10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3}, {30, 20, 10}), -1);
  EXPECT_NEAR(Spearman({1, 1, 2}, {1, 2, 3}), 0.8660254, 1e-6);
}

TEST(Quantile, IsTheNearestRank) {
  EXPECT_DOUBLE_EQ(QuantileOf({4, 1, 3, 2}, 0.9), 4);
  EXPECT_DOUBLE_EQ(QuantileOf({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9), 9);
  EXPECT_DOUBLE_EQ(MedianOf({4, 1, 3, 2}), 2.5);
}

std::string PublishedTable() {
  const char* const corpora = std::getenv("ATTUNE_CORPORA");
  return corpora == nullptr ? "" : std::string(corpora) + "/facts/published_throughput.csv";
}

TEST(PublishedTable, MeetsEveryBar) {
  const std::string path = PublishedTable();
  if (path.empty()) GTEST_SKIP() << "ATTUNE_CORPORA is not set: no published table";
  const auto rows = ReadThroughput({path});
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  int bars = 0;
  for (const Row& row : *rows) {
    EXPECT_EQ(row.outcome, Outcome::kPassed) << row.id << ", wanted " << row.expected;
    bars += row.bar ? 1 : 0;
  }
  EXPECT_GE(bars, 7);
}

std::string Quoted(const std::string& field) {
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

TEST(PublishedTable, BlankedRenamedAndReversedItGivesTheSameAnswers) {
  const std::string path = PublishedTable();
  if (path.empty()) GTEST_SKIP() << "ATTUNE_CORPORA is not set: no published table";
  const auto text = ReadFile(path);
  ASSERT_TRUE(text.has_value());
  auto records = ParseCsv(*text);
  ASSERT_TRUE(records.has_value());
  std::reverse(records->begin() + 1, records->end());
  std::string blanked = kHeader;
  int number = 0;
  for (auto record = records->begin() + 1; record != records->end(); ++record) {
    (*record)[0] = "R" + std::to_string(++number);
    for (std::size_t i = 29; i < record->size(); ++i) (*record)[i].clear();
    std::vector<std::string> fields;
    for (const std::string& field : *record) fields.push_back(Quoted(field));
    blanked += Join(fields, ",") + "\n";
  }
  const Table table(blanked);
  const auto rows = ReadThroughput({path}), blind = ReadThroughput({table.path()});
  ASSERT_TRUE(rows && blind);
  EXPECT_EQ(Answers(*rows), Answers(*blind));
}

}  // namespace
}  // namespace attune::corpus
