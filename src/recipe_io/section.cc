#include "attune/recipe_io/section.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "file_text.h"

namespace attune {
namespace {

std::string Show(const Node& value) {
  if (!value.IsScalar()) {
    return std::string(KindWord(value.kind));
  }
  const std::string text = EscapeForDisplay(value.text, 60);
  return value.plain ? text : fmt::format("the text \"{}\"", text);
}

template <class Words>
std::string JoinWords(const Words& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

void Problems::At(const Where& where, std::string_view message, std::string help) {
  if (!first_) {
    first_ = FailAt(sources_, where, message, std::move(help)).value();
  }
}

Status Problems::Take() {
  if (first_) {
    return Fail(std::move(*first_));
  }
  return {};
}

Section::Section(const Node* node, std::span<const Key> keys, std::string path, Problems& problems)
    : node_(node), keys_(keys), path_(std::move(path)), problems_(problems) {
  if (node_ == nullptr) {
    return;
  }
  if (!node_->IsMap()) {
    problems_.At(node_->where,
                 fmt::format("{} must be a map, not {}", path_.empty() ? "a " + problems_.document() : path_,
                             KindWord(node_->kind)));
    node_ = nullptr;
    return;
  }
  CheckKeys();
}

void Section::CheckKeys() const {
  std::vector<std::string> names;
  for (const Key& key : keys_) {
    names.emplace_back(key.name);
  }
  for (const Entry& entry : node_->entries) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) {
      continue;
    }
    const std::string near = Nearest(entry.key, names);
    problems_.At(
        entry.where,
        fmt::format("unknown key '{}' in {}", EscapeForDisplay(entry.key, 80),
                    path_.empty() ? "the " + problems_.document() : path_),
        near.empty() ? "known here: " + JoinWords(names) : fmt::format("did you mean '{}'?", near));
    return;
  }
  for (const Key& key : keys_) {
    if (key.required && node_->Find(key.name) == nullptr) {
      problems_.At(node_->where, fmt::format("missing {}: {}", Name(key.name), key.doc));
      return;
    }
  }
}

const Key* Section::Spec(std::string_view key) const {
  for (const Key& spec : keys_) {
    if (spec.name == key) {
      return &spec;
    }
  }
  ATTUNE_CHECK(false, "a field that is not in the table of keys");
}

const Node* Section::Find(std::string_view key) const {
  Spec(key);
  return node_ == nullptr || !problems_.none() ? nullptr : node_->Find(key);
}

Where Section::WhereOf(std::string_view key) const {
  const Node* value = node_ == nullptr ? nullptr : node_->Find(key);
  return value == nullptr ? where() : value->where;
}

std::string Section::Name(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Section::CheckWord(const Key& spec, const Node& value) const {
  if (spec.words.empty() ||
      std::find(spec.words.begin(), spec.words.end(), value.text) != spec.words.end()) {
    return;
  }
  std::vector<std::string> words(spec.words.begin(), spec.words.end());
  const std::string near = Nearest(value.text, words);
  problems_.At(value.where, fmt::format("{} cannot be {}", Name(spec.name), Show(value)),
               near.empty() ? "one of: " + JoinWords(words)
                            : fmt::format("did you mean '{}'? one of: {}", near, JoinWords(words)));
}

const Node* Section::Scalar(std::string_view key) const {
  const Node* value = Find(key);
  if (value == nullptr) {
    return nullptr;
  }
  if (!value->IsScalar()) {
    problems_.At(value->where,
                 fmt::format("{} must be one value, not {}", Name(key), KindWord(value->kind)));
    return nullptr;
  }
  CheckWord(*Spec(key), *value);
  return problems_.none() ? value : nullptr;
}

void Section::Text(std::string_view key, std::string& out) const {
  if (const Node* value = Scalar(key)) {
    if (value->text.empty()) {
      problems_.At(value->where, fmt::format("{} is empty", Name(key)));
      return;
    }
    out = value->text;
  }
}

std::optional<std::int64_t> Section::Whole(std::string_view key, std::int64_t least,
                                           std::int64_t most) const {
  const Node* value = Scalar(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto number = value->plain ? ParseInt(value->text) : std::nullopt;
  if (!number) {
    problems_.At(value->where,
                 fmt::format("{} must be a whole number, not {}", Name(key), Show(*value)));
    return std::nullopt;
  }
  if (*number < least || *number > most) {
    problems_.At(value->where, fmt::format("{} must be {} {}, not {}", Name(key),
                                           *number < least ? "at least" : "at most",
                                           *number < least ? least : most, *number));
    return std::nullopt;
  }
  return number;
}

void Section::Int(std::string_view key, int& out, int least, int most) const {
  if (const auto number = Whole(key, least, most)) {
    out = static_cast<int>(*number);
  }
}

void Section::Int(std::string_view key, std::optional<int>& out, int least) const {
  if (const auto number = Whole(key, least, std::numeric_limits<int>::max())) {
    out = static_cast<int>(*number);
  }
}

void Section::Int64(std::string_view key, std::optional<std::int64_t>& out,
                    std::int64_t least) const {
  if (const auto number = Whole(key, least, std::numeric_limits<std::int64_t>::max())) {
    out = number;
  }
}

void Section::Number(std::string_view key, double& out, double least, double most) const {
  const Node* value = Scalar(key);
  if (value == nullptr) {
    return;
  }
  const auto number = value->plain ? ParseDouble(value->text) : std::nullopt;
  if (!number) {
    problems_.At(value->where, fmt::format("{} must be a number, not {}", Name(key), Show(*value)));
  } else if (*number < least || *number > most) {
    problems_.At(value->where, fmt::format("{} must be {} {}, not {}", Name(key),
                                           *number < least ? "at least" : "at most",
                                           *number < least ? least : most, value->text));
  } else {
    out = *number;
  }
}

void Section::Bool(std::string_view key, bool& out) const {
  const Node* value = Scalar(key);
  if (value == nullptr) {
    return;
  }
  if (!value->plain || (value->text != "true" && value->text != "false")) {
    problems_.At(value->where,
                 fmt::format("{} must be true or false, not {}", Name(key), Show(*value)));
    return;
  }
  out = value->text == "true";
}

void Section::Duration(std::string_view key, std::optional<Millis>& out) const {
  const Node* value = Scalar(key);
  if (value == nullptr) {
    return;
  }
  const Result<Millis> duration = ParseDuration(value->text);
  if (!duration) {
    problems_.At(value->where,
                 fmt::format("{} must be a duration, not {}", Name(key), Show(*value)),
                 "like 90s, 8m or 2h");
    return;
  }
  out = *duration;
}

void Section::Texts(std::string_view key, std::vector<std::string>& out) const {
  const Node* value = Find(key);
  if (value == nullptr) {
    return;
  }
  if (!value->IsList()) {
    problems_.At(value->where,
                 fmt::format("{} must be a list, not {}", Name(key), KindWord(value->kind)),
                 "write [a, b]");
    return;
  }
  out.clear();
  for (const Node& item : value->items) {
    if (!item.IsScalar()) {
      problems_.At(item.where, fmt::format("an item of {} must be a value, not {}", Name(key),
                                           KindWord(item.kind)));
      return;
    }
    CheckWord(*Spec(key), item);
    out.push_back(item.text);
  }
}

void Section::Ints(std::string_view key, std::vector<int>& out, int least) const {
  std::vector<std::string> texts;
  Texts(key, texts);
  const Node* value = Find(key);
  if (value == nullptr) {
    return;
  }
  out.clear();
  for (const Node& item : value->items) {
    const auto number = item.plain ? ParseInt(item.text) : std::nullopt;
    if (!number || *number < least || *number > std::numeric_limits<int>::max()) {
      problems_.At(item.where, fmt::format("an item of {} must be a whole number from {}, not {}",
                                           Name(key), least, Show(item)));
      return;
    }
    out.push_back(static_cast<int>(*number));
  }
}

std::vector<std::pair<std::string, std::string>> Section::TextMap(std::string_view key) const {
  std::vector<std::pair<std::string, std::string>> out;
  const Node* value = Find(key);
  if (value == nullptr) {
    return out;
  }
  if (!value->IsMap()) {
    problems_.At(value->where,
                 fmt::format("{} must be a map, not {}", Name(key), KindWord(value->kind)));
    return out;
  }
  for (const Entry& entry : value->entries) {
    if (!entry.value.IsScalar()) {
      problems_.At(entry.value.where,
                   fmt::format("{}.{} must be one value, not {}", Name(key),
                               EscapeForDisplay(entry.key, 80), KindWord(entry.value.kind)));
      return out;
    }
    out.emplace_back(entry.key, entry.value.text);
  }
  return out;
}

Section Section::Sub(std::string_view key) const {
  return Section(Find(key), Spec(key)->keys, Name(key), problems_);
}

std::vector<Section> Section::Subs(std::string_view key) const {
  std::vector<Section> out;
  const Node* value = Find(key);
  if (value == nullptr) {
    return out;
  }
  if (!value->IsList()) {
    problems_.At(value->where,
                 fmt::format("{} must be a list, not {}", Name(key), KindWord(value->kind)),
                 "begin each entry with '- '");
    return out;
  }
  for (std::size_t i = 0; i < value->items.size(); ++i) {
    out.emplace_back(&value->items[i], Spec(key)->keys, fmt::format("{}[{}]", Name(key), i),
                     problems_);
  }
  return out;
}

Result<Node> ReadYamlFile(const std::string& path, Sources& sources) {
  ATTUNE_TRY(const std::string text, ReadText(path, kMaxRecipeText));
  return ParseYaml(text, sources.Add(path), sources);
}

}  // namespace attune
