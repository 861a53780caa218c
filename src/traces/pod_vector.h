// A growing array of trivial records. Large blocks grow by remapping pages, so growth does not need
// the old and the new block at once as a std::vector does; peak memory is what the records need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "attune/base/check.h"

namespace attune::traces {

template <class T>
class PodVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PodVector() = default;
  PodVector(PodVector&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)),
        size_(std::exchange(o.size_, 0)),
        capacity_(std::exchange(o.capacity_, 0)) {}
  PodVector& operator=(PodVector&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(capacity_, o.capacity_);
    return *this;
  }
  ~PodVector() { std::free(data_); }

  void Add(const T& value) {
    if (size_ == capacity_) Grow();
    data_[size_++] = value;
  }
  void Clear() {
    std::free(std::exchange(data_, nullptr));
    size_ = capacity_ = 0;
  }
  void Truncate(std::size_t n) {
    if (n < size_) size_ = n;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  void Grow() {
    const std::size_t capacity = capacity_ < 64 ? 64 : capacity_ + capacity_ / 2;
    void* grown = std::realloc(data_, capacity * sizeof(T));
    ATTUNE_CHECK(grown != nullptr, "out of memory");
    data_ = static_cast<T*>(grown);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace attune::traces
