// The list of fields (event_fields.h) as a JSON Schema (2020-12) of one line of events. Made from
// the same list that writes them, so the two cannot differ.
#include <nlohmann/json.hpp>

#include "attune/store/store.h"
#include "event_fields.h"
#include "field_types.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;
using namespace store_fields;  // NOLINT(google-build-using-namespace): every field type is there

template <class T>
Json SchemaOf(Care care);

struct SchemaMaker {
  Json properties = Json::object();
  Json required = Json::array();

  template <class T>
  void operator()(const char* name, const T&, Care care = Care::kExact) {
    properties[name] = SchemaOf<T>(care);
    if (care != Care::kAdded) required.push_back(name);
  }
};

// Fields are only ever added, so that an unknown one is no error for a reader.
template <class T>
Json ObjectOf() {
  T example{};
  SchemaMaker maker;
  Fields(maker, example);
  return {{"type", "object"},
          {"properties", std::move(maker.properties)},
          {"required", std::move(maker.required)}};
}

template <class E>
Json WordsOf() {
  Json words = Json::array();
  for (int i = 0; i <= static_cast<int>(kLast<E>); ++i) {
    words.push_back(std::string(Word(static_cast<E>(i))));
  }
  return {{"enum", std::move(words)}};
}

// What a job may have printed may be no finite number.
Json NumberOf(Care care) {
  const Json number = {{"type", "number"}};
  if (care != Care::kLoose) return number;
  return {{"anyOf", {number, {{"enum", {"NaN", "Infinity", "-Infinity"}}}}}};
}

template <class T>
Json SchemaOf(Care care) {
  if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, Millis> ||
                       std::is_same_v<T, GpuMillis>) {
    return {{"type", "integer"}};
  } else if constexpr (std::is_same_v<T, double>) {
    return NumberOf(care);
  } else if constexpr (std::is_same_v<T, std::string> || IsId<T>::value) {
    return {{"type", "string"}};
  } else if constexpr (std::is_enum_v<T>) {
    return WordsOf<T>();
  } else if constexpr (IsOptional<T>::value) {
    return {{"anyOf", {SchemaOf<typename T::value_type>(care), {{"type", "null"}}}}};
  } else if constexpr (IsVector<T>::value) {
    return {{"type", "array"}, {"items", SchemaOf<typename T::value_type>(care)}};
  } else if constexpr (IsPair<T>::value) {
    return {{"type", "array"},
            {"prefixItems",
             {SchemaOf<typename T::first_type>(care), SchemaOf<typename T::second_type>(care)}},
            {"minItems", 2},
            {"maxItems", 2}};
  } else if constexpr (IsTextMap<T>::value) {
    return {{"type", "object"}, {"additionalProperties", SchemaOf<typename T::mapped_type>(care)}};
  } else if constexpr (std::is_same_v<T, Arguments>) {
    return {{"type", "array"}, {"items", SchemaOf<Argument>(care)}};
  } else {
    return ObjectOf<T>();
  }
}

template <std::size_t... I>
Json Kinds(std::index_sequence<I...>) {
  Json kinds = Json::array();
  const auto add = [&]<class F>(F fact) {
    kinds.push_back(
        {{"properties",
          {{"kind", {{"const", std::string(FactWord(Fact(fact)))}}}, {"body", ObjectOf<F>()}}}});
  };
  (add(std::variant_alternative_t<I, Fact>{}), ...);
  return kinds;
}

}  // namespace

std::string EventsJsonSchema() {
  const Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", "attune/event/1"},
      {"title", "one line of attune run --events FILE and of attune db export"},
      {"type", "object"},
      {"properties",
       {{"schema", {{"const", "attune.event/1"}}},
        {"campaign", {{"type", "string"}}},
        {"seq", {{"type", "integer"}, {"minimum", 1}}},
        {"at", {{"type", "string"}, {"format", "date-time"}}},
        {"kind", {{"type", "string"}}},
        {"body", {{"type", "object"}}}}},
      {"required", {"schema", "campaign", "seq", "at", "kind", "body"}},
      {"oneOf", Kinds(std::make_index_sequence<std::variant_size_v<Fact>>{})}};
  return schema.dump(1) + "\n";
}

}  // namespace attune
