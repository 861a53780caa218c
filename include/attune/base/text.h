// Strict scanning of foreign text, without locale, exceptions or <regex>.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

std::string_view Trim(std::string_view s);  // ASCII white space at both ends
// n separators give n + 1 parts, empty ones too: the empty text is one empty part.
std::vector<std::string_view> Split(std::string_view s, char separator);
std::vector<std::string_view> SplitLines(
    std::string_view s);  // "\n" and "\r\n"; no last empty line
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
bool IsAscii(std::string_view s);
bool IsPrintableAscii(std::string_view s);  // 0x20..0x7e only
bool IsValidUtf8(std::string_view s);
// Bad bytes become U+FFFD; control and bidirectional characters become \xNN or \u{NNNN}: safe on a
// terminal and in a report. Newline too. Never more than max_bytes: what is longer ends in "...",
// cut between characters. Backslashes stay as they are, so this is for reading, not for reading
// back.
std::string EscapeForDisplay(std::string_view s, std::size_t max_bytes = 400);

// The whole text or nothing; ASCII digits only, no sign but '-', no leading zeros ("0" is fine),
// no spaces, no exponent.
std::optional<std::int64_t> ParseInt(std::string_view s);
// Finite decimal or scientific; the whole text; no hex, no "inf", no "nan".
std::optional<double> ParseDouble(std::string_view s);

// Exact decimal comparison: numbers as printed ("0.03", "1e-5"), never through binary.
// Equal values spelt differently ("1e-4", "0.0001") compare equal. nullopt when one is no decimal.
std::optional<int> CompareDecimal(std::string_view a, std::string_view b);

// Levenshtein: bytes inserted, deleted or replaced.
int EditDistance(std::string_view a, std::string_view b);
// The candidate within edit distance 2 (or a third of its length) of `word`, else empty. The
// nearest one, of equals the first; never one that shares no letter with the word.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

std::string Sha256Hex(std::string_view bytes);  // FIPS 180-4, 64 lower-case digits
// Single quotes for a POSIX shell: 'it'\''s'. The only quoting function of the project; text with
// NUL is refused by callers before.
std::string ShellQuote(std::string_view s);
std::string JsonEscape(std::string_view s);  // without the outer quotes; bad UTF-8 replaced

}  // namespace attune
