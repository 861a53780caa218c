// Reading the messages of exchange.h.
#pragma once

#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "record.h"

namespace attune::launch {

inline tl::unexpected<Error> Unfit(std::string_view kind) {
  return Fail(ErrorCode::kCorrupt,
              "a field of the message '" + std::string(kind) + "' is missing or does not fit");
}

// The single fields of a message; ok() turns false with the first that is missing.
class Fields {
 public:
  explicit Fields(const Record& record) : record_(record) {}
  std::string Text(std::string_view key) {
    auto v = record_.Text(key);
    ok_ = ok_ && v.has_value();
    return v ? std::move(*v) : std::string();
  }
  std::int64_t Int(std::string_view key) {
    const auto v = record_.Int(key);
    ok_ = ok_ && v.has_value();
    return v.value_or(0);
  }
  int Small(std::string_view key) {
    const std::int64_t v = Int(key);
    ok_ = ok_ && v >= 0 && v <= 1'000'000;
    return static_cast<int>(ok_ ? v : 0);
  }
  bool ok() const { return ok_; }

 private:
  const Record& record_;
  bool ok_ = true;
};

}  // namespace attune::launch
