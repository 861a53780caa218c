// Text made to a byte budget. A sheet is a list of blocks; each block has a brief form that is
// always there, and, where there is room, a full form with rows after it. Blocks are enlarged in an
// order of importance, so that what is cut is always the least important, and the same blocks give
// the same text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attune/base/result.h"

namespace attune {

struct Block {
  std::string brief;              // one or more lines without the last newline; may be empty
  std::string full;               // replaces the brief form; empty: the brief form is all
  std::vector<std::string> rows;  // after the full form, most important first
  int rank = 0;                   // smaller ranks are enlarged first; of equals, the first one
};

// Takes the full forms away.
void KeepBrief(std::vector<Block>& blocks);

// Brief forms in the order of the blocks, enlarged while the whole stays within `bytes`. Rows that
// do not fit are counted in a last line. Error: not even the brief forms fit.
Result<std::string> FitSheet(const std::vector<Block>& blocks, std::size_t bytes);

// "a b c +12 more": as many of `words` as fit into `bytes`.
std::string SomeOf(const std::vector<std::string>& words, std::size_t bytes);

}  // namespace attune
