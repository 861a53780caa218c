#include "attune/model/arguments.h"

#include "attune/base/random.h"
#include "attune/model/flag_index.h"
#include "attune/model/lever.h"

namespace attune {
namespace {

// Lists of a few flags with repeats, bare flags and values that could be taken for flags.
Arguments Draw(Random& random) {
  static const char* const kFlags[] = {"--a",   "--b", "--c",   "-d", "--e",
                                       "--f=g", "--",  "plain", ""};
  static const char* const kValues[] = {"1", "-1", "x", "--y", "-z", "", "a=b", "--k=v"};
  std::vector<Argument> items;
  const std::uint64_t count = random.Below(6);
  for (std::uint64_t i = 0; i < count; ++i) {
    Argument a;
    a.flag = kFlags[random.Below(random.Below(4) == 0 ? 9 : 5)];
    const std::uint64_t values = random.Below(3);
    for (std::uint64_t v = 0; v < values; ++v) {
      a.values.emplace_back(kValues[random.Below(random.Below(4) == 0 ? 8 : 3)]);
    }
    items.push_back(std::move(a));
  }
  return Arguments(std::move(items));
}

TEST(ParsesBack, AgreesWithRenderingAndParsing) {
  Random random(7);
  int back = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Arguments args = Draw(random);
    const bool parses = ParseArguments(args.Render()) == args;
    ASSERT_EQ(ParsesBack(args), parses) << i;
    back += parses ? 1 : 0;
  }
  EXPECT_GT(back, 1000);
  EXPECT_LT(back, 19'000);
}

TEST(Difference, TurnsOneIntoTheOther) {
  Random random(11);
  for (int i = 0; i < 20'000; ++i) {
    Effective from{Draw(random), {}}, to{Draw(random), {}};
    if (random.Below(2) == 0) from.env["X"] = random.Below(2) == 0 ? "1" : "2";
    if (random.Below(2) == 0) to.env["X"] = random.Below(2) == 0 ? "1" : "2";
    const std::vector<Edit> edits = Difference(from, to);
    // Order of flags is no difference; a repeat that the edits collapse is one.
    EXPECT_EQ(edits.empty(), CanonicalHash(from) == CanonicalHash(to)) << i;
    const Effective reached = ApplyEdits(from, edits);
    EXPECT_EQ(reached.env, to.env) << i;
    for (const Argument& a : to.args.items()) {
      ASSERT_NE(reached.args.Find(a.flag), nullptr) << i;
      EXPECT_EQ(reached.args.Find(a.flag)->values, to.args.Find(a.flag)->values) << i;
    }
    for (const Argument& a : reached.args.items()) EXPECT_TRUE(to.args.Has(a.flag)) << i;
    for (std::size_t k = 1; k < edits.size(); ++k) {
      if (edits[k].op == Edit::Op::kEnv || edits[k].op == Edit::Op::kUnsetEnv) break;
      EXPECT_LT(edits[k - 1].name, edits[k].name) << i;
    }
  }
}

TEST(FlagIndex, FindsTheLastOccurrence) {
  Random random(13);
  for (int i = 0; i < 5'000; ++i) {
    const Arguments args = Draw(random);
    const FlagIndex index(args);
    for (const std::string_view flag : {"--a", "--b", "--c", "-d", "--e", "--nope", ""}) {
      EXPECT_EQ(index.Find(FlagName(flag)), args.Find(flag)) << flag;
    }
  }
}

}  // namespace
}  // namespace attune
