#include "attune/model/arguments.h"

#include <algorithm>

#include "attune/base/text.h"

namespace attune {
namespace {

bool OpensArgument(std::string_view token) {
  if (token.size() < 2 || token[0] != '-') return false;
  if (token[1] == '-') return token.size() > 2;
  const char c = token[1];
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Length-prefixed, so that no value can imitate a separator.
void Put(std::string& out, std::string_view s) {
  out += std::to_string(s.size());
  out += ':';
  out += s;
}

}  // namespace

const Argument* Arguments::Find(std::string_view flag) const {
  for (auto it = items_.rbegin(); it != items_.rend(); ++it) {
    if (it->flag == flag) return &*it;
  }
  return nullptr;
}

std::optional<std::string> Arguments::Value(std::string_view flag) const {
  const Argument* a = Find(flag);
  if (a == nullptr || a->values.size() != 1) return std::nullopt;
  return a->values.front();
}

void Arguments::Set(std::string_view flag, std::vector<std::string> values) {
  const auto first =
      std::find_if(items_.begin(), items_.end(), [&](const Argument& a) { return a.flag == flag; });
  if (first == items_.end()) {
    items_.push_back({std::string(flag), std::move(values)});
    return;
  }
  first->values = std::move(values);
  items_.erase(
      std::remove_if(first + 1, items_.end(), [&](const Argument& a) { return a.flag == flag; }),
      items_.end());
}

void Arguments::Unset(std::string_view flag) {
  items_.erase(std::remove_if(items_.begin(), items_.end(),
                              [&](const Argument& a) { return a.flag == flag; }),
               items_.end());
}

std::vector<std::string> Arguments::Render() const {
  std::vector<std::string> out;
  for (const Argument& a : items_) {
    if (!a.flag.empty()) out.push_back(a.flag);
    out.insert(out.end(), a.values.begin(), a.values.end());
  }
  return out;
}

Arguments ParseArguments(std::span<const std::string> tokens) {
  std::vector<Argument> items;
  for (const std::string& token : tokens) {
    if (OpensArgument(token)) {
      const std::size_t equals = token.starts_with("--") ? token.find('=') : std::string::npos;
      if (equals == std::string::npos) {
        items.push_back({token, {}});
      } else {
        items.push_back({token.substr(0, equals), {token.substr(equals + 1)}});
      }
      continue;
    }
    if (items.empty()) items.push_back({});
    items.back().values.push_back(token);
  }
  return Arguments(std::move(items));
}

bool ParsesBack(const Arguments& args) {
  bool first = true;
  for (const Argument& a : args.items()) {
    if (a.flag.empty()) {
      // Tokens before the first flag; behind one they would be its values, and none is nothing.
      if (!first || a.values.empty()) return false;
    } else if (!OpensArgument(a.flag) ||
               (a.flag.starts_with("--") && a.flag.find('=') != std::string::npos)) {
      return false;
    }
    if (std::any_of(a.values.begin(), a.values.end(), OpensArgument)) return false;
    first = false;
  }
  return true;
}

std::string CanonicalHash(const Effective& e) {
  std::vector<const Argument*> sorted;
  for (const Argument& a : e.args.items()) sorted.push_back(&a);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Argument* a, const Argument* b) { return a->flag < b->flag; });
  std::string text = "attune/effective/1;";
  for (const Argument* a : sorted) {
    Put(text, a->flag);
    text += std::to_string(a->values.size());
    text += ',';
    for (const std::string& v : a->values) Put(text, v);
  }
  text += ";env;";
  for (const auto& [name, value] : e.env) {
    Put(text, name);
    Put(text, value);
  }
  return Sha256Hex(text);
}

}  // namespace attune
