#include "terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "json_out.h"

namespace attune::cli {
namespace {

std::string_view Code(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kBold:
      return "\x1b[1m";
    case Ink::kGood:
      return "\x1b[32m";
    case Ink::kBad:
      return "\x1b[31m";
    case Ink::kWarn:
      return "\x1b[33m";
    case Ink::kFaint:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

bool WantsColour(bool is_terminal, std::string_view flag, const char* no_color, const char* term,
                 const char* force) {
  const auto set = [](const char* value) { return value != nullptr && *value != '\0'; };
  if (flag == "always") {
    return true;
  }
  if (flag == "never" || set(no_color)) {
    return false;
  }
  if (set(force) && std::string_view(force) != "0") {
    return true;
  }
  return is_terminal && !(term != nullptr && std::string_view(term) == "dumb");
}

Terminal::Terminal(int in_fd, int out_fd, int err_fd)
    : in_fd_(in_fd),
      out_fd_(out_fd),
      err_fd_(err_fd),
      in_terminal_(isatty(in_fd) == 1),
      out_terminal_(isatty(out_fd) == 1),
      err_terminal_(isatty(err_fd) == 1) {
  Set({});
}

void Terminal::Set(const TerminalFlags& flags) {
  flags_ = flags;
  const auto wants = [&](bool is_terminal) {
    return WantsColour(is_terminal, flags_.color, std::getenv("NO_COLOR"), std::getenv("TERM"),
                       std::getenv("CLICOLOR_FORCE"));
  };
  out_colour_ = wants(out_terminal_) && !flags_.json;
  err_colour_ = wants(err_terminal_);
}

void Terminal::Write(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      if (fd == out_fd_) {
        out_gone_ = errno == EPIPE;
        out_failed_ = !out_gone_;
      }
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Terminal::Out(std::string_view text) {
  if (!out_gone_ && !out_failed_) {
    Write(out_fd_, text);
  }
}

void Terminal::Note(std::string_view line) {
  if (!flags_.quiet) {
    Write(err_fd_, redact_(line) + "\n");
  }
}

void Terminal::Warn(std::string_view line) {
  const bool colour = err_colour_;
  Write(err_fd_, fmt::format("{}warning:{} {}\n", colour ? Code(Ink::kWarn) : "",
                             colour ? "\x1b[0m" : "", redact_(line)));
}

void Terminal::Fail(std::string_view kind, int code, std::string_view raw_message,
                    std::string_view raw_help) {
  const std::string message = redact_(raw_message), help = redact_(raw_help);
  if (flags_.json) {
    JsonOut json("attune.error/1");
    json.Int("code", code);
    json.Text("kind", kind);
    json.Text("message", message);
    json.Text("hint", help);
    Out(json.Take() + "\n");
    return;
  }
  const bool colour = err_colour_;
  std::string text = fmt::format("{}error:{} {}\n", colour ? Code(Ink::kBad) : "",
                                 colour ? "\x1b[0m" : "", message);
  if (!help.empty()) {
    text += fmt::format("  help: {}\n", help);
  }
  Write(err_fd_, text);
}

std::string Terminal::Paint(Ink ink, std::string_view text) const {
  if (!out_colour_ || ink == Ink::kPlain) {
    return std::string(text);
  }
  return fmt::format("{}{}\x1b[0m", Code(ink), text);
}

Result<bool> Terminal::Ask(std::string_view question, std::string_view flag) {
  if (!in_terminal_ || flags_.no_input) {
    return attune::Fail(ErrorCode::kInvalidInput, fmt::format("{} (nobody to ask)", question),
                        fmt::format("answer it with {}", flag));
  }
  Write(err_fd_, fmt::format("{} [y/N] ", question));
  std::string answer;
  char c = 0;
  while (answer.size() < 16 && read(in_fd_, &c, 1) == 1 && c != '\n') {
    answer += c;
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace attune::cli
