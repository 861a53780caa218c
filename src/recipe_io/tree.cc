#include "attune/recipe_io/tree.h"

#include <fmt/core.h>

#include "attune/base/check.h"

namespace attune {

int Sources::Add(std::string name) {
  names_.push_back(std::move(name));
  return static_cast<int>(names_.size()) - 1;
}

std::string Sources::Show(const Where& where) const {
  if (where.column == 0) {
    return ShowLine(where);
  }
  return fmt::format("{}:{}", ShowLine(where), where.column);
}

std::string Sources::ShowLine(const Where& where) const {
  ATTUNE_CHECK(where.source >= 0 && where.source < static_cast<int>(names_.size()),
               "every node is made from a source");
  const std::string& name = names_[static_cast<std::size_t>(where.source)];
  return where.line == 0 ? name : fmt::format("{}:{}", name, where.line);
}

const Node* Node::Find(std::string_view key) const {
  for (const Entry& e : entries) {
    if (e.key == key) {
      return &e.value;
    }
  }
  return nullptr;
}

Entry* Node::FindEntry(std::string_view key) {
  for (Entry& e : entries) {
    if (e.key == key) {
      return &e;
    }
  }
  return nullptr;
}

Node MakeText(std::string text, const Where& where) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.where = where;
  return node;
}

std::string_view KindWord(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kScalar:
      return "a value";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "";
}

tl::unexpected<Error> FailAt(const Sources& sources, const Where& where, std::string_view message,
                             std::string help) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", sources.Show(where), message),
              std::move(help));
}

}  // namespace attune
