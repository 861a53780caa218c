// Reading shared by the kinds `failures` and `logs`: a folder of texts with an expected.tsv.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/logs/log_parser.h"

namespace attune::corpus {

// Files of a folder by name, and the cells that expected.tsv has for each (column -> text). Without
// an expected.tsv every file of the folder is a row with no cells.
struct Folder {
  struct File {
    std::string name, bytes;
    std::map<std::string, std::string> cells;
  };
  std::vector<File> files;
};
Result<Folder> ReadFolder(const std::string& path);

// All the news of one text, read in one go.
struct WholeLog {
  std::string dialect;  // detected; empty: none
  LogNews news;
};
WholeLog ReadWholeLog(std::string_view bytes);

}  // namespace attune::corpus
