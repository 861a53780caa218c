// Strict reading of one catalog file.
#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <set>

#include "attune/base/text.h"
#include "attune/skill/skill.h"
#include "condition.h"
#include "strict_yaml.h"

namespace attune {
namespace {

constexpr std::size_t kMaxText = 600;

class LeverReader : skill::StrictYaml {
 public:
  explicit LeverReader(const std::string& file) : StrictYaml(file, kMaxText) {}

  Status Run(const YAML::Node& root, CatalogLever& out) {
    Map(root, "the file",
        {"schema", "lever", "title", "helps", "when", "costs", "sizes", "moves", "gain", "minor",
         "modelled", "evidence"});
    if (Text(root, "schema", true) != "attune/lever/1") {
      Fault(root["schema"] ? root["schema"] : root, "schema must be attune/lever/1");
    }
    out.lever = Text(root, "lever", true);
    out.title = Text(root, "title", true);
    out.helps = Texts(root, "helps", true);
    out.when = Text(root, "when", true);
    out.costs = Text(root, "costs", true);
    out.sizes = Texts(root, "sizes", false);
    out.minor = Bool(root, "minor");
    out.modelled = Bool(root, "modelled");
    Moves(root, out);
    Gain(root, out);
    Evidence(root, out);
    return Verdict();
  }

 private:
  void EachEdit(const YAML::Node& move, const char* key, Edit::Op op, std::string_view prefix,
                std::vector<Edit>& out) {
    const YAML::Node node = move[key];
    if (Failed() || !node) return;
    if (!Map(node, key, {})) return;
    for (const auto& entry : node) {
      Edit edit{op, entry.first.Scalar(), {}};
      if (!edit.name.starts_with(prefix) || edit.name.size() > 100) {
        Fault(entry.first, fmt::format("'{}' names no {}", EscapeForDisplay(edit.name, 40),
                                       prefix.empty() ? "variable" : "flag"));
        return;
      }
      const YAML::Node value = entry.second;
      if (value.IsSequence()) {
        for (const YAML::Node& item : value) edit.values.push_back(Scalar(item, edit.name));
      } else {
        const std::string text = Scalar(value, edit.name);
        // A bare flag is written `true`, as in a recipe's map of arguments.
        if (op != Edit::Op::kSet || text != "true") edit.values = {text};
      }
      out.push_back(std::move(edit));
    }
  }

  void Moves(const YAML::Node& root, CatalogLever& out) {
    if (Failed()) return;
    const YAML::Node moves = root["moves"];
    if (!moves) {
      if (out.sizes.empty()) Fault(root, "'moves' or 'sizes' must be given");
      return;
    }
    if (!moves.IsSequence() || moves.size() > kMaxItems) {
      Fault(moves, fmt::format("'moves' must be a list of at most {} items", kMaxItems));
      return;
    }
    std::set<std::string> names;
    for (const YAML::Node& item : moves) {
      if (!Map(item, "a move", {"name", "set", "unset", "env", "unset_env", "needs"})) return;
      LeverMove move;
      move.name = Text(item, "name", true);
      if (!Failed() && !names.insert(move.name).second) {
        Fault(item["name"], fmt::format("a second move '{}'", move.name));
      }
      EachEdit(item, "set", Edit::Op::kSet, "--", move.edits);
      for (std::string& name : Texts(item, "unset", false)) {
        if (!name.starts_with("--")) Fault(item["unset"], "'" + name + "' names no flag");
        move.edits.push_back({Edit::Op::kUnset, std::move(name), {}});
      }
      EachEdit(item, "env", Edit::Op::kEnv, "", move.edits);
      for (std::string& name : Texts(item, "unset_env", false)) {
        move.edits.push_back({Edit::Op::kUnsetEnv, std::move(name), {}});
      }
      for (const std::string& text : Texts(item, "needs", false)) {
        std::string why;
        const std::optional<JobCondition> c = skill::ParseCondition(text, why);
        if (!c) {
          Fault(item["needs"], fmt::format("'{}': {}", EscapeForDisplay(text, 80), why));
          return;
        }
        move.needs.push_back(*c);
      }
      if (!Failed() && move.edits.empty()) Fault(item, "a move edits something");
      if (Failed()) return;
      out.moves.push_back(std::move(move));
    }
  }

  void Gain(const YAML::Node& root, CatalogLever& out) {
    if (Failed()) return;
    const YAML::Node gain = root["gain"];
    if (!gain) {
      if (!out.modelled) Fault(root, "'gain' is needed where the lever is not modelled");
      return;
    }
    if (!Map(gain, "gain", {"mean", "sd"})) return;
    out.gain = {Number(gain, "mean"), Number(gain, "sd")};
    if (!Failed() && out.gain.sd <= 0) Fault(gain, "'sd' must be above 0");
  }

  void Evidence(const YAML::Node& root, CatalogLever& out) {
    if (Failed()) return;
    const YAML::Node list = root["evidence"];
    if (!list || !list.IsSequence() || list.size() == 0 || list.size() > kMaxItems) {
      Fault(list ? list : root, "'evidence' must be a list of {claim, source}");
      return;
    }
    for (const YAML::Node& item : list) {
      if (!Map(item, "evidence", {"claim", "source"})) return;
      out.evidence.push_back({Text(item, "claim", true), Text(item, "source", true)});
    }
  }
};

}  // namespace

Result<CatalogLever> ParseLever(std::string_view text, const std::string& name) {
  CatalogLever lever;
  ATTUNE_RETURN_IF_ERROR(skill::ReadDocument(
      text, name, [&](const YAML::Node& root) { return LeverReader(name).Run(root, lever); }));
  return lever;
}

}  // namespace attune
