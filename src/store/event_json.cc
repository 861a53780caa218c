// Writing and reading go through one list of fields (event_fields.h). Errors carry the path of the
// field: "steps[3].losses: ...".
#include "event_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "attune/base/text.h"
#include "event_fields.h"
#include "field_types.h"

namespace attune {
namespace {

using nlohmann::json;
using store_fields::Care;
using store_fields::Fields;
using store_fields::IsId;
using store_fields::IsOptional;
using store_fields::IsPair;
using store_fields::IsTextMap;
using store_fields::IsVector;
using store_fields::kLast;

// ADL finds attune::Word; the one of Form lives with the fields.
using store_fields::Word;

// Where it went wrong. Filled from the inside out while the calls return false.
struct Trouble {
  std::string path;
  std::string why;

  bool Raise(std::string w) {
    why = std::move(w);
    return false;
  }
  bool In(std::string_view name) {
    path = std::string(name) + (path.empty() || path[0] == '[' ? "" : ".") + path;
    return false;
  }
  bool In(std::size_t index) { return In(fmt::format("[{}]", index)); }
  std::string Text() const { return path.empty() ? why : path + ": " + why; }
};

// ----- writing

template <class T>
bool Put(json& to, const T& x, Care care, Trouble& t);

struct ObjectWriter {
  json& to;
  Trouble& trouble;
  bool ok = true;

  template <class T>
  void operator()(const char* name, const T& x, Care care = Care::kExact) {
    if (!ok) return;
    ok = Put(to[name], x, care, trouble) || trouble.In(name);
  }
};

bool PutText(json& to, const std::string& s, Care care, Trouble& t) {
  if (care == Care::kExact && !IsValidUtf8(s)) {
    return t.Raise(fmt::format("text that is not UTF-8: \"{}\"", EscapeForDisplay(s, 80)));
  }
  to = s;  // free text: dump() replaces the bad bytes
  return true;
}

bool PutNumber(json& to, double x, Care care, Trouble& t) {
  if (std::isfinite(x)) {
    to = x;
    return true;
  }
  if (care != Care::kLoose) return t.Raise("a number that is not finite");
  to = std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
  return true;
}

template <class T>
bool Put(json& to, const T& x, Care care, Trouble& t) {
  if constexpr (std::is_same_v<T, bool>) {
    to = x;
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    to = x;
    return true;
  } else if constexpr (std::is_same_v<T, double>) {
    return PutNumber(to, x, care, t);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return PutText(to, x, care, t);
  } else if constexpr (IsId<T>::value) {
    return PutText(to, x.value, Care::kExact, t);
  } else if constexpr (std::is_same_v<T, Millis>) {
    to = x.count();
    return true;
  } else if constexpr (std::is_same_v<T, GpuMillis>) {
    to = x.value;
    return true;
  } else if constexpr (std::is_enum_v<T>) {
    to = std::string(Word(x));
    return true;
  } else if constexpr (IsOptional<T>::value) {
    if (x) return Put(to, *x, care, t);
    to = nullptr;
    return true;
  } else if constexpr (IsVector<T>::value) {
    to = json::array();
    for (std::size_t i = 0; i < x.size(); ++i) {
      to.emplace_back();
      if (!Put(to.back(), x[i], care, t)) return t.In(i);
    }
    return true;
  } else if constexpr (IsPair<T>::value) {
    to = json::array({nullptr, nullptr});
    return (Put(to[0], x.first, care, t) || t.In(std::size_t{0})) &&
           (Put(to[1], x.second, care, t) || t.In(std::size_t{1}));
  } else if constexpr (IsTextMap<T>::value) {
    to = json::object();
    for (const auto& [key, value] : x) {
      if (care == Care::kExact && !IsValidUtf8(key)) {
        return t.Raise(fmt::format("a name that is not UTF-8: \"{}\"", EscapeForDisplay(key, 80)));
      }
      // Replaced here, not by dump(): two bad names must not become two equal keys.
      const std::string name = IsValidUtf8(key) ? key : EscapeForDisplay(key, key.size() * 4);
      if (!Put(to[name], value, care, t)) return t.In(name);
    }
    return true;
  } else if constexpr (std::is_same_v<T, Arguments>) {
    return Put(to, x.items(), care, t);
  } else {
    to = json::object();
    ObjectWriter writer{to, t};
    Fields(writer, x);
    return writer.ok;
  }
}

// ----- reading

template <class T>
bool Get(const json& from, T& x, Care care, Trouble& t);

struct ObjectReader {
  const json& from;
  Trouble& trouble;
  bool ok = true;
  std::vector<std::string_view> seen{};

