// Where the bytes of a trace come from: a file, a compressed file, or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "attune/base/result.h"

namespace attune::traces {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to n bytes into `to`; 0 only at the end. Error: kUnavailable when the system cannot read,
  // kCorrupt when compressed data is damaged (everything before has been handed out).
  virtual Result<std::size_t> Read(char* to, std::size_t n) = 0;
  // After the end: the data stopped where the container says more must come (a cut gzip member).
  virtual bool EndedEarly() const { return false; }
  // After the end: the file is not what it was when it was opened.
  virtual bool Changed() const { return false; }
  // After the end: compressed data was followed by bytes that are none.
  virtual bool HadTrailingBytes() const { return false; }
};

// Identity of a file, so that one file under two names is read once.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

struct OpenedFile {
  std::unique_ptr<ByteSource> source;  // inflates gzip by its first bytes, not by its name
  FileIdentity identity;
  bool compressed = false;
  bool sqlite = false;  // an SQLite database: to be read from its path, not from `source`
};

// Follows a symbolic link. Never blocks: what is no regular file is refused by name.
// Error: kNotFound, kDenied, kInvalidInput (folder, device, pipe), kUnavailable.
Result<OpenedFile> OpenFile(const std::string& path);

// Inflates any number of gzip members, one after the other (zero bytes between them are padding).
std::unique_ptr<ByteSource> Inflate(std::unique_ptr<ByteSource> compressed);

// Hands out `most` bytes of `source` and then ends. `*cut` becomes true when there was more.
std::unique_ptr<ByteSource> Limit(std::unique_ptr<ByteSource> source, std::int64_t most, bool* cut);

// `bytes` must outlive the source. piece: the most that one Read hands out; 0: all.
std::unique_ptr<ByteSource> FromMemory(std::string_view bytes, std::size_t piece = 0);

}  // namespace attune::traces
