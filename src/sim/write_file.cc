#include "write_file.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>

namespace attune::sim {

Status WriteFile(const std::string& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return Fail(ErrorCode::kDenied, fmt::format("{} cannot be written", path));
  return {};
}

}  // namespace attune::sim