  template <class T>
  void operator()(const char* name, T& x, Care care = Care::kExact) {
    if (!ok) return;
    const auto it = from.find(name);
    if (it == from.end()) {
      ok = care == Care::kAdded || trouble.Raise("missing") || trouble.In(name);
      return;
    }
    seen.emplace_back(name);
    ok = Get(*it, x, care, trouble) || trouble.In(name);
  }
  bool Finish() {
    if (!ok || seen.size() == from.size()) return ok;
    for (const auto& [name, value] : from.items()) {
      if (std::find(seen.begin(), seen.end(), name) == seen.end()) {
        trouble.Raise("unknown field");
        return trouble.In(EscapeForDisplay(name, 80));
      }
    }
    return true;
  }
};

template <class T>
bool GetInteger(const json& from, T& x, Trouble& t) {
  if (!from.is_number_integer()) return t.Raise("expected an integer");
  if (from.is_number_unsigned()) {
    const auto v = from.get<std::uint64_t>();
    if (v > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) {
      return t.Raise("integer out of range");
    }
    x = static_cast<T>(v);
    return true;
  }
  const auto v = from.get<std::int64_t>();  // negative: positive ones are read as unsigned
  if constexpr (std::is_unsigned_v<T>) {
    return t.Raise("integer out of range");
  } else {
    if (v < static_cast<std::int64_t>(std::numeric_limits<T>::min())) {
      return t.Raise("integer out of range");
    }
    x = static_cast<T>(v);
    return true;
  }
}

bool GetNumber(const json& from, double& x, Care care, Trouble& t) {
  if (from.is_number()) {
    x = from.get<double>();
    return true;
  }
  if (care == Care::kLoose && from.is_string()) {
    const auto& word = from.get_ref<const std::string&>();
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (word == "NaN") return x = std::numeric_limits<double>::quiet_NaN(), true;
    if (word == "Infinity") return x = kInf, true;
    if (word == "-Infinity") return x = -kInf, true;
  }
  return t.Raise("expected a number");
}

bool GetText(const json& from, std::string& x, Trouble& t) {
  if (!from.is_string()) return t.Raise("expected a text");
  x = from.get_ref<const std::string&>();
  return true;
}

template <class E>
bool GetEnum(const json& from, E& x, Trouble& t) {
  std::string word;
  if (!GetText(from, word, t)) return false;
  for (int i = 0; i <= static_cast<int>(kLast<E>); ++i) {
    if (Word(static_cast<E>(i)) != word) continue;
    x = static_cast<E>(i);
    return true;
  }
  return t.Raise(fmt::format("unknown word \"{}\"", EscapeForDisplay(word, 40)));
}

template <class T>
bool Get(const json& from, T& x, Care care, Trouble& t) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean()) return t.Raise("expected true or false");
    x = from.get<bool>();
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    return GetInteger(from, x, t);
  } else if constexpr (std::is_same_v<T, double>) {
    return GetNumber(from, x, care, t);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return GetText(from, x, t);
  } else if constexpr (IsId<T>::value) {
    return GetText(from, x.value, t);
  } else if constexpr (std::is_same_v<T, Millis>) {
    std::int64_t ms = 0;
    if (!GetInteger(from, ms, t)) return false;
    x = Millis{ms};
    return true;
  } else if constexpr (std::is_same_v<T, GpuMillis>) {
    return GetInteger(from, x.value, t);
  } else if constexpr (std::is_enum_v<T>) {
    return GetEnum(from, x, t);
  } else if constexpr (IsOptional<T>::value) {
    if (from.is_null()) return x.reset(), true;
    return Get(from, x.emplace(), care, t);
  } else if constexpr (IsVector<T>::value) {
    if (!from.is_array()) return t.Raise("expected a list");
    x.resize(from.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!Get(from[i], x[i], care, t)) return t.In(i);
    }
    return true;
  } else if constexpr (IsPair<T>::value) {
    if (!from.is_array() || from.size() != 2) return t.Raise("expected a pair");
    return (Get(from[0], x.first, care, t) || t.In(std::size_t{0})) &&
           (Get(from[1], x.second, care, t) || t.In(std::size_t{1}));
  } else if constexpr (IsTextMap<T>::value) {
    if (!from.is_object()) return t.Raise("expected an object");
    x.clear();
    for (const auto& [key, value] : from.items()) {
      if (!Get(value, x[key], care, t)) return t.In(EscapeForDisplay(key, 80));
    }
    return true;
  } else if constexpr (std::is_same_v<T, Arguments>) {
    std::vector<Argument> items;
    if (!Get(from, items, care, t)) return false;
    x = Arguments(std::move(items));
    return true;
  } else {
    if (!from.is_object()) return t.Raise("expected an object");
    ObjectReader reader{from, t};
    Fields(reader, x);
    return reader.Finish();
  }
}

