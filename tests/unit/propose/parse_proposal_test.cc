#include "attune/propose/proposer.h"

namespace attune {
namespace {

std::string Wrap(const std::string& changes, const std::string& more = "") {
  return R"({"lever":"microbatch","hypothesis":"h","changes":)" + changes + more + "}";
}
const std::string kSet = R"([{"op":"set","flag":"--micro-batch-size","value":2}])";

Proposal Good(const std::string& raw) {
  ProposerReply reply = ParseProposal(raw);
  if (const auto* bad = std::get_if<BadReply>(&reply)) {
    ADD_FAILURE() << bad->error << "\n" << raw;
    return {};
  }
  return std::get<Proposal>(reply);
}
std::string Error(const std::string& raw) {
  ProposerReply reply = ParseProposal(raw);
  const auto* bad = std::get_if<BadReply>(&reply);
  return bad == nullptr ? "accepted" : bad->error;
}

TEST(ParseProposal, ReadsEveryField) {
  const Proposal p = Good(Wrap(
      kSet,
      R"(,"enablers":["recompute"],"bottleneck":"launch","evidence":["r001","r002"],)"
      R"("expected_gain":[0.05,0.2],"expected_peak_gb":71.5,"fits_because":"f","stop_if":"s","label":"mbs2")"));
  EXPECT_EQ(p.change.lever, "microbatch");
  EXPECT_EQ(p.change.edits, (std::vector<Edit>{{Edit::Op::kSet, "--micro-batch-size", {"2"}}}));
  EXPECT_EQ(p.change.enablers, std::vector<std::string>{"recompute"});
  EXPECT_EQ(p.evidence.size(), 2U);
  EXPECT_EQ(p.expected_gain, std::pair(0.05, 0.2));
  EXPECT_EQ(p.expected_peak_gb, 71.5);
  EXPECT_EQ(p.label, "mbs2");
}

TEST(ParseProposal, ValuesKeepTheirSpelling) {
  const auto value = [](const std::string& json) {
    return Good(Wrap(R"([{"op":"set","flag":"--x","value":)" + json + "}]")).change.edits[0];
  };
  EXPECT_EQ(value("2").values, std::vector<std::string>{"2"});
  EXPECT_EQ(value("2.0").values, std::vector<std::string>{"2.0"});
  EXPECT_EQ(value("1e3").values, std::vector<std::string>{"1e3"});
  EXPECT_EQ(value("99999999999999999999").values, std::vector<std::string>{"99999999999999999999"});
  EXPECT_EQ(value(R"(["a","b"])").values, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(value("true"), (Edit{Edit::Op::kSet, "--x", {}}));
  EXPECT_EQ(value("false"), (Edit{Edit::Op::kUnset, "--x", {}}));
  EXPECT_EQ(value(R"("true")"), (Edit{Edit::Op::kSet, "--x", {}}));
  EXPECT_EQ(value(R"("false")"), (Edit{Edit::Op::kUnset, "--x", {}}));
  EXPECT_EQ(value(R"("True")").values, std::vector<std::string>{"True"});
}

TEST(ParseProposal, EnvironmentEdits) {
  const Proposal p =
      Good(Wrap(R"([{"op":"env","name":"N","value":"v"},{"op":"unset_env","name":"M"}])"));
  EXPECT_EQ(p.change.edits,
            (std::vector<Edit>{{Edit::Op::kEnv, "N", {"v"}}, {Edit::Op::kUnsetEnv, "M", {}}}));
}

TEST(ParseProposal, AStopIsAWish) {
  ProposerReply reply = ParseProposal(R"({"stop":"done","classes":{"bubble":"tried vp"}})");
  const auto* wish = std::get_if<StopWish>(&reply);
  ASSERT_NE(wish, nullptr);
  EXPECT_EQ(wish->reason, "done");
  EXPECT_EQ(wish->per_class.size(), 1U);
}

TEST(ParseProposal, NothingIsRepaired) {
  const std::string good = Wrap(kSet);
  EXPECT_EQ(Error(good), "accepted");
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_NE(Error(good.substr(0, cut)), "accepted") << cut;
  }
  for (const std::string& bad : {good + good,
                                 good + " trailing",
                                 "[" + good + "]",
                                 "\xEF\xBB\xBF" + good,
                                 "```json\n" + good,
                                 std::string("null"),
                                 std::string("{}"),
                                 std::string("2"),
                                 good + ",",
                                 "{'lever':'x'}" + std::string(),
                                 Wrap("[]"),
                                 Wrap("{}"),
                                 Wrap("[2]"),
                                 Wrap(R"([{"op":"set","flag":"--x"}])"),
                                 Wrap(R"([{"op":"set","flag":"--x","value":null}])"),
                                 Wrap(R"([{"op":"set","flag":"--x","value":{"v":2}}])"),
                                 Wrap(R"([{"op":"set","flag":"--x","value":[[2]]}])"),
                                 Wrap(R"([{"op":"set","flag":"--x","value":[]}])"),
                                 Wrap(R"([{"op":"set","flag":"--x","value":[true]}])"),
                                 Wrap(R"([{"op":"unset","flag":"--x","value":2}])"),
                                 Wrap(R"([{"op":"env","flag":"--x","value":"2"}])"),
                                 Wrap(R"([{"op":"env","name":"X","value":true}])"),
                                 Wrap(R"([{"op":"append","flag":"--x","value":2}])"),
                                 Wrap(R"([{"op":"set","flag":"","value":2}])"),
                                 Wrap(R"([{"op":"set","flag":2,"value":2}])"),
                                 Wrap(R"([{"op":"set","flag":"--x","value":2,"force":true}])")}) {
    EXPECT_NE(Error(bad), "accepted") << bad;
  }
}

TEST(ParseProposal, UnknownAndDuplicateKeysAtEveryLevel) {
  EXPECT_NE(Error(Wrap(kSet, R"(,"approve":true)")), "accepted");
  EXPECT_NE(Error(Wrap(kSet, R"(,"patch":{"path":"x","diff":"y"})")), "accepted");
  EXPECT_NE(Error(Wrap(kSet, R"(,"lever":"other")")), "accepted");
  EXPECT_NE(Error(Wrap(R"([{"op":"set","flag":"--a","flag":"--b","value":2}])")), "accepted");
  // Equal after unescaping is equal.
  EXPECT_NE(Error(Wrap(R"([{"op":"set","flag":"--a","fl\u0061g":"--b","value":2}])")), "accepted");
  EXPECT_NE(Error(R"({"stop":"a","stop":"b"})"), "accepted");
  EXPECT_NE(Error(R"({"stop":"a","lever":"b"})"), "accepted");
}

TEST(ParseProposal, Bounds) {
  const auto hypothesis = [](std::size_t n) {
    return R"({"lever":"m","changes":)" + kSet + R"(,"hypothesis":")" + std::string(n, 'x') + "\"}";
  };
  EXPECT_EQ(Error(hypothesis(2000)), "accepted");
  EXPECT_NE(Error(hypothesis(2001)), "accepted");
  EXPECT_NE(Error(hypothesis(70'000)), "accepted");
  const auto value = [](std::size_t n) {
    return Wrap(R"([{"op":"set","flag":"--x","value":")" + std::string(n, '9') + "\"}]");
  };
  EXPECT_EQ(Error(value(64)), "accepted");
  EXPECT_NE(Error(value(65)), "accepted");
  // Characters, not bytes, in free text.
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "\xE2\x89\x88";
  EXPECT_EQ(Error(R"({"lever":"m","changes":)" + kSet + R"(,"hypothesis":")" + wide + "\"}"),
            "accepted");
  EXPECT_NE(Error(std::string(100'000, '[')), "accepted");
  EXPECT_NE(Error(std::string(30'000, '[') + std::string(30'000, ']')), "accepted");
  EXPECT_NE(Error(R"({"lever":"m\u0000","changes":)" + kSet + R"(,"hypothesis":"a\u0000b"})"),
            "accepted");
  EXPECT_NE(Error("{\"lever\":\"m\xff\",\"changes\":" + kSet + "}"), "accepted");
  EXPECT_NE(Error(R"({"lever":"m","changes":)" + kSet + R"(,"hypothesis":"\ud800"})"), "accepted");
  EXPECT_NE(Error(Wrap(kSet, R"(,"expected_gain":[0.5,0.1])")), "accepted");
  EXPECT_NE(Error(Wrap(kSet, R"(,"expected_peak_gb":1e400)")), "accepted");
}

TEST(ParseProposal, ShownTextIsSafe) {
  ProposerReply reply = ParseProposal("{\"\x1b[31m\":1}");
  const auto* bad = std::get_if<BadReply>(&reply);
  ASSERT_NE(bad, nullptr);
  EXPECT_EQ(bad->excerpt.find('\x1b'), std::string::npos);
  EXPECT_EQ(bad->error.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace attune
