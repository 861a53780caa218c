#include "agent_action.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "attune/base/text.h"
#include "proposal_reader.h"
#include "strict_json.h"

namespace attune {
namespace {

constexpr std::array<std::string_view, 9> kDemanded = {
    "lever",      "changes",  "enablers",      "label",           "hypothesis",
    "bottleneck", "evidence", "expected_gain", "expected_peak_gb"};
// A forecast beyond +500% is a percentage written where a fraction is asked for.
constexpr double kMaxGain = 5;
// No device has a hundred terabytes: beyond it, bytes were written where GB are asked for.
constexpr double kMaxPeakGb = 100'000;
constexpr std::size_t kMaxClasses = 32;

// One edit, in each of its forms.
constexpr std::string_view kEditSchema =
    R"({"anyOf":[)"
    R"({"type":"object","additionalProperties":false,"required":["op","flag","value"],"properties":{)"
    R"("op":{"type":"string","enum":["set"]},"flag":{"type":"string"},)"
    R"("value":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},)"
    R"({"type":"array","items":{"type":"string"}}]}}},)"
    R"({"type":"object","additionalProperties":false,"required":["op","flag"],"properties":{)"
    R"("op":{"type":"string","enum":["unset"]},"flag":{"type":"string"}}},)"
    R"({"type":"object","additionalProperties":false,"required":["op","name","value"],"properties":{)"
    R"("op":{"type":"string","enum":["env"]},"name":{"type":"string"},)"
    R"("value":{"anyOf":[{"type":"string"},{"type":"number"}]}}},)"
    R"({"type":"object","additionalProperties":false,"required":["op","name"],"properties":{)"
    R"("op":{"type":"string","enum":["unset_env"]},"name":{"type":"string"}}}]})";

constexpr std::string_view kProposeHead =
    R"({"type":"object","additionalProperties":false,"required":["lever","changes","enablers",)"
    R"("label","hypothesis","bottleneck","evidence","expected_gain","expected_peak_gb",)"
    R"("fits_because","stop_if"],"properties":{)"
    R"("lever":{"type":"string","description":"id of the one lever that is moved"},)"
    R"("changes":{"type":"array","description":"edits of the leader; true is a bare flag, false its absence","items":)";
constexpr std::string_view kProposeTail =
    R"(},"enablers":{"type":"array","items":{"type":"string"},)"
    R"("description":"ids of levers without which this one is illegal or does not fit, at most 3"},)"
    R"("label":{"type":"string","description":"short run label: a-z 0-9 . _ -, at most 24"},)"
    R"("hypothesis":{"type":"string","description":"why it should be faster, in one or two sentences"},)"
    R"("bottleneck":{"type":"string","description":"the diagnosed class it is aimed at"},)"
    R"("evidence":{"type":"array","items":{"type":"string"},"description":"run ids that support it, at least one"},)"
    R"("expected_gain":{"type":"array","items":{"type":"number"},)"
    R"("description":"[lo, hi] over the leader, as fractions: 0.05 is 5%"},)"
    R"("expected_peak_gb":{"type":"number","description":"peak memory of the fullest GPU, GB"},)"
    R"("fits_because":{"type":"string","description":"why it fits although the projection is near the limit; else empty"},)"
    R"("stop_if":{"type":"string","description":"what would show early that it fails; may be empty"}}})";

constexpr std::string_view kStopSchema =
    R"({"type":"object","additionalProperties":false,"required":["reason","classes"],"properties":{)"
    R"("reason":{"type":"string","description":"why nothing that is left is worth a launch"},)"
    R"("classes":{"type":"array","description":"each diagnosed bottleneck class","items":)"
    R"({"type":"object","additionalProperties":false,"required":["class","tried"],"properties":{)"
    R"("class":{"type":"string"},)"
    R"("tried":{"type":"string","description":"a lever that was tried for it, or why none is"}}}}}})";

std::string Enum(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ",", JsonEscape(word));
  }
  return "[" + out + "]";
}

