// Text that somebody else wrote (a job's log, a model's words, a recipe's names) on its way into a
// request. It is data: it may not look like an instruction's frame, carry a secret, or steer a
// terminal. The gates make obeying it harmless; this keeps a model from being asked to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attune {

// One line: control and bidirectional characters escaped, chat-template marks broken up, what looks
// like a key or password replaced, at most `max_bytes`.
std::string PlainWords(std::string_view text, std::size_t max_bytes);

// The same in quotes, with its own double quotes made single: nothing in it ends them.
std::string Quoted(std::string_view text, std::size_t max_bytes);

// Whole lines of a log as one JSON object with the one field "untrusted_log": the last `kLogLines`
// lines and `kLogBytes` bytes of it, ANSI sequences taken out, each line as PlainWords. Secrets are
// taken out of the whole first: what looks like one by its name (API_KEY=...) or as a long random
// word too, because a log may print what nobody foresaw.
inline constexpr std::size_t kLogLines = 40;
inline constexpr std::size_t kLogBytes = 4'000;
std::string FencedLog(std::string_view text);

}  // namespace attune
