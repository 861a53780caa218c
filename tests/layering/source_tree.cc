#include "source_tree.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "attune/base/text.h"

namespace attune::layering {
namespace {

bool Skipped(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name == "__pycache__" || name == "prepared" || name.starts_with("build");
}

}  // namespace

SourceTree ReadTree(const std::string& root, const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  SourceTree tree;
  for (const std::string& folder : folders) {
    const fs::path start = fs::path(root) / folder;
    if (!fs::exists(start)) {
      continue;
    }
    for (fs::recursive_directory_iterator it(start), end; it != end; ++it) {
      if (it->is_directory() && Skipped(it->path())) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        std::ifstream in(it->path(), std::ios::binary);
        std::ostringstream text;
        text << in.rdbuf();
        tree[fs::relative(it->path(), root).generic_string()] = text.str();
      }
    }
  }
  return tree;
}

std::vector<Include> IncludesOf(std::string_view text) {
  std::vector<Include> includes;
  int number = 0;
  for (const std::string_view line : SplitLines(text)) {
    ++number;
    std::string_view rest = Trim(line);
    if (!rest.starts_with('#')) {
      continue;
    }
    rest = Trim(rest.substr(1));
    if (!rest.starts_with("include")) {
      continue;
    }
    rest = Trim(rest.substr(7));
    const bool quoted = rest.starts_with('"');
    if (!quoted && !rest.starts_with('<')) {
      continue;
    }
    rest.remove_prefix(1);
    const std::size_t close = rest.find(quoted ? '"' : '>');
    includes.push_back({number, quoted, std::string(rest.substr(0, close))});
  }
  return includes;
}

std::string WithoutLineComments(std::string_view text) {
  std::string out;
  for (const std::string_view line : SplitLines(text)) {
    out += line.substr(0, line.find("//"));
    out += '\n';
  }
  return out;
}

std::string FolderOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? "" : path.substr(0, slash));
}

std::string NameOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool IsHeader(std::string_view path) { return path.ends_with(".h") || path.ends_with(".inc"); }
bool IsSource(std::string_view path) { return path.ends_with(".cc"); }

}  // namespace attune::layering
