#include "attune/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "attune/base/redact.h"
#include "attune/base/text.h"

namespace attune::log {
namespace {

constexpr std::size_t kTerminalBytes = 2000;

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Two loggers because the same message is escaped differently for a terminal and for JSON.
struct Sinks {
  std::atomic<Level> level{Level::kWarn};
  std::mutex mutex;  // guards `file`, which OpenFile replaces, and `redact`
  Redactor redact;
  spdlog::logger terminal{"attune", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::shared_ptr<spdlog::logger> file;

  Sinks() {
    terminal.set_level(spdlog::level::trace);  // `level` has decided before
    terminal.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  }
};

// Never destroyed: destructors of other statics may still log.
Sinks& TheSinks() {
  static Sinks* const sinks = new Sinks;
  return *sinks;
}

}  // namespace

void SetLevel(Level level) { TheSinks().level = level; }

bool OpenFile(const std::string& path) {
  std::shared_ptr<spdlog::logger> file;
  try {
    file = std::make_shared<spdlog::logger>(
        "attune", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  } catch (const spdlog::spdlog_ex&) {
    return false;
  }
  file->set_level(spdlog::level::trace);
  file->set_pattern(R"({"at":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%v"})",
                    spdlog::pattern_time_type::utc);
  // The interesting line is the last one before a crash.
  file->flush_on(spdlog::level::trace);
  Sinks& sinks = TheSinks();
  const std::lock_guard lock(sinks.mutex);
  sinks.file = std::move(file);
  return true;
}

void Hide(std::string_view name, std::string_view value) {
  Sinks& sinks = TheSinks();
  const std::lock_guard lock(sinks.mutex);
  sinks.redact.Know(name, value);
}

void Write(Level level, std::string_view raw) {
  Sinks& sinks = TheSinks();
  if (level == Level::kOff || level < sinks.level.load()) {
    return;
  }
  const std::lock_guard lock(sinks.mutex);
  const std::string message = sinks.redact(raw);
  // Passed as a string_view: spdlog then logs it as it is and never reads it as a format.
  const std::string shown = EscapeForDisplay(message, kTerminalBytes);
  sinks.terminal.log(ToSpdlog(level), spdlog::string_view_t(shown.data(), shown.size()));
  if (sinks.file) {
    const std::string json = JsonEscape(message);
    sinks.file->log(ToSpdlog(level), spdlog::string_view_t(json.data(), json.size()));
  }
}

}  // namespace attune::log
