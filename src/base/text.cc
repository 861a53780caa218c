#include "attune/base/text.h"

#include <algorithm>
#include <array>

#include "attune/base/check.h"

namespace attune {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::string_view kCut = "...";

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8 at this place
};

// Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
Character FirstCharacter(std::string_view s) {
  const auto byte = [s](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  std::size_t bytes = 0;
  char32_t code = 0;
  char32_t least = 0;
  if (lead >= 0xc2 && lead <= 0xdf) {
    bytes = 2;
    code = lead & 0x1fU;
    least = 0x80;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    bytes = 3;
    code = lead & 0x0fU;
    least = 0x800;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    bytes = 4;
    code = lead & 0x07U;
    least = 0x10000;
  }
  if (bytes == 0 || s.size() < bytes) {
    return {};
  }
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) {
      return {};
    }
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least || surrogate || code > 0x10ffff) {
    return {};
  }
  return {code, bytes};
}

// Characters that move the cursor, reorder what is read, or are not seen at all.
bool IsDeceptive(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) ||  // C0, DEL, C1
         c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x202a && c <= 0x202e) ||  // bidirectional marks, embeddings, overrides
         (c >= 0x2066 && c <= 0x2069) ||  // bidirectional isolates
         c == 0x2028 || c == 0x2029 ||    // line and paragraph separators
         c == 0x200b || c == 0xfeff ||    // zero width space, byte order mark
         (c >= 0xe0000 && c <= 0xe007f);  // tags: whole sentences that no terminal shows
}

void AppendHex(std::string& out, char32_t code, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += kHex[(code >> shift) & 15U];
  }
}

std::string Visible(char32_t code) {
  std::string out;
  if (code < 0x80) {
    out = "\\x";
    AppendHex(out, code, 2);
  } else {
    out = "\\u{";
    AppendHex(out, code, code > 0xffff ? 6 : 4);
    out += '}';
  }
  return out;
}

}  // namespace

std::string_view Trim(std::string_view s) {
  const std::size_t first = s.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return s.substr(first, s.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> Split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = s.find(separator);
    parts.push_back(s.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    s.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> SplitLines(std::string_view s) {
  std::vector<std::string_view> lines;
  while (!s.empty()) {
    const std::size_t at = s.find('\n');
    std::string_view line = s.substr(0, at);
    if (at != std::string_view::npos && line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back(line);
    s.remove_prefix(at == std::string_view::npos ? s.size() : at + 1);
  }
  return lines;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      out += separator;
    }
    out += parts[i];
  }
  return out;
}

bool IsAscii(std::string_view s) {
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 128; });
}

bool IsPrintableAscii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool IsValidUtf8(std::string_view s) {
  while (!s.empty()) {
    const Character c = FirstCharacter(s);
    if (c.bytes == 0) {
      return false;
    }
    s.remove_prefix(c.bytes);
  }
  return true;
}

std::string EscapeForDisplay(std::string_view s, std::size_t max_bytes) {
  std::string out;
  // Where to cut so that the mark for "there is more" still fits.
  std::size_t cut = 0;
  const std::size_t room = max_bytes < kCut.size() ? 0 : max_bytes - kCut.size();
  while (!s.empty()) {
    const Character c = FirstCharacter(s);
    if (c.bytes == 0) {
      out += kReplacement;
    } else if (IsDeceptive(c.code)) {
      out += Visible(c.code);
    } else {
      out += s.substr(0, c.bytes);
    }
    s.remove_prefix(std::max<std::size_t>(c.bytes, 1));
    if (out.size() <= room) {
      cut = out.size();
    }
    if (out.size() > max_bytes) {
      out.resize(cut);
      out += kCut.substr(0, max_bytes - cut);
      return out;
    }
  }
  return out;
}

int EditDistance(std::string_view a, std::string_view b) {
  // One row of the table of Wagner and Fischer (1974); row[j] = distance of a's prefix and b[0, j).
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = static_cast<int>(j);
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // A word this long is no misspelling of a name, and the distance is quadratic.
  constexpr std::size_t kLongestWord = 256;
  if (word.size() > kLongestWord) {
    return {};
  }
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongestWord) {
      continue;
    }
    const int distance = EditDistance(word, candidate);
    // Below the shorter length too: "tp" is not "did you mean" of every other pair of letters.
    const int shared = static_cast<int>(std::min(word.size(), candidate.size()));
    const int limit = std::max(2, static_cast<int>(candidate.size()) / 3);
    if (distance <= limit && distance < shared && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string ShellQuote(std::string_view s) {
  ATTUNE_CHECK(s.find('\0') == std::string_view::npos, "an argument cannot hold NUL");
  std::string out = "'";
  for (const char c : s) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  out += '\'';
  return out;
}

std::string JsonEscape(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  while (!s.empty()) {
    const Character c = FirstCharacter(s);
    if (c.bytes == 0) {
      out += kReplacement;
    } else if (c.code == '"' || c.code == '\\') {
      out += '\\';
      out += s.front();
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code < 0x20 || c.code == 0x7f) {
      out += "\\u";
      AppendHex(out, c.code, 4);
    } else {
      out += s.substr(0, c.bytes);
    }
    s.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  return out;
}

}  // namespace attune
