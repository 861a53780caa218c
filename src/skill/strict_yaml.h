// Strict reading of a skill file. yaml-cpp gives a tree with marks; every map is read key by key
// against a list, so that a misspelt key is an error and not a silent default.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"

namespace YAML {
class Node;
}

namespace attune::skill {

// What every reader of such a tree asks of it. The first thing that does not fit is kept, and every
// question after it answers empty.
class StrictYaml {
 protected:
  StrictYaml(std::string file, std::size_t longest) : file_(std::move(file)), longest_(longest) {}

  static constexpr std::size_t kMaxItems = 64;

  void Fault(const YAML::Node& at, std::string what);
  // No keys given: any word is one.
  bool Map(const YAML::Node& node, std::string_view what,
           std::initializer_list<std::string_view> keys);
  std::string Scalar(const YAML::Node& node, std::string_view what);
  std::string Text(const YAML::Node& map, const char* key, bool needed);
  std::vector<std::string> Texts(const YAML::Node& map, const char* key, bool needed);
  bool Bool(const YAML::Node& map, const char* key);
  double Number(const YAML::Node& map, const char* key);
  // Of a scalar that stands alone, as in a list.
  double NumberOf(const YAML::Node& node, std::string_view what);
  bool Failed() const { return error_.has_value(); }
  Status Verdict() const { return error_ ? Status(Fail(*error_)) : Status(); }

 private:
  std::optional<Error> error_;
  std::string file_;
  std::size_t longest_;  // bytes of a text
};

// Reads the one document of a file of at most 64 KiB of ASCII; `read` is given its root and says
// what was wrong with it.
Status ReadDocument(std::string_view text, const std::string& file,
                    const std::function<Status(const YAML::Node&)>& read);

}  // namespace attune::skill
