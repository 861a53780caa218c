#include "case_files.h"

namespace attune::layering {
namespace {

bool IsCaseFile(std::string_view path) {
  return path.starts_with("tests/cases/") || path.starts_with("tests/data/");
}

bool CanRead(std::string_view path) {
  return path.starts_with("tests/") && !IsCaseFile(path) && !path.starts_with("tests/layering/") &&
         (IsSource(path) || IsHeader(path) || path.ends_with(".py") || path.ends_with(".sh") ||
          NameOf(path) == "CMakeLists.txt");
}

// "tests/cases/gates" in text, but not as the beginning of "tests/cases/gates_more".
bool Names(std::string_view text, std::string_view folder) {
  for (std::size_t at = text.find(folder); at != std::string_view::npos;
       at = text.find(folder, at + 1)) {
    const std::string_view rest = text.substr(at + folder.size());
    const char next = rest.empty() ? '\0' : rest.front();
    const bool longer = next == '_' || next == '-' || (next >= 'a' && next <= 'z') ||
                        (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9');
    if (!longer) {
      return true;
    }
  }
  return false;
}

bool Reads(std::string_view text, std::string_view path) {
  const std::string_view inside = path.substr(std::string_view("tests/").size());
  if (Names(text, inside)) {
    return true;
  }
  const std::string name = NameOf(path);
  const std::size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? name : name.substr(dot);
  // A folder of folders may be named by its top; "cases" and "data" alone name nothing.
  for (std::string folder = FolderOf(inside); folder.find('/') != std::string::npos;
       folder = FolderOf(folder)) {
    if (Names(text, folder) && text.find(ending) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

// A case may name files below its own folder: a recipe its args_file.
bool NamedByCase(const SourceTree& tree, std::string_view path) {
  for (const auto& [other, text] : tree) {
    const std::string folder = FolderOf(other) + "/";
    if (IsCaseFile(other) && other != path && path.starts_with(folder) &&
        Names(text, path.substr(folder.size()))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> UnreadCaseFiles(const SourceTree& tree) {
  std::vector<std::string> unread;
  for (const auto& [path, content] : tree) {
    if (!IsCaseFile(path)) {
      continue;
    }
    bool read = NamedByCase(tree, path);
    for (const auto& [reader, text] : tree) {
      read = read || (CanRead(reader) && Reads(text, path));
    }
    if (!read) {
      unread.push_back(path);
    }
  }
  return unread;
}

}  // namespace attune::layering
