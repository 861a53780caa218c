// Names by number: each spelling is kept once, with what it is known to mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace attune::traces {

// FNV-like over eight bytes at a time: the same on every machine, so that ties broken by it do not
// depend on the order of events.
std::uint64_t HashBytes(std::string_view s);

class NameTable {
 public:
  // The text is copied on first sight. Up to 2^32 - 1 names.
  std::uint32_t Intern(std::string_view name);
  std::string_view Text(std::uint32_t id) const { return names_[id].text; }
  std::uint64_t Hash(std::uint32_t id) const { return names_[id].hash; }
  std::size_t size() const { return names_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Name {
    std::string_view text;
    std::uint64_t hash;
  };
  std::string_view Store(std::string_view name);
  void Rehash();

  std::vector<Name> names_;
  std::vector<std::uint32_t> slots_;  // id + 1; 0: free
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0;
  char* block_at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace attune::traces
