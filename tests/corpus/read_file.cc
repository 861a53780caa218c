#include <fstream>
#include <iterator>

#include "corpus.h"

namespace attune::corpus {

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Fail(ErrorCode::kNotFound, "cannot open " + path);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return Fail(ErrorCode::kUnavailable, "cannot read " + path);
  return bytes;
}

}  // namespace attune::corpus
