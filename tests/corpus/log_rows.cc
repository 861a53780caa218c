#include "log_rows.h"

#include <algorithm>
#include <filesystem>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "corpus.h"

namespace attune::corpus {
namespace fs = std::filesystem;

Result<Folder> ReadFolder(const std::string& path) {
  std::map<std::string, std::map<std::string, std::string>> cells;
  const fs::path folder(path);
  std::error_code ec;
  if (fs::exists(folder / "expected.tsv", ec)) {
    ATTUNE_TRY(const std::string table, ReadFile((folder / "expected.tsv").string()));
    std::vector<std::string_view> header;
    for (const std::string_view line : SplitLines(table)) {
      const std::vector<std::string_view> row = Split(line, '\t');
      if (header.empty()) {
        header = row;
        continue;
      }
      if (row.empty() || row[0].empty()) continue;
      auto& of_file = cells[std::string(row[0])];
      for (std::size_t i = 1; i < row.size() && i < header.size(); ++i) {
        of_file[std::string(header[i])] = std::string(row[i]);
      }
    }
  } else {
    fs::directory_iterator it(folder, ec);
    if (ec) return Fail(ErrorCode::kNotFound, "cannot read " + path + ": " + ec.message());
    for (; it != fs::directory_iterator(); it.increment(ec)) {
      const std::string name = it->path().filename().string();
      if (it->is_regular_file(ec) && !name.ends_with(".tsv")) cells[name];
    }
  }
  if (cells.empty()) return Fail(ErrorCode::kInvalidInput, path + " holds no rows");
  Folder out;
  for (auto& [name, row] : cells) {
    ATTUNE_TRY(std::string bytes, ReadFile((folder / name).string()));
    out.files.push_back({name, std::move(bytes), std::move(row)});
  }
  return out;
}

WholeLog ReadWholeLog(std::string_view bytes) {
  WholeLog log;
  log.dialect = DetectDialect(bytes);
  // A failure needs no dialect; Megatron's is the one with rules of its own for it.
  auto parser = MakeLogParser({log.dialect.empty() ? "megatron-lm" : log.dialect, ""});
  ATTUNE_CHECK(parser.has_value(), "a detected dialect has a parser");
  (*parser)->Feed(bytes, -1);
  (*parser)->Finish();
  log.news = (*parser)->Take();
  return log;
}

}  // namespace attune::corpus