std::string InspectSchema(const std::vector<std::string>& questions) {
  return fmt::format(
      R"({{"type":"object","additionalProperties":false,"required":["what","of","changes"],)"
      R"("properties":{{"what":{{"type":"string","enum":{}}},)"
      R"("of":{{"type":"string","description":"run, lever, lesson or campaign id; may be empty for estimate"}},)"
      R"("changes":{{"type":"array","description":"of estimate: the candidate's edits; else empty","items":{}}}}}}})",
      Enum(questions), kEditSchema);
}

std::string VoteSchema(const std::vector<std::string>& letters) {
  return fmt::format(
      R"({{"type":"object","additionalProperties":false,"required":["criticism","vote"],)"
      R"("properties":{{"criticism":{{"type":"array","items":{{"type":"object",)"
      R"("additionalProperties":false,"required":["proposal","text"],"properties":{{)"
      R"("proposal":{{"type":"string","enum":{0}}},"text":{{"type":"string"}}}}}}}},)"
      R"("vote":{{"type":"string","enum":{0}}}}}}})",
      Enum(letters));
}

class ActionReader : public ProposalReader {
 public:
  explicit ActionReader(const ActionRules& rules) : rules_(rules) {}

  std::optional<StopWish> Stop(const strict::Node& root) {
    static constexpr std::string_view kKeys[] = {"reason", "classes"};
    StopWish wish;
    if (!Exactly(root, kKeys, "the stop") || !FreeText(root, "reason", wish.reason) ||
        !Pairs(*root.Find("classes"), "classes", "class", "tried", wish.per_class)) {
      return std::nullopt;
    }
    if (Trim(wish.reason).empty()) No("\"reason\" is empty");
    return error.empty() ? std::optional(std::move(wish)) : std::nullopt;
  }

  std::optional<Question> Inspect(const strict::Node& root) {
    static constexpr std::string_view kKeys[] = {"what", "of", "changes"};
    Question q;
    if (!OnlyKeys(root, kKeys, "the question") || !Word(root, "what", rules_.questions, q.what) ||
        !FreeText(root, "of", q.of)) {
      return std::nullopt;
    }
    if (q.of.size() > strict::kMaxNameBytes) No("\"of\" is longer than an id");
    const strict::Node* changes = root.Find("changes");
    if (changes != nullptr && !changes->items.empty()) Changes(*changes, q.candidate.edits);
    if (q.what == "estimate" && q.candidate.edits.empty()) {
      No("an estimate needs the candidate's \"changes\"");
    }
    return error.empty() ? std::optional(std::move(q)) : std::nullopt;
  }

  std::optional<Ballot> Vote(const strict::Node& root) {
    static constexpr std::string_view kKeys[] = {"criticism", "vote"};
    Ballot ballot;
    if (!Exactly(root, kKeys, "the vote") ||
        !Pairs(*root.Find("criticism"), "criticism", "proposal", "text", ballot.criticism) ||
        !Word(root, "vote", rules_.ballot, ballot.vote)) {
      return std::nullopt;
    }
    return ballot;
  }

 private:
  bool Exactly(const strict::Node& root, std::span<const std::string_view> keys,
               std::string_view where) {
    return OnlyKeys(root, keys, where) && HasKeys(root, keys, where);
  }
  // A string that is one of `words`.
  bool Word(const strict::Node& root, std::string_view key, const std::vector<std::string>& words,
            std::string& out) {
    const strict::Node* node = root.Find(key);
    if (node == nullptr) return No("no \"" + std::string(key) + "\"");
    if (!Name(*node, key, out)) return false;
    if (std::find(words.begin(), words.end(), out) != words.end()) return true;
    return No(fmt::format("\"{}\" is \"{}\", expected one of: {}", key, EscapeForDisplay(out, 60),
                          Join(words, ", ")));
  }
  // A list of {left, right}, both texts.
  bool Pairs(const strict::Node& list, std::string_view key, std::string_view left,
             std::string_view right, std::vector<std::pair<std::string, std::string>>& out) {
    if (list.kind != strict::NodeKind::kArray || list.items.size() > kMaxClasses) {
      return No(fmt::format("\"{}\" must be a list of at most {} objects", key, kMaxClasses));
    }
    const std::string_view keys[] = {left, right};
    for (const strict::Node& item : list.items) {
      if (item.kind != strict::NodeKind::kObject) {
        return No(fmt::format("each of \"{}\" must be an object", key));
      }
      auto& [first, second] = out.emplace_back();
      if (!Exactly(item, keys, key) || !Name(*item.Find(left), left, first) ||
          !FreeText(item, right, second)) {
        return false;
      }
    }
    return true;
  }

