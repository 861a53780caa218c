// Flags and arguments of a command. A thin face over CLI11, which is included by options.cc alone:
// it costs seconds a file, and its habits (a vector option that eats the recipe's name, validators
// that print 309 digits) are dealt with in one place.
//
// References taken here are filled while parsing: members of the command, mostly.
// Names: "-o,--output". Values are checked while parsing; a bad one is exit 2 with the flag named.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/units.h"

namespace CLI {
class App;
}

namespace attune::cli {

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  void Flag(std::string_view names, bool& out, std::string_view doc);
  void Count(std::string_view names, int& out, std::string_view doc);
  void Text(std::string_view names, std::string& out, std::string_view placeholder,
            std::string_view doc);
  // One of `words`.
  void Word(std::string_view names, std::string& out, const std::vector<std::string>& words,
            std::string_view doc);
  // May be given several times, one value each time.
  void Texts(std::string_view names, std::vector<std::string>& out, std::string_view placeholder,
             std::string_view doc);
  void Int(std::string_view names, std::optional<std::int64_t>& out, std::int64_t least,
           std::string_view doc);
  void Number(std::string_view names, std::optional<double>& out, std::string_view placeholder,
              std::string_view doc);  // above 0
  void Duration(std::string_view names, std::optional<Millis>& out, std::string_view doc);

  void Positional(std::string_view name, std::string& out, std::string_view doc,
                  bool required = true);
  void Positionals(std::string_view name, std::vector<std::string>& out, std::string_view doc,
                   int least);

  // "gate check": options of their own; exactly one must be given, and `chosen` is its name then.
  Options Sub(std::string_view name, std::string_view synopsis, std::string_view summary,
              std::string& chosen);
  // Everything after the command's name, flags too (hidden commands).
  void Everything(std::vector<std::string>& out);

 private:
  CLI::App& app_;
};

}  // namespace attune::cli
