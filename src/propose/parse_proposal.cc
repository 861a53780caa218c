// The strict reader of one reply. A SAX pass builds a small tree of our own, because the library's
// own tree keeps the last of two equal keys without a word, and the gate must never look at another
// value than the one that is launched. What does not fit is a BadReply; nothing is repaired.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/text.h"
#include "attune/propose/proposer.h"

namespace attune {
namespace {

// Bounds of a reply. They are far above any honest proposal and keep a runaway model cheap.
constexpr std::size_t kMaxBytes = 64 * 1024;
constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxNodes = 4096;
constexpr std::size_t kMaxValueBytes = 64;   // one argument value
constexpr std::size_t kMaxNameBytes = 128;   // a flag, variable or lever id
constexpr std::size_t kMaxTextChars = 2000;  // hypothesis and other free text
constexpr std::size_t kMaxEdits = 32;
constexpr std::size_t kMaxListValues = 64;
constexpr std::size_t kMaxEvidence = 32;

enum class NodeKind { kNull, kBool, kNumber, kString, kArray, kObject };

struct Node {
  NodeKind kind = NodeKind::kNull;
  bool truth = false;
  std::string text;               // of a string; of a number, as it was written
  std::vector<std::string> keys;  // of an object, in step with `items`
  std::vector<Node> items;

  const Node* Find(std::string_view key) const {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == key) return &items[i];
    }
    return nullptr;
  }
};

