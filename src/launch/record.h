// The one format of every small file in a run folder: typed by its first line, values
// length-prefixed so that any byte arrives, closed by a hash so that a file cut anywhere is known
// to be torn. docs/formats/run_folder.md describes it byte by byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/result.h"

namespace attune::launch {

class Record {
 public:
  explicit Record(std::string kind) : kind_(std::move(kind)) {}

  void Add(std::string key, std::string value) {
    fields_.emplace_back(std::move(key), std::move(value));
  }
  void Add(std::string key, std::int64_t value) { Add(std::move(key), std::to_string(value)); }

  const std::string& kind() const { return kind_; }
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }
  // The first field of that name; nullopt when absent, or no number where one is wanted.
  std::optional<std::string> Text(std::string_view key) const;
  std::optional<std::int64_t> Int(std::string_view key) const;

  std::string Encode() const;

 private:
  std::string kind_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

// kCorrupt: torn, or not a record of this kind. kNewerFormat: a version this program does not know.
Result<Record> DecodeRecord(std::string_view bytes, std::string_view kind);

}  // namespace attune::launch
