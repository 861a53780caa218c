#include "name_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace attune::traces {

std::uint64_t HashBytes(std::string_view s) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15ull;
  std::uint64_t hash = s.size() * kPrime;
  const char* p = s.data();
  std::size_t left = s.size();
  const auto mix = [&hash](std::uint64_t word) { hash = (std::rotl(hash, 27) ^ word) * kPrime; };
  for (; left >= 8; left -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, left);
    mix(word);
  }
  return hash ^ hash >> 31;
}

std::string_view NameTable::Store(std::string_view name) {
  constexpr std::size_t kBlock = 64 * 1024;
  if (name.size() > block_left_) {
    block_left_ = std::max(kBlock, name.size());
    blocks_.push_back(std::make_unique<char[]>(block_left_));
    block_at_ = blocks_.back().get();
    bytes_ += block_left_;
  }
  if (name.empty()) return {};
  std::memcpy(block_at_, name.data(), name.size());
  const std::string_view stored(block_at_, name.size());
  block_at_ += name.size();
  block_left_ -= name.size();
  return stored;
}

void NameTable::Rehash() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t id = 0; id < names_.size(); ++id) {
    std::size_t slot = names_[id].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = id + 1;
  }
}

std::uint32_t NameTable::Intern(std::string_view name) {
  if (names_.size() * 2 >= slots_.size()) Rehash();
  const std::uint64_t hash = HashBytes(name);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Name& known = names_[slots_[slot] - 1];
    if (known.hash == hash && known.text == name) return slots_[slot] - 1;
  }
  names_.push_back({Store(name), hash});
  slots_[slot] = static_cast<std::uint32_t>(names_.size());
  return slots_[slot] - 1;
}

}  // namespace attune::traces
