#pragma once

#include <cstddef>
#include <string>

#include "attune/base/result.h"

namespace attune {

inline constexpr std::size_t kMaxRecipeText = 1 << 20;

// The whole of a regular file; kNotFound when it is not there, kInvalidInput when it is larger than
// `max_bytes` or no regular file. A folder, a device or a pipe named by mistake must not hang us.
// `shown` is the name in messages; empty: the path itself.
Result<std::string> ReadText(const std::string& path, std::size_t max_bytes,
                             const std::string& shown = {});

// Names of files: lexical, no file is touched.
std::string FolderOf(const std::string& path);                             // "." for "recipe.yaml"
std::string JoinPath(const std::string& folder, const std::string& path);  // absolute `path` wins
std::string Normal(const std::string& path);                               // without "." and ".."
std::string AbsolutePath(const std::string& path);                         // by the working folder
std::string RelativeTo(const std::string& path, const std::string& folder);  // both absolute

}  // namespace attune
