#include "arguments_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::size_t kMaxArgumentBytes = 131'072;  // MAX_ARG_STRLEN of Linux

// The rule of ParseArguments: what opens an argument.
bool OpensFlag(std::string_view token) {
  return ParseArguments(std::vector<std::string>{std::string(token)}).items().front().flag != "";
}

std::string_view FlagOf(std::string_view token) {
  return token.starts_with("--") ? token.substr(0, token.find('=')) : token;
}

class Collector {
 public:
  Collector(const ArgumentsRequest& request, const Sources& sources)
      : request_(request), sources_(sources) {}

  Result<PlacedArguments> Run() {
    std::vector<PlacedText> tokens = request_.file;
    const Node* args = request_.args;
    if (args != nullptr && args->IsList()) {
      ATTUNE_RETURN_IF_ERROR(ListTokens(*args, tokens));
    }
    ATTUNE_RETURN_IF_ERROR(RefuseSecretArguments(tokens, sources_));
    ATTUNE_RETURN_IF_ERROR(CheckTokens(tokens));
    std::vector<std::string> texts;
    for (const PlacedText& token : tokens) {
      texts.push_back(token.text);
    }
    out_.args = ParseArguments(texts);
    if (args != nullptr) {
      for (const Entry& entry : args->entries) {
        ATTUNE_RETURN_IF_ERROR(Edit(entry));
      }
    }
    ATTUNE_RETURN_IF_ERROR(CheckReadsBack());
    Report();
    return std::move(out_);
  }

 private:
  tl::unexpected<Error> At(const Where& where, std::string_view what, std::string help = {}) const {
    return FailAt(sources_, where, what, std::move(help));
  }

  Status CheckText(const std::string& text, const Where& where) const {
    if (text.find('\n') != std::string::npos) {
      return At(where, "a newline inside an argument", "arguments are single lines");
    }
    if (text.size() >= kMaxArgumentBytes) {
      return At(where, fmt::format("an argument of {} bytes", text.size()));
    }
    return {};
  }

  Status ListTokens(const Node& list, std::vector<PlacedText>& tokens) const {
    for (const Node& item : list.items) {
      if (!item.IsScalar()) {
        return At(item.where,
                  fmt::format("an item of args must be a value, not {}", KindWord(item.kind)));
      }
      ATTUNE_RETURN_IF_ERROR(CheckText(item.text, item.where));
      tokens.push_back({item.text, item.where});
    }
    return {};
  }

  Status CheckTokens(const std::vector<PlacedText>& tokens) {
    bool after_equals = false;
    for (const PlacedText& token : tokens) {
      if (request_.argparse && (token.text == "--" || token.text.starts_with('@'))) {
        return At(token.where,
                  fmt::format("'{}' is ambiguous to argparse", EscapeForDisplay(token.text, 40)),
                  "give every argument in full");
      }
      if (!OpensFlag(token.text)) {
        if (after_equals) {
          return At(token.where, "a value after --flag=value", "write --flag value value");
        }
        if (request_.argparse && places_.empty()) {
          return At(token.where, fmt::format("'{}' stands before the first flag",
                                             EscapeForDisplay(token.text, 40)));
        }
        continue;
      }
      after_equals = token.text.starts_with("--") && token.text.find('=') != std::string::npos;
      const std::string flag(FlagOf(token.text));
      ATTUNE_RETURN_IF_ERROR(CheckFlag(flag, token.where));
      const auto [place, fresh] = places_.try_emplace(flag, token.where);
      if (!fresh && request_.argparse) {
        return At(
            token.where,
            fmt::format("{} is given twice (first in {})", flag, sources_.ShowLine(place->second)),
            "argparse would use the last one; keep that");
      }
      place->second = token.where;
    }
    return {};
  }

