// Look-up of flags in an argument list. Resolution and rules ask for some two hundred flags a
// candidate, and the whole gate has 50 microseconds: names are hashed at compile time, arguments
// once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "attune/model/arguments.h"

namespace attune {

constexpr std::uint64_t FlagHash(std::string_view flag) {  // FNV-1a
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : flag) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

struct FlagName {
  std::string_view text;
  std::uint64_t hash = 0;
  // Never at run time, where two hundred names a look-up would cost as much as all the rest.
  consteval FlagName(const char* flag)  // NOLINT(google-explicit-constructor): a literal is a name
      : text(flag), hash(FlagHash(text)) {}
  constexpr explicit FlagName(std::string_view flag) : text(flag), hash(FlagHash(flag)) {}
};

// The last occurrence of each flag, as argparse has it. Refers to the arguments, which must outlive
// it and stay as they are.
class FlagIndex {
 public:
  explicit FlagIndex(const Arguments& args);
  const Argument* Find(const FlagName& flag) const;

 private:
  struct Slot {
    std::uint64_t hash = 0;
    const Argument* argument = nullptr;
  };
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace attune
