// The table of keys as a JSON Schema (2020-12), for editors. It is looser than the reader, which
// also knows what fields mean to each other.
#include <nlohmann/json.hpp>

#include "attune/recipe_io/recipe_io.h"
#include "keys.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

Json Object(std::span<const Key> keys);

Json OneOf(std::initializer_list<Json> choices) { return {{"anyOf", choices}}; }

// A scalar as written: numbers and true/false are text too where text is asked for.
Json Scalar() { return {{"type", {"string", "number", "boolean"}}}; }
Json ListOf(Json item) { return {{"type", "array"}, {"items", std::move(item)}}; }
Json MapOf(Json value) { return {{"type", "object"}, {"additionalProperties", std::move(value)}}; }
Json Duration() { return {{"type", "string"}, {"pattern", "^([0-9]+(h|ms|m|s))+$"}}; }

Json Words(const Key& key) {
  Json words = Json::array();
  for (const std::string_view word : key.words) {
    words.push_back(std::string(word));
  }
  return {{"enum", std::move(words)}};
}

Json TypeOf(const Key& key) {
  switch (key.kind) {
    case KeyKind::kText:
      return key.words.empty() ? Scalar() : Words(key);
    case KeyKind::kInt:
      return {{"type", "integer"}};
    case KeyKind::kNumber:
      return {{"type", "number"}};
    case KeyKind::kBool:
      return {{"type", "boolean"}};
    case KeyKind::kDuration:
      return Duration();
    case KeyKind::kTexts:
      return ListOf(key.words.empty() ? Scalar() : Words(key));
    case KeyKind::kInts:
      return ListOf({{"type", "integer"}});
    case KeyKind::kTextMap:
      return MapOf(Scalar());
    case KeyKind::kSection:
      return Object(key.keys);
    case KeyKind::kSections:
      return ListOf(Object(key.keys));
    case KeyKind::kArgs:
      return OneOf({ListOf(Scalar()), MapOf(OneOf({Scalar(), ListOf(Scalar())}))});
    case KeyKind::kBudget:
      return OneOf({{{"type", "number"}}, {{"const", "auto"}}});
    case KeyKind::kExtends:
      return OneOf({{{"type", "string"}}, ListOf({{"type", "string"}})});
    case KeyKind::kShape:
      return OneOf({{{"type", "string"}}, MapOf(Scalar())});
    case KeyKind::kChoice:
      return OneOf({Words(key), Object(key.keys)});
  }
  return Json::object();
}

Json Object(std::span<const Key> keys) {
  Json properties = Json::object();
  for (const Key& key : keys) {
    Json type = TypeOf(key);
    type["description"] = std::string(key.doc);
    properties[std::string(key.name)] = std::move(type);
  }
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace

std::string RecipeJsonSchema() {
  Json schema = Object(RecipeKeys());
  // Required keys may come from a file that this one extends: only the first line is certain.
  schema["required"] = {"schema"};
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"$id", "attune/recipe/1"},
              {"title", "attune recipe"}};
  out.update(schema);
  return out.dump(2) + "\n";
}

}  // namespace attune
