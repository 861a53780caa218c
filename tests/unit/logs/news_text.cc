#include "news_text.h"

#include <fmt/core.h>

#include "attune/base/check.h"

namespace attune::testing_logs {
namespace {

std::unique_ptr<LogParser> Parser(const LogSpec& spec) {
  auto parser = MakeLogParser(spec);
  ATTUNE_CHECK(parser.has_value(), "the test's log spec is good");
  return std::move(*parser);
}

void Merge(LogNews& all, LogNews news) {
  for (Step& s : news.steps) all.steps.push_back(std::move(s));
  if (news.argument_block) all.argument_block = std::move(news.argument_block);
  if (news.memory) all.memory = news.memory;
  if (news.failure) all.failure = std::move(news.failure);
  for (std::string& m : news.markers) all.markers.push_back(std::move(m));
  if (!news.last_grad_norm.empty()) all.last_grad_norm = std::move(news.last_grad_norm);
}

std::string ShowStep(const Step& s) {
  std::string line = fmt::format("step {}", s.iteration);
  if (s.printed_ms > 0) line += fmt::format(" ms={}", s.printed_ms);
  for (const auto& [name, value] : s.losses) line += fmt::format(" [{}]={}", name, value);
  if (s.grad_norm) line += fmt::format(" grad={}", *s.grad_norm);
  if (s.learning_rate) line += fmt::format(" lr={}", *s.learning_rate);
  if (s.global_batch) line += fmt::format(" gbs={}", *s.global_batch);
  if (s.consumed_samples) line += fmt::format(" samples={}", *s.consumed_samples);
  if (s.tokens) line += fmt::format(" tokens={}", *s.tokens);
  if (s.skipped != 0) line += fmt::format(" skipped={}", s.skipped);
  if (s.nan) line += " NAN";
  if (s.cut) line += " CUT";
  return line;
}

}  // namespace

std::string ShowSteps(const std::vector<Step>& steps) {
  std::string out;
  for (const Step& s : steps) out += ShowStep(s) + "\n";
  return out;
}

std::string ShowNews(const LogNews& all, const std::map<std::string, std::int64_t>& notes) {
  std::string out = ShowSteps(all.steps);
  if (all.argument_block) {
    for (const auto& [key, value] : *all.argument_block) {
      out += fmt::format("argument {}={}\n", key, value);
    }
  }
  if (all.memory) {
    out += fmt::format("memory allocated={} reserved={}\n", all.memory->max_allocated,
                       all.memory->max_reserved);
  }
  for (const std::string& m : all.markers) out += "marker " + m + "\n";
  if (all.failure && !all.failure->cls.empty()) {
    out += fmt::format("failure {}{} line {}: {}\n", all.failure->cls,
                       all.failure->fatal ? " FATAL" : "", all.failure->line_number,
                       all.failure->line);
    if (!all.failure->detail.empty()) out += "detail " + all.failure->detail + "\n";
  }
  for (const auto& [name, count] : notes) out += fmt::format("note {}={}\n", name, count);
  return out;
}

std::string ReadPieces(const LogSpec& spec, const std::vector<std::string_view>& pieces) {
  const auto parser = Parser(spec);
  LogNews all;
  for (const std::string_view piece : pieces) {
    parser->Feed(piece, -1);
    Merge(all, parser->Take());
  }
  parser->Finish();
  Merge(all, parser->Take());
  return ShowNews(all, parser->Notes());
}

std::string ReadWhole(const LogSpec& spec, std::string_view log) { return ReadPieces(spec, {log}); }

LogNews NewsOf(const LogSpec& spec, std::string_view log) {
  const auto parser = Parser(spec);
  parser->Feed(log, -1);
  parser->Finish();
  return parser->Take();
}

}  // namespace attune::testing_logs
