// The one action of an answer. Whatever is not exactly one clean call is a format error that says
// why, in words meant for the model; nothing is ever repaired.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "attune/base/text.h"
#include "wire.h"

namespace attune::llm {
namespace {

// Bounds of the arguments of one call: far above any honest action.
constexpr JsonBounds kArguments{.bytes = 64 * 1024, .depth = 16, .values = 4096};
constexpr std::size_t kMaxShownText = 4000;

std::string Known(const Expected& expected) {
  return Join({expected.tools.begin(), expected.tools.end()}, ", ");
}

// "<think>...</think>" in front of or inside the answer; an unclosed one takes the rest.
std::string WithoutThinking(std::string_view text) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  std::string out;
  while (true) {
    const std::size_t open = text.find(kOpen);
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const std::size_t close = text.find(kClose, open);
    if (close == std::string_view::npos) return out;
    text.remove_prefix(close + kClose.size());
  }
}

// What stands between each pair of marks.
std::vector<std::string_view> Between(std::string_view text, std::string_view open,
                                      std::string_view close) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(open); at != std::string_view::npos; at = text.find(open, at)) {
    const std::size_t begin = at + open.size();
    const std::size_t end = text.find(close, begin);
    if (end == std::string_view::npos) break;
    parts.push_back(Trim(text.substr(begin, end - begin)));
    at = end + close.size();
  }
  return parts;
}

std::vector<std::string_view> Candidates(std::string_view text) {
  std::vector<std::string_view> found = Between(text, "<tool_call>", "</tool_call>");
  if (!found.empty()) return found;
  found = Between(text, "```json", "```");
  if (!found.empty()) return found;
  const std::string_view whole = Trim(text);
  if (whole.starts_with('{') && whole.ends_with('}')) found.push_back(whole);
  return found;
}

// An object that names its tool: {"name" or "tool": ..., "arguments" or "parameters": {...}}.
void TakeNamed(Turn& turn, const JsonNode& call, const Expected& expected) {
  const JsonNode* name = call.Find("tool");
  if (name == nullptr) name = call.Find("name");
  const JsonNode* arguments = call.Find("arguments");
  if (arguments == nullptr) arguments = call.Find("parameters");
  const bool named =
      name != nullptr && name->IsString() && arguments != nullptr && call.items.size() == 2;
  if (named) {
    return TakeCall(turn, name->text,
                    arguments->IsString() ? arguments->text : WriteJson(*arguments), expected);
  }
  if (expected.tools.size() == 1) {
    return TakeCall(turn, expected.tools.front(), WriteJson(call), expected);
  }
  FormatError(turn, fmt::format("the object names none of the tools ({})", Known(expected)));
}

}  // namespace

void FormatError(Turn& turn, std::string why) {
  turn.kind = TurnKind::kFormatError;
  turn.error = std::move(why);
  turn.tool.clear();
  turn.arguments.clear();
}

bool EndedBy(Turn& turn, std::string_view stop, const Expected& expected) {
  if (stop == "max_tokens" || (expected.max_tokens > 0 && turn.usage.out >= expected.max_tokens)) {
    turn.kind = TurnKind::kTruncated;
    turn.error =
        fmt::format("cut after {} tokens (the cap is {})", turn.usage.out, expected.max_tokens);
    return true;
  }
  if (stop == "model_context_window_exceeded") {
    turn.kind = TurnKind::kTooLong;
    turn.error = "the prompt and its answer exceed the model's window";
    return true;
  }
  if (stop != "tool_use" && stop != "end_turn" && stop != "stop_sequence") {
    FormatError(turn, fmt::format("the answer ended for an unknown reason ('{}')",
                                  stop.empty() ? "none" : stop.substr(0, 40)));
    return true;
  }
  return false;
}

Usage UsageOf(const JsonNode& root, const UsageNames& names) {
  const JsonNode* usage = root.Find("usage");
  Usage out;
  if (usage == nullptr || !usage->IsObject()) return out;
  out.cached = Count(usage, names.cached);
  out.cache_written = Count(usage, names.cache_written);
  out.in = Count(usage, names.input) + out.cached + out.cache_written;
  out.out = Count(usage, names.output);
  return out;
}

std::int64_t Count(const JsonNode* object, std::string_view key) {
  const JsonNode* node = object == nullptr ? nullptr : object->Find(key);
  if (node == nullptr || node->kind != JsonKind::kNumber) return 0;
  const std::optional<std::int64_t> number = ParseInt(node->text);
  constexpr std::int64_t kMost = 1'000'000'000'000;
  return number && *number > 0 && *number < kMost ? *number : 0;
}

std::string TextOf(const JsonNode* object, std::string_view key) {
  const JsonNode* node = object == nullptr ? nullptr : object->Find(key);
  return node != nullptr && node->IsString() ? node->text : std::string();
}

void TakeCall(Turn& turn, std::string_view name, std::string_view arguments,
              const Expected& expected) {
  if (std::find(expected.tools.begin(), expected.tools.end(), name) == expected.tools.end()) {
    return FormatError(turn, fmt::format("there is no tool '{}'; there are: {}",
                                         EscapeForDisplay(name, 80), Known(expected)));
  }
  const JsonReading read = ReadJson(arguments, kArguments);
  if (!read.error.empty()) {
    return FormatError(
        turn, fmt::format("the arguments of {} are not one JSON object: {}", name, read.error));
  }
  if (!read.root.IsObject()) {
    return FormatError(turn, fmt::format("the arguments of {} must be a JSON object, not {}", name,
                                         Noun(read.root.kind)));
  }
  turn.kind = TurnKind::kAction;
  turn.tool = name;
  turn.arguments = arguments;
  turn.error.clear();
}

void TakeText(Turn& turn, std::string_view text, const Expected& expected) {
  turn.text = EscapeForDisplay(text, kMaxShownText);
  const std::string answer = WithoutThinking(text);
  if (Trim(answer).empty()) {
    return FormatError(turn,
                       fmt::format("an empty answer; call exactly one of: {}", Known(expected)));
  }
  const std::vector<std::string_view> found = Candidates(answer);
  if (found.size() > 1) {
    return FormatError(turn, fmt::format("{} calls in one answer; make exactly one", found.size()));
  }
  if (found.empty()) {
    return FormatError(
        turn, fmt::format("text instead of a tool call; call exactly one of: {}", Known(expected)));
  }
  const JsonReading read = ReadJson(found.front(), kArguments);
  if (!read.error.empty() || !read.root.IsObject()) {
    return FormatError(turn, fmt::format("the call is not one JSON object: {}",
                                         read.error.empty() ? Noun(read.root.kind)
                                                            : std::string_view(read.error)));
  }
  TakeNamed(turn, read.root, expected);
}

void TakeSchemaText(Turn& turn, std::string_view text, const Expected& expected) {
  // With one tool the object is its arguments, whatever keys they have.
  if (expected.tools.size() != 1) return TakeText(turn, text, expected);
  turn.text = EscapeForDisplay(text, kMaxShownText);
  const std::string answer = WithoutThinking(text);
  TakeCall(turn, expected.tools.front(), Trim(answer), expected);
}

}  // namespace attune::llm
