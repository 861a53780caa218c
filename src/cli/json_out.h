// Writes one JSON object, keys in the order of the calls. Values that a proposer, a log or a user
// gave go through the same escaping as everything else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::cli {

class JsonOut {
 public:
  explicit JsonOut(std::string_view schema);  // empty: an inner object
  void Text(std::string_view key, std::string_view value);
  void Int(std::string_view key, std::int64_t value);
  void Number(std::string_view key, double value);  // not finite: null
  void Number(std::string_view key, const std::optional<double>& value);
  void Bool(std::string_view key, bool value);
  void Null(std::string_view key);
  void Texts(std::string_view key, const std::vector<std::string>& values);
  void Raw(std::string_view key, std::string_view json);  // a whole JSON value
  void Objects(std::string_view key, const std::vector<std::string>& objects);
  std::string Take();  // closes the object

 private:
  void Key(std::string_view key);
  std::string out_;
};

}  // namespace attune::cli
