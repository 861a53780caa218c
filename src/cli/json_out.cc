#include "json_out.h"

#include <fmt/core.h>

#include <cmath>

#include "attune/base/text.h"

namespace attune::cli {

JsonOut::JsonOut(std::string_view schema) : out_("{") {
  if (!schema.empty()) {
    Text("schema", schema);
  }
}

void JsonOut::Key(std::string_view key) {
  if (out_.size() > 1) {
    out_ += ',';
  }
  out_ += fmt::format("\"{}\":", JsonEscape(key));
}

void JsonOut::Text(std::string_view key, std::string_view value) {
  Key(key);
  out_ += fmt::format("\"{}\"", JsonEscape(value));
}

void JsonOut::Int(std::string_view key, std::int64_t value) {
  Key(key);
  out_ += fmt::format("{}", value);
}

void JsonOut::Number(std::string_view key, double value) {
  Key(key);
  out_ += std::isfinite(value) ? fmt::format("{}", value) : "null";
}

void JsonOut::Number(std::string_view key, const std::optional<double>& value) {
  if (value) {
    Number(key, *value);
  } else {
    Null(key);
  }
}

void JsonOut::Bool(std::string_view key, bool value) {
  Key(key);
  out_ += value ? "true" : "false";
}

void JsonOut::Null(std::string_view key) {
  Key(key);
  out_ += "null";
}

void JsonOut::Texts(std::string_view key, const std::vector<std::string>& values) {
  Key(key);
  out_ += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    out_ += fmt::format("{}\"{}\"", i == 0 ? "" : ",", JsonEscape(values[i]));
  }
  out_ += ']';
}

void JsonOut::Raw(std::string_view key, std::string_view json) {
  Key(key);
  out_ += json;
}

void JsonOut::Objects(std::string_view key, const std::vector<std::string>& objects) {
  Key(key);
  out_ += '[' + Join(objects, ",") + ']';
}

std::string JsonOut::Take() {
  out_ += '}';
  return std::move(out_);
}

}  // namespace attune::cli
