// The project's text files in memory, so that the rules are functions over values and can be tested
// on small trees that break them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attune::layering {

// Path from the project root, '/' between folders, to the file's text.
using SourceTree = std::map<std::string, std::string>;

// Reads what is under the given folders, without build outputs and bytecode.
SourceTree ReadTree(const std::string& root, const std::vector<std::string>& folders);

struct Include {
  int line = 0;
  bool quoted = false;  // "x.h" and not <x.h>
  std::string name;
};
std::vector<Include> IncludesOf(std::string_view text);

// The text without // comments, so that a rule's word may stand in a comment. Strings are not
// understood: "//" in one ends the line, which can only hide what follows it there.
std::string WithoutLineComments(std::string_view text);

std::string FolderOf(std::string_view path);
std::string NameOf(std::string_view path);
bool IsHeader(std::string_view path);
bool IsSource(std::string_view path);

}  // namespace attune::layering
