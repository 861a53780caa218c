// Our own log (not the job's): one line a message, to stderr and optionally a JSON-lines file.
// spdlog is included by log.cc alone. Libraries log at debug level only; what a user must see is
// returned as a value and printed by cli.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace attune::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };

void SetLevel(Level level);
bool OpenFile(const std::string& path);  // false when it can't be opened
// From now on `value` and its encodings stand in no line (base/redact.h). What has the form of a
// key never does.
void Hide(std::string_view name, std::string_view value);
void Write(Level level, std::string_view message);

template <class... T>
void Debug(fmt::format_string<T...> f, T&&... args) {
  Write(Level::kDebug, fmt::format(f, std::forward<T>(args)...));
}
template <class... T>
void Warn(fmt::format_string<T...> f, T&&... args) {
  Write(Level::kWarn, fmt::format(f, std::forward<T>(args)...));
}

}  // namespace attune::log
