#include "schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace attune::llm {
namespace {

using Json = nlohmann::ordered_json;

// Calls `test` for every schema of an object inside `schema`; false as soon as one fails.
template <class Test>
bool ForObjects(const Json& schema, const Test& test) {
  if (schema.is_array()) {
    return std::all_of(schema.begin(), schema.end(),
                       [&](const Json& item) { return ForObjects(item, test); });
  }
  if (!schema.is_object()) return true;
  const bool is_object =
      schema.contains("properties") || (schema.contains("type") && schema.at("type") == "object");
  if (is_object && !test(schema)) return false;
  return std::all_of(schema.begin(), schema.end(),
                     [&](const Json& item) { return ForObjects(item, test); });
}

}  // namespace

Json SchemaOf(const Tool& tool) { return Json::parse(tool.schema, nullptr, false); }

bool IsClosed(const Json& schema) {
  return ForObjects(schema, [](const Json& object) {
    return object.contains("additionalProperties") && object.at("additionalProperties") == false;
  });
}

bool AllRequired(const Json& schema) {
  return ForObjects(schema, [](const Json& object) {
    if (!object.contains("properties")) return true;
    const Json& properties = object.at("properties");
    if (!properties.is_object()) return false;
    const Json required = object.contains("required") ? object.at("required") : Json::array();
    return std::all_of(properties.items().begin(), properties.items().end(), [&](const auto& p) {
      return std::find(required.begin(), required.end(), p.key()) != required.end();
    });
  });
}

Json OneOfTools(std::span<const Tool> tools) {
  if (tools.size() == 1) return SchemaOf(tools.front());
  Json names = Json::array();
  Json arguments = Json::array();
  for (const Tool& tool : tools) {
    names.push_back(tool.name);
    arguments.push_back(SchemaOf(tool));
  }
  Json properties = Json::object();
  properties["tool"] = {{"type", "string"}, {"enum", std::move(names)}};
  properties["arguments"] = {{"anyOf", std::move(arguments)}};
  Json schema = {{"type", "object"}};
  schema["properties"] = std::move(properties);
  schema["required"] = Json::array({"tool", "arguments"});
  schema["additionalProperties"] = false;
  return schema;
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attune::llm
