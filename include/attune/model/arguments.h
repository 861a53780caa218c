// The arguments of a training program as an ordered list of flags, and its environment. This is the
// one form in which gates, levers, readback and rendering see a launch line (DESIGN decision 4).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// `flag` is spelt as on the command line, with its dashes ("--micro-batch-size"); empty for tokens
// that stand before the first flag. No values: a bare flag. `from_equals` keeps "--a=b" apart from
// "--a b", for frameworks that care; comparison ignores it.
struct Argument {
  std::string flag;
  std::vector<std::string> values;

  bool operator==(const Argument&) const = default;
};

class Arguments {
 public:
  Arguments() = default;
  explicit Arguments(std::vector<Argument> items) : items_(std::move(items)) {}

  const std::vector<Argument>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  // The last occurrence, which is the one argparse would use; nullptr when absent.
  const Argument* Find(std::string_view flag) const;
  bool Has(std::string_view flag) const { return Find(flag) != nullptr; }
  // The single value of a flag; nullopt when absent, bare, or several.
  std::optional<std::string> Value(std::string_view flag) const;
  // Replaces in place, keeping the position; appends when absent. Collapses repeats.
  void Set(std::string_view flag, std::vector<std::string> values);
  void Unset(std::string_view flag);
  void Append(Argument a) { items_.push_back(std::move(a)); }

  // Tokens in order: flag, values, flag, values ...: what `{{args}}` expands to.
  std::vector<std::string> Render() const;

  bool operator==(const Arguments&) const = default;

 private:
  std::vector<Argument> items_;
};

// Tokenises `tokens`: a token that starts with "--" (or "-" followed by a letter) opens an argument
// and takes every following token up to the next flag; "--a=b" becomes flag "--a" with value "b".
// Negative numbers are values. Parse(Render(x)) == x.
Arguments ParseArguments(std::span<const std::string> tokens);

// Whether ParseArguments(args.Render()) == args, found without building either.
bool ParsesBack(const Arguments& args);

using Env = std::map<std::string, std::string>;

// What is executed: arguments and environment after instrumentation and change.
struct Effective {
  Arguments args;
  Env env;

  bool operator==(const Effective&) const = default;
};

// SHA-256 over the flags sorted by name with their values, and the environment: equal for
// configurations that differ only in the order of flags.
std::string CanonicalHash(const Effective& e);

}  // namespace attune
