// The numbered schema changes, embedded at build time from migrations/*.sql.
#pragma once

#include <string_view>

namespace attune {

struct Migration {
  int version;  // user_version after it
  std::string_view name;
  std::string_view text;
};

// In order, 1, 2, 3 ... without gaps.
extern const Migration kMigrations[];
extern const int kSchemaVersion;  // of the last one

// "attn" in ASCII: marks the file as ours (PRAGMA application_id).
inline constexpr int kApplicationId = 0x6174746E;

}  // namespace attune
