// Where text goes (cli.md section 3.1): the answer to stdout, everything else to stderr; colour and
// redrawing only where a terminal asks for them; errors as an object on stdout under --json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "attune/base/redact.h"
#include "attune/base/result.h"

namespace attune::cli {

enum class Ink { kPlain, kBold, kGood, kBad, kWarn, kFaint };

struct TerminalFlags {
  bool json = false;
  bool quiet = false;
  bool no_input = false;
  std::string color = "auto";
};

class Terminal {
 public:
  Terminal(int in_fd, int out_fd, int err_fd);

  void Set(const TerminalFlags& flags);
  const TerminalFlags& flags() const { return flags_; }

  bool out_is_terminal() const { return out_terminal_; }
  bool err_is_terminal() const { return err_terminal_; }
  bool err_colour() const { return err_colour_; }

  // A key: it is told nowhere. (The answer itself comes from the store, which holds none.)
  void Hide(std::string_view name, std::string_view value) { redact_.Know(name, value); }

  // Part of the answer, as it is.
  void Out(std::string_view text);
  // One line for people; nothing with --quiet.
  void Note(std::string_view line);
  // One line that is told with --quiet too.
  void Warn(std::string_view line);
  // "error: ..." and "  help: ..."; under --json the object attune.error/1 on stdout.
  void Fail(std::string_view kind, int code, std::string_view message, std::string_view help);

  // Painted for stdout; unchanged when it takes no colour. Meaning is never in colour alone.
  std::string Paint(Ink ink, std::string_view text) const;

  // yes or no, on stderr. Not a terminal, or --no-input: the error that names the flag.
  Result<bool> Ask(std::string_view question, std::string_view flag);

  // An answer that could not be written whole is a failure (disk full); a reader that left is not.
  bool OutFailed() const { return out_failed_; }

 private:
  void Write(int fd, std::string_view text);

  int in_fd_, out_fd_, err_fd_;
  bool in_terminal_, out_terminal_, err_terminal_;
  bool out_colour_ = false, err_colour_ = false;
  bool out_failed_ = false, out_gone_ = false;
  TerminalFlags flags_;
  Redactor redact_;  // over what is told
};

// Colour for a stream: NO_COLOR, TERM=dumb, CLICOLOR_FORCE and --color (cli.md section 3.1).
bool WantsColour(bool is_terminal, std::string_view flag, const char* no_color, const char* term,
                 const char* force);

}  // namespace attune::cli
