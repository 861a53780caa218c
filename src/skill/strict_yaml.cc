#include "strict_yaml.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "attune/base/text.h"

namespace attune::skill {
namespace {

constexpr std::size_t kMaxBytes = 64 * 1024;

}  // namespace

void StrictYaml::Fault(const YAML::Node& at, std::string what) {
  if (error_) return;
  const YAML::Mark mark = at.Mark();
  error_ = Error{ErrorCode::kInvalidInput,
                 fmt::format("{}:{}:{}: {}", file_, mark.line + 1, mark.column + 1, what),
                 {}};
}

bool StrictYaml::Map(const YAML::Node& node, std::string_view what,
                     std::initializer_list<std::string_view> keys) {
  if (!node.IsMap()) {
    Fault(node, fmt::format("{} must be a map", what));
    return false;
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      Fault(entry.first, "a key must be a word");
      return false;
    }
    const std::string& key = entry.first.Scalar();
    if (keys.size() > 0 && std::find(keys.begin(), keys.end(), key) == keys.end()) {
      Fault(entry.first, fmt::format("no key '{}' here", EscapeForDisplay(key, 40)));
      return false;
    }
    if (!seen.insert(key).second) {
      Fault(entry.first, fmt::format("'{}' stands twice", EscapeForDisplay(key, 40)));
      return false;
    }
  }
  if (node.size() > kMaxItems) Fault(node, fmt::format("more than {} keys", kMaxItems));
  return !error_;
}

std::string StrictYaml::Scalar(const YAML::Node& node, std::string_view what) {
  if (!node.IsScalar() || node.Scalar().size() > longest_ || !IsPrintableAscii(node.Scalar())) {
    Fault(node,
          fmt::format("{} must be one line of ASCII text of at most {} bytes", what, longest_));
    return {};
  }
  return node.Scalar();
}

std::string StrictYaml::Text(const YAML::Node& map, const char* key, bool needed) {
  if (error_ || !map.IsMap()) return {};
  const YAML::Node node = map[key];
  if (!node) {
    if (needed) Fault(map, fmt::format("'{}' is missing", key));
    return {};
  }
  return Scalar(node, key);
}

std::vector<std::string> StrictYaml::Texts(const YAML::Node& map, const char* key, bool needed) {
  if (error_ || !map.IsMap()) return {};
  const YAML::Node node = map[key];
  if (!node) {
    if (needed) Fault(map, fmt::format("'{}' is missing", key));
    return {};
  }
  if (!node.IsSequence() || node.size() > kMaxItems) {
    Fault(node, fmt::format("'{}' must be a list of at most {} items", key, kMaxItems));
    return {};
  }
  std::vector<std::string> out;
  for (const YAML::Node& item : node) out.push_back(Scalar(item, key));
  return out;
}

bool StrictYaml::Bool(const YAML::Node& map, const char* key) {
  const std::string text = Text(map, key, false);
  if (error_ || text.empty() || text == "false") return false;
  if (text != "true") Fault(map[key], fmt::format("'{}' must be true or false", key));
  return true;
}

double StrictYaml::Number(const YAML::Node& map, const char* key) {
  if (Text(map, key, true); error_) return 0;
  return NumberOf(map[key], key);
}

double StrictYaml::NumberOf(const YAML::Node& node, std::string_view what) {
  const std::string text = Scalar(node, what);
  if (error_) return 0;
  const std::optional<double> x = ParseDouble(text);
  if (!x || *x < -1 || *x > 10) {
    Fault(node, fmt::format("'{}' must be a number between -1 and 10", what));
  }
  return x.value_or(0);
}

Status ReadDocument(std::string_view text, const std::string& file,
                    const std::function<Status(const YAML::Node&)>& read) {
  const auto invalid = [](std::string message) {
    return Fail(ErrorCode::kInvalidInput, std::move(message));
  };
  if (text.size() > kMaxBytes || !IsAscii(text)) {
    return invalid(
        fmt::format("{}: a skill file is ASCII of at most {} KiB", file, kMaxBytes / 1024));
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() != 1) return invalid(fmt::format("{}: one document is expected", file));
    return read(documents.front());
  } catch (const YAML::Exception& e) {
    return invalid(fmt::format("{}:{}:{}: {}", file, e.mark.line + 1, e.mark.column + 1,
                               EscapeForDisplay(e.msg, 200)));
  }
}

}  // namespace attune::skill
