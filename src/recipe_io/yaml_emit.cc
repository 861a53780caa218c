#include "yaml_emit.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"

namespace attune {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
}

// Words that are the same quoted or not, everywhere in a document and in brackets too: names,
// flags, paths, durations.
bool IsHarmless(std::string_view text) {
  const auto inside = [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '-' || c == '+' || c == '@' || c == '.';
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), inside)) {
    return false;
  }
  std::string_view rest = text;
  for (const std::string_view lead : {"--", "-", "../", "./"}) {
    if (rest.starts_with(lead)) {
      rest.remove_prefix(lead.size());
      break;
    }
  }
  const bool duration =
      IsDigit(text.front()) && (text.back() == 's' || text.back() == 'm' || text.back() == 'h');
  return duration || (!rest.empty() && IsLetter(rest.front()));
}

// Plain words that a YAML reader takes for something else than text.
bool IsReserved(std::string_view text) {
  return text == "true" || text == "false" || text == "null" || text == "Null" || text == "NULL" ||
         IsDoubtfulPlain(text) || ParseDouble(text).has_value();
}

std::string Quoted(std::string_view text) { return fmt::format("\"{}\"", JsonEscape(text)); }

bool AllScalars(const Node& list) {
  return std::all_of(list.items.begin(), list.items.end(),
                     [](const Node& item) { return item.IsScalar(); });
}

class Emitter {
 public:
  explicit Emitter(const std::function<std::string(const Where&)>& comment) : comment_(comment) {}

  void Map(const Node& map, int indent, bool first_inline) {
    bool inlined = first_inline;
    for (const Entry& entry : map.entries) {
      if (!inlined) {
        out_.append(static_cast<std::size_t>(indent), ' ');
      }
      inlined = false;
      out_ += YamlScalar(entry.key, false);
      out_ += ':';
      Value(entry.value, indent);
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void EndLine(const Where& where) {
    const std::string remark = comment_ ? comment_(where) : "";
    if (!remark.empty()) {
      out_ += "  # " + remark;
    }
    out_ += '\n';
  }

  void Value(const Node& value, int indent) {
    switch (value.kind) {
      case Node::Kind::kNull:
        EndLine(value.where);
        return;
      case Node::Kind::kScalar:
        out_ += ' ' + YamlScalar(value.text, value.plain);
        EndLine(value.where);
        return;
      case Node::Kind::kMap:
        if (value.entries.empty()) {
          out_ += " {}";
          EndLine(value.where);
          return;
        }
        out_ += '\n';
        Map(value, indent + 2, false);
        return;
      case Node::Kind::kList:
        List(value, indent);
        return;
    }
  }

  void List(const Node& list, int indent) {
    if (AllScalars(list)) {
      out_ += " [";
      for (std::size_t i = 0; i < list.items.size(); ++i) {
        out_ += i == 0 ? "" : ", ";
        out_ += YamlScalar(list.items[i].text, list.items[i].plain);
      }
      out_ += ']';
      EndLine(list.where);
      return;
    }
    out_ += '\n';
    for (const Node& item : list.items) {
      out_.append(static_cast<std::size_t>(indent) + 2, ' ');
      out_ += "- ";
      if (item.IsMap() && !item.entries.empty()) {
        Map(item, indent + 4, true);
      } else {
        // Lists in lists do not occur in a recipe; a scalar does.
        out_ += item.IsScalar() ? YamlScalar(item.text, item.plain) : "{}";
        EndLine(item.where);
      }
    }
  }

  const std::function<std::string(const Where&)>& comment_;
  std::string out_;
};

}  // namespace

std::string YamlScalar(std::string_view text, bool plain) {
  if (plain && (text == "true" || text == "false" || ParseDouble(text)) && !IsDoubtfulPlain(text)) {
    return std::string(text);
  }
  return IsHarmless(text) && !IsReserved(text) ? std::string(text) : Quoted(text);
}

std::string EmitYaml(const Node& map, const std::function<std::string(const Where&)>& comment) {
  Emitter emitter(comment);
  emitter.Map(map, 0, false);
  return emitter.Take();
}

}  // namespace attune