std::string_view Noun(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNull:
      return "null";
    case NodeKind::kBool:
      return "true or false";
    case NodeKind::kNumber:
      return "a number";
    case NodeKind::kString:
      return "a string";
    case NodeKind::kArray:
      return "a list";
    case NodeKind::kObject:
      return "an object";
  }
  return "nothing";
}

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Node root;
  std::string error;

  bool null() override { return Leaf(NodeKind::kNull, {}); }
  bool boolean(bool value) override {
    Node* n = Place(NodeKind::kBool);
    if (n != nullptr) n->truth = value;
    return n != nullptr;
  }
  bool number_integer(number_integer_t value) override {
    return Leaf(NodeKind::kNumber, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Leaf(NodeKind::kNumber, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& written) override {
    return Leaf(NodeKind::kNumber, written);
  }
  bool string(string_t& value) override { return Leaf(NodeKind::kString, std::move(value)); }
  bool binary(binary_t&) override { return Wrong("binary data"); }
  bool start_object(std::size_t) override { return Open(NodeKind::kObject); }
  bool start_array(std::size_t) override { return Open(NodeKind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    Node& object = *open_.back();
    if (std::find(object.keys.begin(), object.keys.end(), name) != object.keys.end()) {
      return Wrong("the key \"" + EscapeForDisplay(name, 60) + "\" stands twice in one object");
    }
    object.keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Wrong("not one whole JSON text: error at byte " + std::to_string(position));
  }

 private:
  bool Wrong(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  Node* Place(NodeKind kind) {
    if (++nodes_ > kMaxNodes) {
      Wrong("more than " + std::to_string(kMaxNodes) + " values");
      return nullptr;
    }
    Node* at = &root;
    if (!open_.empty()) at = &open_.back()->items.emplace_back();
    at->kind = kind;
    return at;
  }
  bool Leaf(NodeKind kind, std::string text) {
    Node* n = Place(kind);
    if (n != nullptr) n->text = std::move(text);
    return n != nullptr;
  }
  bool Open(NodeKind kind) {
    if (open_.size() >= kMaxDepth) {
      return Wrong("nested deeper than " + std::to_string(kMaxDepth));
    }
    Node* n = Place(kind);
    // A parent's `items` only grows while the parent is the innermost open node, so the pointers
    // of the open chain stay good.
    if (n != nullptr) open_.push_back(n);
    return n != nullptr;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Node*> open_;
  std::size_t nodes_ = 0;
};

std::size_t CodePoints(std::string_view s) {
  return static_cast<std::size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// Reads the tree into a reply; the first thing that does not fit ends it.
class Reading {
 public:
  std::string error;

  std::optional<Proposal> ReadProposal(const Node& root) {
    static constexpr std::string_view kKeys[] = {
        "lever",         "changes",          "enablers",     "hypothesis", "bottleneck", "evidence",
        "expected_gain", "expected_peak_gb", "fits_because", "stop_if",    "label"};
    if (!OnlyKeys(root, kKeys, "the proposal")) return std::nullopt;
    Proposal p;
    const Node* lever = root.Find("lever");
    if (lever == nullptr) return Wrong("the proposal names no lever");
    if (!Name(*lever, "lever", p.change.lever)) return std::nullopt;
    const Node* changes = root.Find("changes");
    if (changes == nullptr) return Wrong("the proposal has no \"changes\"");
    if (!Changes(*changes, p.change.edits)) return std::nullopt;
    if (!Names(root.Find("enablers"), "enablers", kMaxEdits, p.change.enablers))
      return std::nullopt;
    if (!FreeText(root, "hypothesis", p.hypothesis)) return std::nullopt;
    if (!FreeText(root, "bottleneck", p.bottleneck)) return std::nullopt;
    if (!FreeText(root, "fits_because", p.fits_because)) return std::nullopt;
    if (!FreeText(root, "stop_if", p.stop_if)) return std::nullopt;
    std::vector<std::string> evidence;
    if (!Names(root.Find("evidence"), "evidence", kMaxEvidence, evidence)) return std::nullopt;
    for (std::string& run : evidence) p.evidence.emplace_back(std::move(run));
    if (!Gain(root.Find("expected_gain"), p.expected_gain)) return std::nullopt;
    if (const Node* peak = root.Find("expected_peak_gb"); peak != nullptr) {
      const std::optional<double> gb = Number(*peak);
      if (!gb || *gb < 0) return Wrong("\"expected_peak_gb\" must be a number of GB, 0 or more");
      p.expected_peak_gb = gb;
    }
    if (const Node* label = root.Find("label"); label != nullptr) {
      if (label->kind != NodeKind::kString || !IsLabel(label->text)) {
        return Wrong("\"label\" must be 1 to 24 of a-z 0-9 . _ -");
      }
      p.label = label->text;
    }
    return p;
  }

  std::optional<StopWish> ReadStop(const Node& root) {
    static constexpr std::string_view kKeys[] = {"stop", "classes"};
    if (!OnlyKeys(root, kKeys, "the stop wish")) return std::nullopt;
    StopWish wish;
    if (!FreeText(root, "stop", wish.reason)) return std::nullopt;
    const Node* classes = root.Find("classes");
    if (classes == nullptr) return wish;
    if (classes->kind != NodeKind::kObject) {
      return Missed<StopWish>("\"classes\" must be an object of class: lever or reason");
    }
    for (std::size_t i = 0; i < classes->keys.size(); ++i) {
      std::string text;
      if (classes->keys[i].size() > kMaxNameBytes) {
        return Missed<StopWish>("a class name is too long");
      }
      if (!FreeTextOf(classes->items[i], classes->keys[i], text)) return std::nullopt;
      wish.per_class.emplace_back(classes->keys[i], std::move(text));
    }
    return wish;
  }

 private:
  template <class T>
  std::optional<T> Missed(std::string why) {
    if (error.empty()) error = std::move(why);
    return std::nullopt;
  }
  std::optional<Proposal> Wrong(std::string why) { return Missed<Proposal>(std::move(why)); }
  bool No(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }

  bool OnlyKeys(const Node& object, std::span<const std::string_view> allowed,
                std::string_view where) {
    for (const std::string& key : object.keys) {
      if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
        return No("unknown key \"" + EscapeForDisplay(key, 60) + "\" in " + std::string(where));
      }
    }
    return true;
  }

  // Ids, flags and variable names. Only length and control characters are judged here; what the
  // name may be is the gate's question.
  bool Name(const Node& node, std::string_view key, std::string& out) {
    if (node.kind != NodeKind::kString) {
      return No("\"" + std::string(key) + "\" must be a string, not " +
                std::string(Noun(node.kind)));
    }
    if (node.text.empty() || node.text.size() > kMaxNameBytes) {
      return No("\"" + std::string(key) + "\" must have 1 to " + std::to_string(kMaxNameBytes) +
                " bytes");
    }
    out = node.text;
    return true;
  }

  bool Names(const Node* node, std::string_view key, std::size_t most,
             std::vector<std::string>& out) {
    if (node == nullptr) return true;
    if (node->kind != NodeKind::kArray || node->items.size() > most) {
      return No("\"" + std::string(key) + "\" must be a list of at most " + std::to_string(most) +
                " strings");
    }
    for (const Node& item : node->items) {
      if (!Name(item, key, out.emplace_back())) return false;
    }
    return true;
  }

  bool FreeText(const Node& root, std::string_view key, std::string& out) {
    const Node* node = root.Find(key);
    return node == nullptr || FreeTextOf(*node, key, out);
  }
  bool FreeTextOf(const Node& node, std::string_view key, std::string& out) {
    if (node.kind != NodeKind::kString) {
      return No("\"" + EscapeForDisplay(key, 60) + "\" must be a string, not " +
                std::string(Noun(node.kind)));
    }
    if (CodePoints(node.text) > kMaxTextChars) {
      return No("\"" + EscapeForDisplay(key, 60) + "\" is longer than " +
                std::to_string(kMaxTextChars) + " characters");
    }
    if (node.text.find('\0') != std::string::npos) {
      return No("\"" + EscapeForDisplay(key, 60) + "\" holds a NUL character");
    }
    out = node.text;
    return true;
  }

  static std::optional<double> Number(const Node& node) {
    if (node.kind != NodeKind::kNumber) return std::nullopt;
    return ParseDouble(node.text);  // refuses what is not finite (1e400)
  }

  bool Gain(const Node* node, std::optional<std::pair<double, double>>& out) {
    if (node == nullptr) return true;
    if (node->kind == NodeKind::kArray && node->items.size() == 2) {
      const std::optional<double> lo = Number(node->items[0]), hi = Number(node->items[1]);
      if (lo && hi && *lo <= *hi) {
        out = {*lo, *hi};
        return true;
      }
    }
    return No("\"expected_gain\" must be [lo, hi] with lo <= hi");
  }

  static bool IsLabel(std::string_view s) {
    return !s.empty() && s.size() <= 24 && std::all_of(s.begin(), s.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    });
  }

  bool Scalar(const Node& node, std::string& out) {
    if (node.kind != NodeKind::kString && node.kind != NodeKind::kNumber) {
      return No("\"value\" must be a scalar, not " + std::string(Noun(node.kind)));
    }
    if (node.text.size() > kMaxValueBytes) {
      return No("a value is longer than " + std::to_string(kMaxValueBytes) + " bytes");
    }
    out = node.text;
    return true;
  }

  // true is the bare flag, false the flag's absence: the meaning that a boolean flag of a training
  // program has. A string in the full spelling of either is the same word, as "2" is for 2. Every
  // other scalar is one token, as written.
  bool SetValue(const Node& value, Edit& edit) {
    const bool word =
        value.kind == NodeKind::kString && (value.text == "true" || value.text == "false");
    if (value.kind == NodeKind::kBool || word) {
      const bool truth = word ? value.text == "true" : value.truth;
      edit.op = truth ? Edit::Op::kSet : Edit::Op::kUnset;
      return true;
    }
    if (value.kind == NodeKind::kArray) {
      if (value.items.empty() || value.items.size() > kMaxListValues) {
        return No("a list value must have 1 to " + std::to_string(kMaxListValues) + " elements");
      }
      for (const Node& item : value.items) {
        if (!Scalar(item, edit.values.emplace_back())) return false;
      }
      return true;
    }
    return Scalar(value, edit.values.emplace_back());
  }

  bool OneEdit(const Node& node, Edit& edit) {
    if (node.kind != NodeKind::kObject) return No("each of \"changes\" must be an object");
    const Node* op = node.Find("op");
    if (op == nullptr || op->kind != NodeKind::kString) return No("a change has no \"op\"");
    static constexpr std::string_view kSetKeys[] = {"op", "flag", "value"};
    static constexpr std::string_view kUnsetKeys[] = {"op", "flag"};
    static constexpr std::string_view kEnvKeys[] = {"op", "name", "value"};
    static constexpr std::string_view kUnsetEnvKeys[] = {"op", "name"};
    const bool env = op->text == "env" || op->text == "unset_env";
    const bool sets = op->text == "set" || op->text == "env";
    std::span<const std::string_view> keys;
    if (op->text == "set") {
      edit.op = Edit::Op::kSet;
      keys = kSetKeys;
    } else if (op->text == "unset") {
      edit.op = Edit::Op::kUnset;
      keys = kUnsetKeys;
    } else if (op->text == "env") {
      edit.op = Edit::Op::kEnv;
      keys = kEnvKeys;
    } else if (op->text == "unset_env") {
      edit.op = Edit::Op::kUnsetEnv;
      keys = kUnsetEnvKeys;
    } else {
      return No("unknown op \"" + EscapeForDisplay(op->text, 60) + "\"");
    }
    if (!OnlyKeys(node, keys, "a change")) return false;
    const Node* name = node.Find(env ? "name" : "flag");
    if (name == nullptr) return No(env ? "a change has no \"name\"" : "a change has no \"flag\"");
    if (!Name(*name, env ? "name" : "flag", edit.name)) return false;
    if (!sets) return true;
    const Node* value = node.Find("value");
    if (value == nullptr) return No("a change has no \"value\"");
    return env ? Scalar(*value, edit.values.emplace_back()) : SetValue(*value, edit);
  }

  bool Changes(const Node& node, std::vector<Edit>& out) {
    if (node.kind != NodeKind::kArray) return No("\"changes\" must be a list");
    if (node.items.empty()) return No("\"changes\" is empty: a proposal changes something");
    if (node.items.size() > kMaxEdits) {
      return No("more than " + std::to_string(kMaxEdits) + " changes");
    }
    for (const Node& item : node.items) {
      if (!OneEdit(item, out.emplace_back())) return false;
    }
    return true;
  }
};

BadReply Bad(std::string error, std::string_view raw) {
  return {std::move(error), EscapeForDisplay(raw, 400)};
}

}  // namespace

ProposerReply ParseProposal(std::string_view raw) {
  if (raw.size() > kMaxBytes) {
    return Bad("the reply is longer than " + std::to_string(kMaxBytes) + " bytes", raw);
  }
  if (raw.starts_with("\xEF\xBB\xBF")) return Bad("the reply starts with a byte order mark", raw);
  if (!IsValidUtf8(raw)) return Bad("the reply is not valid UTF-8", raw);
  TreeBuilder tree;
  bool whole = false;
  try {
    whole = nlohmann::json::sax_parse(raw.begin(), raw.end(), &tree);
  } catch (const std::exception& e) {  // the library's own; our handler throws nothing
    return Bad(std::string("unreadable JSON: ") + e.what(), raw);
  }
  if (!whole) return Bad(tree.error.empty() ? "not one whole JSON text" : tree.error, raw);
  if (tree.root.kind != NodeKind::kObject) {
    return Bad("the reply must be one JSON object, not " + std::string(Noun(tree.root.kind)), raw);
  }
  Reading reading;
  if (tree.root.Find("stop") != nullptr) {
    std::optional<StopWish> wish = reading.ReadStop(tree.root);
    if (wish) return std::move(*wish);
    return Bad(reading.error, raw);
  }
  std::optional<Proposal> proposal = reading.ReadProposal(tree.root);
  if (proposal) return std::move(*proposal);
  return Bad(reading.error, raw);
}

}  // namespace attune
