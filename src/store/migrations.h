// The numbered schema changes, embedded at build time from migrations/*.sql.
#pragma once

#include <span>
#include <string_view>

namespace attune {

struct Migration {
  int version;  // user_version after it
  std::string_view name;
  std::string_view text;
};

// In order, 1, 2, 3 ... without gaps. The last one's version is the schema of this program.
std::span<const Migration> BuiltInMigrations();

// "attn" in ASCII: marks the file as ours (PRAGMA application_id).
inline constexpr int kApplicationId = 0x6174746E;

}  // namespace attune
