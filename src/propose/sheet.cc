#include "sheet.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace attune {
namespace {

// What a block takes: which form, and how many rows.
struct Room {
  bool full = false;
  std::size_t rows = 0;
};

std::string MoreLine(std::size_t left) { return fmt::format("({} more)", left); }

std::string Text(const Block& block, const Room& room) {
  std::string text = room.full ? block.full : block.brief;
  for (std::size_t i = 0; i < room.rows; ++i) {
    if (!text.empty()) text += '\n';
    text += block.rows[i];
  }
  if (room.full && room.rows < block.rows.size()) {
    text += '\n' + MoreLine(block.rows.size() - room.rows);
  }
  if (!text.empty()) text += '\n';
  return text;
}

// Enlarges one block as far as `free` bytes beyond its present text allow.
Room Enlarge(const Block& block, std::size_t free) {
  const std::size_t most = Text(block, {}).size() + free;
  Room best;
  if (block.full.empty()) return best;
  std::size_t size = block.full.size() + 1;
  for (std::size_t n = 0;; ++n) {
    const std::size_t left = block.rows.size() - n;
    if (size + (left > 0 ? MoreLine(left).size() + 1 : 0) <= most) best = {true, n};
    if (left == 0 || size > most) return best;
    size += block.rows[n].size() + 1;
  }
}

}  // namespace

void KeepBrief(std::vector<Block>& blocks) {
  for (Block& block : blocks) {
    block.full.clear();
    block.rows.clear();
  }
}

Result<std::string> FitSheet(const std::vector<Block>& blocks, std::size_t bytes) {
  std::vector<std::string> texts;
  std::size_t used = 0;
  for (const Block& block : blocks) {
    texts.push_back(Text(block, {}));
    used += texts.back().size();
  }
  if (used > bytes) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("a request needs at least {} bytes of text and may have {}", used, bytes),
        "raise llm.prompt_bytes");
  }
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].rank < blocks[b].rank; });
  for (const std::size_t i : order) {
    std::string larger = Text(blocks[i], Enlarge(blocks[i], bytes - used));
    used += larger.size() - texts[i].size();
    texts[i] = std::move(larger);
  }
  std::string sheet;
  for (const std::string& text : texts) sheet += text;
  return sheet;
}

std::string SomeOf(const std::vector<std::string>& words, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string more = fmt::format(" +{} more", words.size() - i);
    const bool last = i + 1 == words.size();
    const std::size_t size = text.size() + (text.empty() ? 0 : 1) + words[i].size();
    if (size + (last ? 0 : more.size()) > bytes)
      return text + (text.empty() ? more.substr(1) : more);
    if (!text.empty()) text += ' ';
    text += words[i];
  }
  return text;
}

}  // namespace attune
