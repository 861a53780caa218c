#include "log_tail.h"

#include <algorithm>

#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::size_t kKeptBytes = 4096;
constexpr std::size_t kLineBytes = 200;

std::int64_t Newlines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

void LogTail::Feed(std::string_view bytes) {
  newlines_ += Newlines(bytes);
  if (bytes.size() > kKeptBytes) bytes.remove_prefix(bytes.size() - kKeptBytes);
  kept_ += bytes;
  if (kept_.size() > 2 * kKeptBytes) kept_.erase(0, kept_.size() - kKeptBytes);
}

std::optional<LogTail::Line> LogTail::Last() const {
  const std::string_view kept = kept_;
  const std::size_t last = kept.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return std::nullopt;
  const std::size_t before = kept.rfind('\n', last);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return Line{EscapeForDisplay(kept.substr(begin, last + 1 - begin), kLineBytes),
              newlines_ - Newlines(kept.substr(last)) + 1};
}

}  // namespace attune