  Status CheckFlag(const std::string& flag, const Where& where) const {
    if (!request_.argparse || request_.known_flags == nullptr) {
      return {};
    }
    const std::vector<std::string>& known = *request_.known_flags;
    if (std::find(known.begin(), known.end(), flag) != known.end()) {
      return {};
    }
    std::vector<std::string> longer;
    for (const std::string& name : known) {
      if (name.starts_with(flag)) {
        longer.push_back(name);
      }
    }
    if (longer.empty()) {
      return {};  // unknown: frozen and carried as it is
    }
    std::sort(longer.begin(), longer.end());
    return At(where,
              fmt::format("{} is an abbreviation of {}{}", flag, longer.front(),
                          longer.size() > 1 ? fmt::format(" and {} more", longer.size() - 1) : ""),
              "argparse would guess; write the flag in full");
  }

  Status Edit(const Entry& entry) {
    std::string flag = entry.key.starts_with('-') ? entry.key : "--" + entry.key;
    if (!OpensFlag(flag) || flag.find_first_of(" =\t") != std::string::npos) {
      return At(entry.where, fmt::format("'{}' is no flag", EscapeForDisplay(entry.key, 80)));
    }
    if (!edited_.try_emplace(flag, entry.where).second) {
      return At(
          entry.where,
          fmt::format("{} is given twice (first in {})", flag, sources_.ShowLine(edited_[flag])),
          "with and without dashes is the same flag");
    }
    ATTUNE_RETURN_IF_ERROR(CheckFlag(flag, entry.where));
    const Node& value = entry.value;
    places_[flag] = entry.where;
    if (value.IsScalar() && value.plain && value.text == "false") {
      out_.args.Unset(flag);
      return {};
    }
    std::vector<std::string> values;
    if (value.IsList()) {
      for (const Node& item : value.items) {
        if (!item.IsScalar()) {
          return At(item.where, fmt::format("a value of {} must be a word or a number", flag));
        }
        ATTUNE_RETURN_IF_ERROR(CheckValue(flag, item));
        values.push_back(item.text);
      }
      if (values.empty()) {
        return At(value.where, fmt::format("{} has an empty list", flag),
                  "write true for a bare flag, false to leave it out");
      }
    } else if (!(value.plain && value.text == "true")) {
      if (!value.IsScalar()) {
        return At(value.where, fmt::format("args.{} must be a value or a list", entry.key));
      }
      ATTUNE_RETURN_IF_ERROR(CheckValue(flag, value));
      values.push_back(value.text);
    }
    out_.args.Set(flag, std::move(values));
    return {};
  }

  Status CheckValue(const std::string& flag, const Node& value) const {
    if (OpensFlag(value.text)) {
      return At(value.where, fmt::format("the value of {} would be read as a flag", flag),
                "values cannot begin with a dash and a letter");
    }
    return CheckText(value.text, value.where);
  }

  Status CheckReadsBack() const {
    const std::vector<std::string> rendered = out_.args.Render();
    const Arguments again = ParseArguments(rendered);
    if (again == out_.args) {
      return {};
    }
    const std::size_t n = std::min(again.items().size(), out_.args.items().size());
    for (std::size_t i = 0; i < n; ++i) {
      const Argument& intended = out_.args.items()[i];
      if (again.items()[i] == intended) {
        continue;
      }
      const auto place = places_.find(intended.flag);
      return At(place == places_.end() ? Where{0, 0, 0} : place->second,
                fmt::format("{} cannot be written as separate words", intended.flag),
                "values cannot begin with a dash and a letter");
    }
    return At({0, 0, 0}, "the arguments cannot be written as separate words");
  }

  void Report() {
    for (const Argument& argument : out_.args.items()) {
      const auto place = places_.find(argument.flag);
      if (place != places_.end()) {
        out_.origins.push_back({"args." + argument.flag,
                                argument.values.empty() ? "true" : Join(argument.values, " "),
                                sources_.Show(place->second)});
      }
    }
  }

  const ArgumentsRequest& request_;
  const Sources& sources_;
  PlacedArguments out_;
  std::map<std::string, Where> places_;  // where a flag was last given
  std::map<std::string, Where> edited_;
};

}  // namespace

Result<PlacedArguments> ReadArguments(const ArgumentsRequest& request, const Sources& sources) {
  return Collector(request, sources).Run();
}

}  // namespace attune
