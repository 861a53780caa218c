#include "line_assembler.h"

#include <gtest/gtest.h>

#include <vector>

namespace attune {
namespace {

struct Seen {
  std::string text;
  std::int64_t number;
  bool cut, ended;
  bool operator==(const Seen&) const = default;
};

class Lines {
 public:
  LineAssembler assembler{[this](const LineAssembler::Piece& p) {
    seen.push_back({std::string(p.text), p.number, p.cut, p.ended});
  }};
  std::vector<Seen> seen;
};

TEST(LineAssembler, NumbersLinesAsAnEditorDoesAndSkipsEmptyOnes) {
  Lines lines;
  lines.assembler.Feed("one\n\nthree\n");
  EXPECT_EQ(lines.seen, (std::vector<Seen>{{"one", 1, false, true}, {"three", 3, false, true}}));
}

TEST(LineAssembler, ACarriageReturnEndsAPieceButNotTheLine) {
  Lines lines;
  lines.assembler.Feed("10%\r20%\r30%\nnext\r\n");
  EXPECT_EQ(lines.seen, (std::vector<Seen>{{"10%", 1, false, true},
                                           {"20%", 1, false, true},
                                           {"30%", 1, false, true},
                                           {"next", 2, false, true}}));
}

TEST(LineAssembler, HoldsAnUnfinishedLineUntilItEndsOrTheStreamDoes) {
  Lines lines;
  lines.assembler.Feed("ab");
  EXPECT_TRUE(lines.seen.empty());
  lines.assembler.Feed("c\nrest");
  EXPECT_EQ(lines.seen, (std::vector<Seen>{{"abc", 1, false, true}}));
  lines.assembler.Finish();
  EXPECT_EQ(lines.seen.back(), (Seen{"rest", 2, false, false}));
  lines.assembler.Finish();
  EXPECT_EQ(lines.seen.size(), 2U);
}

TEST(LineAssembler, CutsALineToItsHeadWhateverTheChunks) {
  const std::string longest(LineAssembler::kMaxLine, 'a');
  for (const std::size_t chunk : {std::size_t{1000}, std::size_t{65536}, std::size_t{1} << 20}) {
    Lines lines;
    const std::string text = longest + "b\n" + longest + "\nc\n";
    for (std::size_t at = 0; at < text.size(); at += chunk) {
      lines.assembler.Feed(std::string_view(text).substr(at, chunk));
    }
    EXPECT_EQ(lines.seen,
              (std::vector<Seen>{
                  {longest, 1, true, true}, {longest, 2, false, true}, {"c", 3, false, true}}))
        << "chunks of " << chunk;
    EXPECT_EQ(lines.assembler.long_lines(), 1);
  }
}

}  // namespace
}  // namespace attune
