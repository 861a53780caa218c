#include "untrusted.h"

#include <algorithm>
#include <array>
#include <vector>

#include "attune/base/redact.h"
#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::size_t kLineBytes = 400;
constexpr std::string_view kMark = "[redacted]";

// What chat templates and prompt frames are made of (llm.md section 5, row 14). A space after the
// first character breaks the mark and leaves it readable.
constexpr std::array<std::string_view, 12> kMarks = {
    "<|",      "|>",     "[INST]",  "[/INST]",        "<s>",         "</s>", "<<SYS>>",
    "<</SYS>", "<tool_", "</tool_", "<start_of_turn", "<end_of_turn"};

std::string Broken(std::string text) {
  for (const std::string_view mark : kMarks) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 2)) {
      text.insert(at + 1, " ");
    }
  }
  return text;
}

// ESC [ parameters letter, and ESC ] ... BEL: what colours a log and moves a cursor.
std::string WithoutAnsi(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b' || i + 1 >= text.size()) {
      out += text[i];
    } else if (text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
    } else if (text[i + 1] == ']') {
      while (i < text.size() && text[i] != '\a') ++i;
    } else {
      ++i;
    }
  }
  return out;
}

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '+' || c == '.';
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

// Thirty-two characters and more without a break, of all three kinds: no word that a person wrote.
bool LooksRandom(std::string_view word) {
  return word.size() >= 32 && word.find('.') == std::string_view::npos &&
         std::count_if(word.begin(), word.end(), IsDigit) >= 3 &&
         std::any_of(word.begin(), word.end(), IsLower) &&
         std::any_of(word.begin(), word.end(), IsUpper);
}

// The name before "=" or ":" is that of a secret: WANDB_API_KEY, "password", hub-token.
bool NamesASecret(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array<std::string_view, 6> kEnds = {"key",      "token",  "secret",
                                                     "password", "passwd", "credential"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [&](std::string_view end) { return lower.ends_with(end); });
}

// A secret is long enough, and no mere number: "token: 83886080" is a count.
bool MayBeSecret(std::string_view value) {
  constexpr std::size_t kShortest = 8;
  return value.size() >= kShortest && std::any_of(value.begin(), value.end(), IsDigit) &&
         std::any_of(value.begin(), value.end(), [](char c) { return IsLower(c) || IsUpper(c); });
}

// "NAME=value", "name": "value", "--name value", and long random words.
std::string WithoutNamedSecrets(std::string_view text) {
  std::string out;
  std::string_view last;  // the word before, while nothing but quotes and blanks followed it
  bool armed = false;     // what comes next is the value of a secret's name
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (!IsWord(c)) {
      const bool assigns = c == '=' || c == ':';
      if (assigns) armed = NamesASecret(last);
      if (!assigns && c != ' ' && c != '"' && c != '\'') armed = false;
      if (c != ' ' && c != '"' && c != '\'') last = {};
      out += c;
      ++i;
      continue;
    }
    const std::size_t word_end = std::min(
        text.size(),
        static_cast<std::size_t>(
            std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), IsWord) -
            text.begin()));
    const std::size_t value_end = std::min(text.size(), text.find_first_of(" \t\r\n\"',;", i));
    if (armed && MayBeSecret(text.substr(i, value_end - i))) {
      out += kMark;
      i = value_end;
      last = {};
      armed = false;
      continue;
    }
    last = text.substr(i, word_end - i);
    out += LooksRandom(last) ? kMark : last;
    armed = last.starts_with("--") && NamesASecret(last);
    i = word_end;
  }
  return out;
}

}  // namespace

std::string Quoted(std::string_view text, std::size_t max_bytes) {
  std::string plain = PlainWords(text, max_bytes);
  std::replace(plain.begin(), plain.end(), '"', '\'');
  return '"' + plain + '"';
}

std::string PlainWords(std::string_view text, std::size_t max_bytes) {
  static const Redactor redact;
  return EscapeForDisplay(Broken(redact(WithoutAnsi(text))), max_bytes);
}

std::string FencedLog(std::string_view text) {
  static const Redactor redact;
  const std::string clean = WithoutNamedSecrets(redact(WithoutAnsi(text)));
  const std::vector<std::string_view> lines = SplitLines(clean);
  std::vector<std::string> kept;
  std::size_t bytes = 0;
  for (auto it = lines.rbegin(); it != lines.rend() && kept.size() < kLogLines; ++it) {
    std::string line = PlainWords(*it, kLineBytes);
    bytes += line.size() + 1;
    if (bytes > kLogBytes) break;
    kept.push_back(std::move(line));
  }
  std::reverse(kept.begin(), kept.end());
  return "{\"untrusted_log\":\"" + JsonEscape(Join(kept, "\n")) + "\"}";
}

}  // namespace attune
