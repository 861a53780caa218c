// Words as a POSIX shell would split them, for a file that no shell ever reads. Whatever a shell
// would expand is an error: reading it literally would start another job than the user's script.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

constexpr std::size_t kMaxWords = 20'000;
constexpr const char* kSingleLines = "arguments are single lines";

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<std::vector<ShellWord>> Run() {
    int line = 0;
    for (const std::string_view content : SplitLines(text_)) {
      ++line;
      if (!IsValidUtf8(content)) {
        return Problem(line, "not UTF-8 text", "");
      }
    }
    while (at_ < text_.size()) {
      ATTUNE_RETURN_IF_ERROR(Step());
      if (words_.size() > kMaxWords) {
        return Problem(line_, fmt::format("more than {} words", kMaxWords), "");
      }
    }
    EndWord();
    return std::move(words_);
  }

 private:
  tl::unexpected<Error> Problem(int line, std::string_view what, std::string help) const {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{}:{}: {}", name_, line, what),
                std::move(help));
  }

  tl::unexpected<Error> Expansion(char c) const {
    return Problem(line_, fmt::format("'{}' would be expanded by a shell, and attune runs none", c),
                   "write the value itself, or put it in single quotes");
  }

  void BeginWord() {
    if (!in_word_) {
      in_word_ = true;
      words_.push_back({"", line_});
    }
  }
  void EndWord() { in_word_ = false; }
  void Put(char c) {
    BeginWord();
    words_.back().text += c;
  }

  Status Step() {
    const char c = text_[at_++];
    switch (c) {
      case '\n':
        EndWord();
        ++line_;
        return {};
      case ' ':
      case '\t':
        EndWord();
        return {};
      case '\'':
        return SingleQuoted();
      case '"':
        return DoubleQuoted();
      case '\\':
        return Escape();
      case '#':
        if (in_word_) {
          Put(c);
        } else {
          at_ = std::min(text_.find('\n', at_), text_.size());
        }
        return {};
      case '$':
      case '`':
      case '*':
      case '?':
      case '[':
        return Expansion(c);
      case '~':
        if (!in_word_) {
          return Expansion(c);
        }
        Put(c);
        return {};
      case ';':
      case '|':
      case '&':
      case '<':
      case '>':
      case '(':
      case ')':
      case '{':
      case '}':
        return Problem(line_, fmt::format("'{}' has a meaning to a shell, and attune runs none", c),
                       "an args_file holds arguments only; quote the character if it is meant");
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      return Problem(line_, fmt::format("control character \\x{:02x}", byte),
                     c == '\r' ? "save the file with plain newlines" : "");
    }
    Put(c);
    return {};
  }

  Status SingleQuoted() {
    const int opened = line_;
    BeginWord();
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\'') {
        ++at_;
        return {};
      }
      if (c == '\n') {
        break;
      }
      ATTUNE_RETURN_IF_ERROR(PutQuoted(c));
    }
    return Problem(opened, "a single quote without its end on the line", kSingleLines);
  }

  Status DoubleQuoted() {
    const int opened = line_;
    BeginWord();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        return {};
      }
      if (c == '$' || c == '`') {
        return Expansion(c);
      }
      const bool escape = c == '\\' && at_ < text_.size();
      if (escape && text_[at_] == '\n') {
        ++at_;
        ++line_;
      } else if (escape && std::string_view("$`\"\\").find(text_[at_]) != std::string_view::npos) {
        Put(text_[at_++]);
      } else if (c == '\n') {
        break;
      } else {
        ATTUNE_RETURN_IF_ERROR(PutQuoted(c));
      }
    }
    return Problem(opened, "a double quote without its end on the line", kSingleLines);
  }

  Status PutQuoted(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      return Problem(line_, fmt::format("control character \\x{:02x}", byte), "");
    }
    Put(c);
    return {};
  }

  Status Escape() {
    if (at_ == text_.size()) {
      return Problem(line_, "a backslash at the end of the file", "");
    }
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      return {};
    }
    if (c == '\r') {
      return Problem(line_, "control character \\x0d", "save the file with plain newlines");
    }
    return PutQuoted(c);
  }

  const std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool in_word_ = false;
  std::vector<ShellWord> words_;
};

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Words of a script's line as a reader sees them; "/usr/bin/ssh" counts as "ssh".
std::vector<std::string_view> LineWords(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t i = 0;
  while (i < line.size()) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      break;
    }
    if (!IsWordCharacter(line[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < line.size() && IsWordCharacter(line[i])) {
      ++i;
    }
    words.push_back(line.substr(begin, i - begin));
  }
  return words;
}

}  // namespace

Result<std::vector<ShellWord>> ReadShellWords(std::string_view text, const std::string& name) {
  return Splitter(text, name).Run();
}

std::vector<ScriptFinding> ScanScript(std::string_view text, const std::string& name) {
  std::vector<ScriptFinding> findings;
  int line_number = 0;
  for (const std::string_view line : SplitLines(text)) {
    ++line_number;
    const std::vector<std::string_view> words = LineWords(line);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words[i];
      const std::string_view next = i + 1 < words.size() ? words[i + 1] : std::string_view();
      std::string found;
      if (word == "sbatch" || word == "pkill" || word == "killall" || word == "ssh") {
        found = word;
      } else if ((word == "scontrol" && next == "requeue") || (word == "ray" && next == "stop")) {
        found = fmt::format("{} {}", word, next);
      }
      if (!found.empty()) {
        findings.push_back({fmt::format("{}:{}", name, line_number), std::move(found)});
      }
    }
  }
  return findings;
}

}  // namespace attune
