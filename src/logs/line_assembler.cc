#include "line_assembler.h"

#include <algorithm>

namespace attune {

void LineAssembler::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const bool ends = newline != std::string_view::npos;
    Take(bytes.substr(0, newline), ends);
    if (!ends) {
      return;
    }
    ++number_;
    bytes.remove_prefix(newline + 1);
  }
}

void LineAssembler::Take(std::string_view part, bool ends) {
  for (;;) {
    const std::size_t carriage = part.find('\r');
    const bool last = carriage == std::string_view::npos;
    const std::string_view piece = part.substr(0, carriage);
    if (last && !ends) {
      Keep(piece);
      return;
    }
    if (pending_.empty()) {
      // The common case: a whole line inside one chunk is not copied.
      Emit(piece.substr(0, kMaxLine), piece.size() > kMaxLine, true);
    } else {
      Keep(piece);
      Emit(pending_, overlong_, true);
      pending_.clear();
      overlong_ = false;
    }
    if (last) {
      return;
    }
    part.remove_prefix(carriage + 1);
  }
}

void LineAssembler::Keep(std::string_view part) {
  const std::size_t room = kMaxLine - pending_.size();
  pending_.append(part.substr(0, room));
  overlong_ = overlong_ || part.size() > room;
}

void LineAssembler::Emit(std::string_view text, bool cut, bool ended) {
  if (cut) {
    ++long_lines_;
  }
  if (!text.empty()) {
    sink_({text, number_, cut, ended});
  }
}

void LineAssembler::Finish() {
  Emit(pending_, overlong_, false);
  pending_.clear();
  overlong_ = false;
}

}  // namespace attune