// The parser of nlohmann keeps the last of two equal keys without a word; ours are never written
// twice, so a repeated one is damage.
struct RepeatedKeys {
  std::vector<std::set<std::string>> open;
  std::string found;

  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        open.emplace_back();
        break;
      case json::parse_event_t::object_end:
        open.pop_back();
        break;
      case json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open.back().insert(key).second) found = key;
        break;
      }
      case json::parse_event_t::array_start:
      case json::parse_event_t::array_end:
      case json::parse_event_t::value:
        break;
    }
    return true;
  }
};

template <std::size_t... I>
std::optional<Fact> FactOf(std::string_view word, std::index_sequence<I...>) {
  std::optional<Fact> made;
  const auto try_one = [&](Fact fact) {
    if (FactWord(fact) == word) made = std::move(fact);
    return made.has_value();
  };
  (void)(try_one(Fact(std::in_place_index<I>)) || ...);
  return made;
}

}  // namespace

Result<std::string> EncodeFact(const Fact& fact) {
  json body;
  Trouble trouble;
  const bool ok =
      std::visit([&](const auto& f) { return Put(body, f, Care::kExact, trouble); }, fact);
  if (!ok) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("fact {} can't be stored: {}", FactWord(fact), trouble.Text()));
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Fact> DecodeFact(std::string_view word, std::string_view body) {
  std::optional<Fact> fact = FactOf(word, std::make_index_sequence<std::variant_size_v<Fact>>{});
  if (!fact) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("unknown kind of event \"{}\"", EscapeForDisplay(word, 40)));
  }
  RepeatedKeys repeated;
  const json parsed = json::parse(body, std::ref(repeated), /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: body is no JSON", word));
  }
  if (!repeated.found.empty()) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: field \"{}\" stands twice", word,
                                                 EscapeForDisplay(repeated.found, 80)));
  }
  Trouble trouble;
  const bool ok = std::visit([&](auto& f) { return Get(parsed, f, Care::kExact, trouble); }, *fact);
  if (!ok) return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", word, trouble.Text()));
  return *std::move(fact);
}

std::string EventLine(const CampaignId& campaign, const Event& event, std::string_view body) {
  return fmt::format(
      R"({{"schema":"attune.event/1","campaign":"{}","seq":{},"at":"{}","kind":"{}","body":{}}})",
      JsonEscape(campaign.value), event.seq, Rfc3339(event.at), FactWord(event.fact), body);
}

Result<std::string> EventLine(const CampaignId& campaign, const Event& event) {
  ATTUNE_TRY(const std::string body, EncodeFact(event.fact));
  return EventLine(campaign, event, body);
}

}  // namespace attune
