// The strict reader of one proposal (strict_json.h). What does not fit is a BadReply; nothing is
// repaired.
#include <algorithm>
#include <utility>

#include "attune/base/text.h"
#include "attune/propose/proposer.h"
#include "proposal_reader.h"

namespace attune {

using strict::Node;
using strict::NodeKind;

namespace {

constexpr std::size_t kMaxValueBytes = 64;  // one argument value
constexpr std::size_t kMaxEdits = 32;
constexpr std::size_t kMaxListValues = 64;
constexpr std::size_t kMaxEvidence = 32;

std::optional<double> Number(const Node& node) {
  if (node.kind != NodeKind::kNumber) return std::nullopt;
  return ParseDouble(node.text);  // refuses what is not finite (1e400)
}

bool IsLabel(std::string_view s) {
  return !s.empty() && s.size() <= 24 && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

BadReply Bad(std::string error, std::string_view raw) {
  return {std::move(error), EscapeForDisplay(raw, 400)};
}

}  // namespace

std::optional<Proposal> ProposalReader::ReadProposal(const Node& root,
                                                     std::span<const std::string_view> demanded) {
  static constexpr std::string_view kKeys[] = {
      "lever",         "changes",          "enablers",     "hypothesis", "bottleneck", "evidence",
      "expected_gain", "expected_peak_gb", "fits_because", "stop_if",    "label"};
  if (!OnlyKeys(root, kKeys, "the proposal")) return std::nullopt;
  if (!HasKeys(root, demanded, "the proposal")) return std::nullopt;
  Proposal p;
  const Node* lever = root.Find("lever");
  if (lever == nullptr) return Missed<Proposal>("the proposal names no lever");
  if (!Name(*lever, "lever", p.change.lever)) return std::nullopt;
  const Node* changes = root.Find("changes");
  if (changes == nullptr) return Missed<Proposal>("the proposal has no \"changes\"");
  if (!Changes(*changes, p.change.edits)) return std::nullopt;
  if (!Names(root.Find("enablers"), "enablers", kMaxEdits, p.change.enablers)) return std::nullopt;
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
    if (!gb || *gb < 0)
      return Missed<Proposal>("\"expected_peak_gb\" must be a number of GB, 0 or more");
    p.expected_peak_gb = gb;
  }
  if (const Node* label = root.Find("label"); label != nullptr) {
    if (label->kind != NodeKind::kString || !IsLabel(label->text)) {
      return Missed<Proposal>("\"label\" must be 1 to 24 of a-z 0-9 . _ -");
    }
    p.label = label->text;
  }
  return p;
}

std::optional<StopWish> ProposalReader::ReadStop(const Node& root) {
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
    if (classes->keys[i].size() > strict::kMaxNameBytes) {
      return Missed<StopWish>("a class name is too long");
    }
    if (!FreeTextOf(classes->items[i], classes->keys[i], text)) return std::nullopt;
    wish.per_class.emplace_back(classes->keys[i], std::move(text));
  }
  return wish;
}

bool ProposalReader::Gain(const Node* node, std::optional<std::pair<double, double>>& out) {
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

bool ProposalReader::Scalar(const Node& node, std::string& out) {
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
bool ProposalReader::SetValue(const Node& value, Edit& edit) {
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

bool ProposalReader::OneEdit(const Node& node, Edit& edit) {
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

bool ProposalReader::Changes(const Node& node, std::vector<Edit>& out) {
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

ProposerReply ParseProposal(std::string_view raw, std::span<const std::string_view> demanded) {
  const Result<Node> root = strict::ReadObject(raw);
  if (!root) return Bad(root.error().message, raw);
  ProposalReader reader;
  if (root->Find("stop") != nullptr) {
    std::optional<StopWish> wish = reader.ReadStop(*root);
    if (wish) return std::move(*wish);
    return Bad(reader.error, raw);
  }
  std::optional<Proposal> proposal = reader.ReadProposal(*root, demanded);
  if (proposal) return std::move(*proposal);
  return Bad(reader.error, raw);
}

}  // namespace attune
