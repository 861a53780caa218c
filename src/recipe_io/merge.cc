#include "merge.h"

#include <fmt/core.h>

#include "attune/base/text.h"
#include "file_text.h"

namespace attune {
namespace {

std::string Join(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

Status MergeMap(Node& base, const Node& top, const std::string& path, const Sources& sources);

// `false` for a flag means that it is absent (docs/formats/recipe.md).
Node Absent(const Where& where) {
  Node node = MakeText("false", where);
  node.plain = true;
  return node;
}

// A map of arguments over a list of them.
Status MergeEdits(Node& list, const Node& top, const Sources& sources) {
  for (const Entry& entry : top.entries) {
    if (entry.value.IsMap()) {
      return FailAt(sources, entry.value.where,
                    fmt::format("args.{} must be a value or a list", entry.key));
    }
    Entry edit = entry;
    if (edit.value.IsNull()) {
      edit.value = Absent(edit.value.where);
    }
    if (Entry* earlier = list.FindEntry(edit.key)) {
      *earlier = std::move(edit);
    } else {
      list.entries.push_back(std::move(edit));
    }
  }
  return {};
}

Status MergeEntry(Node& base, const Entry& top, const std::string& path, const Sources& sources) {
  Entry* below = base.FindEntry(top.key);
  const std::string name = Join(path, EscapeForDisplay(top.key, 80));
  if (top.value.IsNull()) {
    if (below == nullptr) {
      return FailAt(
          sources, top.where, fmt::format("nothing to remove: '{}' is not set", name),
          "an empty value removes what an extended file says; give a value, or true for a "
          "bare flag");
    }
    base.entries.erase(base.entries.begin() + (below - base.entries.data()));
    return {};
  }
  if (below == nullptr) {
    base.entries.push_back({top.key, top.where, {}});
    below = &base.entries.back();
    if (top.value.IsMap()) {
      below->value.kind = Node::Kind::kMap;
      below->value.where = top.value.where;
      return MergeMap(below->value, top.value, name, sources);
    }
    below->value = top.value;
    return {};
  }
  if (below->value.IsMap() && top.value.IsMap()) {
    return MergeMap(below->value, top.value, name, sources);
  }
  if (path.empty() && top.key == "args" && below->value.IsList() && top.value.IsMap()) {
    return MergeEdits(below->value, top.value, sources);
  }
  if (below->value.IsMap() || top.value.IsMap()) {
    return FailAt(sources, top.where,
                  fmt::format("'{}' is {} here and {} in {}", name, KindWord(top.value.kind),
                              KindWord(below->value.kind), sources.ShowLine(below->where)),
                  "write both in the same form");
  }
  *below = top;
  return {};
}

Status MergeMap(Node& base, const Node& top, const std::string& path, const Sources& sources) {
  for (const Entry& entry : top.entries) {
    ATTUNE_RETURN_IF_ERROR(MergeEntry(base, entry, path, sources));
  }
  return {};
}

// Splits "a.b.\"c.d\"" into its keys; empty when it is no key.
std::vector<std::string> SplitKey(std::string_view key) {
  std::vector<std::string> parts;
  while (true) {
    std::size_t length = 0;
    if (key.starts_with('"')) {
      const std::size_t close = key.find('"', 1);
      if (close == std::string_view::npos) {
        return {};
      }
      parts.emplace_back(key.substr(1, close - 1));
      length = close + 1;
    } else {
      length = std::min(key.find('.'), key.size());
      parts.emplace_back(key.substr(0, length));
    }
    if (parts.back().empty()) {
      return {};
    }
    if (length == key.size()) {
      return parts;
    }
    if (key[length] != '.') {
      return {};
    }
    key.remove_prefix(length + 1);
  }
}

struct Assignment {
  std::vector<std::string> keys;
  std::string_view value;
  Where where;
};

Result<Assignment> SplitAssignment(std::string_view flag, std::string_view option,
                                   Sources& sources) {
  const std::size_t equals = option.find('=');
  Assignment out;
  if (!IsValidUtf8(option)) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{} is not UTF-8 text", flag));
  }
  if (equals != std::string_view::npos) {
    out.keys = SplitKey(option.substr(0, equals));
  }
  if (out.keys.empty()) {
    // The text may be a secret without its key: only the form is shown.
    return Fail(ErrorCode::kInvalidInput, fmt::format("{} takes KEY=VALUE", flag),
                fmt::format("for example {} measure.steps=15", flag));
  }
  out.value = option.substr(equals + 1);
  out.where.source =
      sources.Add(fmt::format("{} {}", flag, EscapeForDisplay(option.substr(0, equals), 80)));
  return out;
}

Node Nest(const std::vector<std::string>& keys, Node value, const Where& where) {
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    Node map;
    map.kind = Node::Kind::kMap;
    map.where = where;
    map.entries.push_back({*key, where, std::move(value)});
    value = std::move(map);
  }
  return value;
}

// A value given on the command line has no line and column of its own.
void PlaceAt(Node& node, const Where& where) {
  node.where = where;
  for (Node& item : node.items) {
    PlaceAt(item, where);
  }
  for (Entry& entry : node.entries) {
    entry.where = where;
    PlaceAt(entry.value, where);
  }
}

}  // namespace

Status MergeOver(Node& base, const Node& top, const Sources& sources) {
  return MergeMap(base, top, "", sources);
}

Result<Node> ParseSet(std::string_view option, Sources& sources) {
  ATTUNE_TRY(const Assignment set, SplitAssignment("--set", option, sources));
  ATTUNE_TRY(Node value, ParseYaml(set.value, set.where.source, sources));
  const bool bracketed = set.value.starts_with('[') || set.value.starts_with('{');
  if (!bracketed && !value.IsScalar() && !value.IsNull()) {
    return FailAt(sources, set.where, "the value must be one YAML scalar",
                  "quote it: --set 'KEY=\"...\"'");
  }
  PlaceAt(value, set.where);
  return Nest(set.keys, std::move(value), set.where);
}

Result<Node> ParseSetFile(std::string_view option, Sources& sources) {
  ATTUNE_TRY(const Assignment set, SplitAssignment("--set-file", option, sources));
  ATTUNE_TRY(std::string text, ReadText(std::string(set.value), kMaxRecipeText));
  if (!IsValidUtf8(text) || text.find('\0') != std::string::npos) {
    return FailAt(sources, set.where, "the file is not UTF-8 text");
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return Nest(set.keys, MakeText(std::move(text), set.where), set.where);
}

}  // namespace attune
