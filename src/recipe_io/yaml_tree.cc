// The only file that includes yaml-cpp. It takes the parser's events, not its nodes: a node graph
// hides duplicate keys, document ends and quoting, and hands out references that change it.
#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"
#include "attune/recipe_io/tree.h"

namespace attune {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Plain scalars that YAML 1.1 reads as booleans and YAML 1.2 as text: nobody can tell what is
// meant.
bool IsDoubtfulBoolean(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  static constexpr std::array<std::string_view, 6> kWords = {"yes", "no", "on", "off", "y", "n"};
  if (std::find(kWords.begin(), kWords.end(), lower) != kWords.end()) {
    return true;
  }
  return (lower == "true" || lower == "false") && lower != text;
}

// "010" is 8 to one reader and 10 to the next.
bool HasLeadingZero(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    text.remove_prefix(1);
  }
  if (text.size() < 2 || text[0] != '0' || !IsDigit(text[1])) {
    return false;
  }
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsDigit(c) || c == '_' || c == '.'; });
}

// Builds the tree. After the first problem it only swallows events: the caller must not be thrown
// through, and the parser is bounded by the size cap.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(int source, const Sources& sources) : source_(source), sources_(sources) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      Problem(At(mark), "a second document; a recipe is one document", "remove the line '---'");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.where = At(mark);
    Spend(1, node.where);
    Add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      Problem(At(mark), "an alias inside the value that it names", "");
      return;
    }
    Spend(Count(known->second), At(mark));
    if (!problem) {
      Add(Node(known->second), 0);
    }
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.where = At(mark);
    node.plain = tag == "?";
    node.text = value;
    CheckTag(tag, node.where);
    Spend(1, node.where);
    const bool is_key = !open_.empty() && open_.back().node.IsMap() && !open_.back().key;
    if (node.plain && !is_key) {
      if (IsDoubtfulBoolean(value)) {
        Problem(node.where, fmt::format("plain '{}' may mean true, false or a word", value),
                fmt::format("write true or false, or quote it: \"{}\"", value));
      } else if (HasLeadingZero(value)) {
        // The value is not shown: secrets are looked for only after parsing.
        Problem(node.where, "leading zero", "write the number without it, or quote the text");
      }
    }
    Add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  std::optional<Error> problem;
  Node root;

 private:
  struct OpenNode {
    Node node;
    std::optional<Entry> key;  // map: a key that waits for its value
    YAML::anchor_t anchor = 0;
  };

  Where At(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }

  void Problem(const Where& where, std::string_view message, std::string help) {
    if (!problem) {
      problem = FailAt(sources_, where, message, std::move(help)).value();
    }
  }

  void CheckTag(const std::string& tag, const Where& where) {
    if (tag != "?" && tag != "!" && !tag.empty()) {
      Problem(where, "YAML tags (!...) have no meaning in a recipe", "quote the value instead");
    }
  }

  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    OpenNode open;
    open.node.kind = kind;
    open.node.where = At(mark);
    open.anchor = anchor;
    CheckTag(tag, open.node.where);
    Spend(1, open.node.where);
    if (static_cast<int>(open_.size()) >= kMaxRecipeDepth) {
      Problem(open.node.where, fmt::format("more than {} levels deep", kMaxRecipeDepth), "");
    }
    open_.push_back(std::move(open));
  }

  void Close() {
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    Add(std::move(closed.node), closed.anchor);
  }

  void Spend(int nodes, const Where& where) {
    nodes_ += nodes;
    if (nodes_ > kMaxRecipeNodes) {
      Problem(where, fmt::format("more than {} values", kMaxRecipeNodes), "");
    }
  }

  static int Count(const Node& node) {
    int count = 1;
    for (const Node& item : node.items) {
      count += Count(item);
    }
    for (const Entry& entry : node.entries) {
      count += 1 + Count(entry.value);
    }
    return count;
  }

  void Add(Node node, YAML::anchor_t anchor) {
    if (problem) {
      return;
    }
    if (anchor != 0) {
      Spend(Count(node), node.where);  // the copy kept for its aliases
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.IsList()) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      TakeKey(parent, std::move(node));
    } else {
      parent.key->value = std::move(node);
      parent.node.entries.push_back(std::move(*parent.key));
      parent.key.reset();
    }
  }

  void TakeKey(OpenNode& parent, Node node) {
    if (!node.IsScalar() || node.text.empty()) {
      Problem(node.where, fmt::format("a key must be a word, not {}", KindWord(node.kind)), "");
      return;
    }
    if (node.text == "<<") {
      Problem(node.where, "the merge key << is not supported", "use extends:");
      return;
    }
    if (const Entry* earlier = parent.node.FindEntry(node.text)) {
      Problem(node.where,
              fmt::format("duplicate key '{}' (first in line {})", EscapeForDisplay(node.text, 80),
                          earlier->where.line),
              "remove one of the two");
      return;
    }
    Entry entry;
    entry.key = std::move(node.text);
    entry.where = node.where;
    parent.key = std::move(entry);
  }

  const int source_;
  const Sources& sources_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  int documents_ = 0;
  int nodes_ = 0;
};

// What yaml-cpp would accept, guess at, or place wrongly.
Status CheckBytes(std::string_view text, int source, const Sources& sources) {
  if (text.size() > kMaxRecipeBytes) {
    return FailAt(sources, {source, 0, 0},
                  fmt::format("{} bytes; a recipe has at most {}", text.size(), kMaxRecipeBytes));
  }
  int line = 0;
  for (std::string_view content : SplitLines(text)) {
    ++line;
    if (!IsValidUtf8(content)) {
      return FailAt(sources, {source, line, 1}, "not UTF-8 text");
    }
    for (std::size_t i = 0; i < content.size(); ++i) {
      const auto byte = static_cast<unsigned char>(content[i]);
      if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
        return FailAt(sources, {source, line, static_cast<int>(i) + 1},
                      fmt::format("control character \\x{:02x}", byte));
      }
    }
    const std::size_t indent = content.find_first_not_of(" \t");
    const std::size_t tab = content.find('\t');
    if (indent != std::string_view::npos && tab < indent) {
      return FailAt(sources, {source, line, static_cast<int>(tab) + 1}, "tab in the indentation",
                    "indent with spaces");
    }
  }
  return {};
}

}  // namespace

bool IsDoubtfulPlain(std::string_view text) {
  return IsDoubtfulBoolean(text) || HasLeadingZero(text);
}

Result<Node> ParseYaml(std::string_view text, int source, const Sources& sources) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  ATTUNE_RETURN_IF_ERROR(CheckBytes(text, source, sources));
  TreeBuilder builder(source, sources);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (!builder.problem && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::ParserException& e) {
    if (!builder.problem) {
      return FailAt(sources, {source, e.mark.line + 1, e.mark.column + 1},
                    fmt::format("not YAML: {}", e.msg));
    }
  } catch (const YAML::Exception& e) {
    return FailAt(sources, {source, e.mark.line + 1, e.mark.column + 1}, "not YAML");
  }
  if (builder.problem) {
    return Fail(std::move(*builder.problem));
  }
  return std::move(builder.root);
}

}  // namespace attune