  const ActionRules& rules_;
};

// What the agent's schema asks of a proposal beyond its form. Empty: nothing is amiss.
std::string Lacking(const Proposal& p, const CampaignState& state) {
  if (Trim(p.hypothesis).empty()) return "\"hypothesis\" is empty";
  if (Trim(p.bottleneck).empty()) return "\"bottleneck\" is empty";
  if (p.evidence.empty()) return "\"evidence\" names no run";
  for (const RunId& run : p.evidence) {
    if (state.FindRun(run) == nullptr) {
      return fmt::format("\"evidence\" names {}, which is no run of this campaign",
                         EscapeForDisplay(run.value, 40));
    }
  }
  if (p.expected_gain->first < -1 || p.expected_gain->second > kMaxGain) {
    return "\"expected_gain\" is given in fractions: 0.05 is 5%";
  }
  if (p.expected_peak_gb.value_or(0) > kMaxPeakGb) return "\"expected_peak_gb\" is given in GB";
  return {};
}

BadReply Bad(std::string error, std::string_view raw) {
  return {std::move(error), EscapeForDisplay(raw, 400)};
}

AgentAction ReadPropose(const CampaignState& state, const strict::Node& root,
                        std::string_view raw) {
  ProposalReader reader;
  std::optional<Proposal> proposal = reader.ReadProposal(root, kDemanded);
  if (!proposal) return Bad(reader.error, raw);
  std::string lacking = Lacking(*proposal, state);
  if (!lacking.empty()) return Bad(std::move(lacking), raw);
  return std::move(*proposal);
}

}  // namespace

std::vector<llm::Tool> ToolsOf(const ActionRules& rules) {
  std::vector<llm::Tool> tools;
  if (!rules.ballot.empty()) {
    tools.push_back({"vote", "Criticise each proposal in a sentence and vote for one of them.",
                     VoteSchema(rules.ballot)});
    return tools;
  }
  tools.push_back({"propose", "Propose one change of the leader, to be launched and measured.",
                   fmt::format("{}{}{}", kProposeHead, kEditSchema, kProposeTail)});
  if (!rules.questions.empty()) {
    tools.push_back({"inspect", "Read something before deciding; costs no GPU time.",
                     InspectSchema(rules.questions)});
  }
  if (rules.stop) {
    tools.push_back({"stop", "End the search: the leader goes to the final measurement.",
                     std::string(kStopSchema)});
  }
  return tools;
}

AgentAction ReadAction(const ActionRules& rules, const CampaignState& state, std::string_view tool,
                       std::string_view arguments) {
  std::vector<std::string> names;
  for (const llm::Tool& offered : ToolsOf(rules)) names.push_back(offered.name);
  if (std::find(names.begin(), names.end(), tool) == names.end()) {
    return Bad(fmt::format("there is no tool \"{}\" now; call one of: {}",
                           EscapeForDisplay(tool, 60), Join(names, ", ")),
               arguments);
  }
  const Result<strict::Node> root = strict::ReadObject(arguments);
  if (!root) return Bad(root.error().message, arguments);
  if (tool == "propose") return ReadPropose(state, *root, arguments);
  ActionReader reader(rules);
  const auto done = [&](auto action) -> AgentAction {
    if (!action) return Bad(reader.error, arguments);
    return std::move(*action);
  };
  if (tool == "stop") return done(reader.Stop(*root));
  if (tool == "inspect") return done(reader.Inspect(*root));
  return done(reader.Vote(*root));
}

}  // namespace attune
