// Strict reading of one lesson.
#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/skill/lesson.h"
#include "strict_yaml.h"

namespace attune {
namespace {

constexpr std::size_t kMaxText = 400;

bool IsDigits(std::string_view s, std::size_t least) {
  return s.size() >= least && s.size() <= 9 &&
         std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsLeverId(std::string_view s) {
  return !s.empty() && s.size() <= 64 && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool IsRun(std::string_view s) { return s.starts_with('r') && IsDigits(s.substr(1), 3); }

// c-20261130-7f3a: a day, and the digits that tell that day's campaigns apart.
bool IsCampaign(std::string_view s) {
  if (s.size() < 15 || s.size() > 27 || !s.starts_with("c-") || s[10] != '-') return false;
  const std::string_view tail = s.substr(11);
  return IsDigits(s.substr(2, 8), 8) && std::all_of(tail.begin(), tail.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

class LessonReader : skill::StrictYaml {
 public:
  explicit LessonReader(const std::string& file) : StrictYaml(file, kMaxText) {}

  Status Run(const YAML::Node& root, Lesson& out) {
    Map(root, "the file",
        {"schema", "lever", "condition", "direction", "effect", "scope", "status", "origin",
         "evidence", "counter"});
    Word(root, "schema", "must be attune/lesson/1",
         [](std::string_view s) { return s == "attune/lesson/1"; });
    out.lever = Word(root, "lever", "must be a lever's id", IsLeverId);
    out.condition = Words(root, "condition");
    out.direction = Words(root, "direction");
    Effect(root, out);
    out.scope = Words(root, "scope");
    out.status = Word(root, "status", "must be correct or rewritten; no other lesson belongs here",
                      [](std::string_view s) { return s == "correct" || s == "rewritten"; });
    out.origin = Word(root, "origin", "must be a campaign's id (c-20261130-7f3a)", IsCampaign);
    out.evidence = Pairs(root, "evidence", 1);
    out.counter = Pairs(root, "counter", 0);
    for (const Lesson::Pair& pair : out.counter) {
      if (!Failed() &&
          std::find(out.evidence.begin(), out.evidence.end(), pair) != out.evidence.end()) {
        Fault(root["counter"], fmt::format("{} stands under evidence too", pair.run));
      }
    }
    return Verdict();
  }

 private:
  template <class Is>
  std::string Word(const YAML::Node& root, const char* key, std::string_view form, Is is) {
    std::string text = Text(root, key, true);
    if (!Failed() && !is(text)) Fault(root[key], fmt::format("{} {}", key, form));
    return text;
  }

  std::string Words(const YAML::Node& root, const char* key) {
    return Word(root, key, "is empty", [](std::string_view s) { return !Trim(s).empty(); });
  }

  // The node of a key that must be there.
  std::optional<YAML::Node> Needed(const YAML::Node& root, const char* key) {
    if (Failed()) return std::nullopt;
    const YAML::Node node = root[key];
    if (!node) {
      Fault(root, fmt::format("'{}' is missing", key));
      return std::nullopt;
    }
    return node;
  }

  void Effect(const YAML::Node& root, Lesson& out) {
    const std::optional<YAML::Node> node = Needed(root, "effect");
    if (!node) return;
    if (!node->IsSequence() || node->size() != 2) {
      return Fault(*node, "effect must be [lowest, highest]");
    }
    out.effect_lo = NumberOf((*node)[0], "effect");
    out.effect_hi = NumberOf((*node)[1], "effect");
    if (!Failed() && out.effect_lo > out.effect_hi) {
      Fault(*node, "effect must be [lowest, highest]");
    }
  }

  std::vector<Lesson::Pair> Pairs(const YAML::Node& root, const char* key, std::size_t least) {
    std::vector<Lesson::Pair> out;
    const std::optional<YAML::Node> node = Needed(root, key);
    if (!node) return out;
    if (!node->IsSequence() || node->size() < least || node->size() > kMaxItems) {
      Fault(*node, fmt::format("{} must be a list of {} to {} runs", key, least, kMaxItems));
      return out;
    }
    for (const YAML::Node& item : *node) {
      Lesson::Pair pair;
      if (!OnePair(item, pair)) return out;
      if (std::find(out.begin(), out.end(), pair) != out.end()) {
        Fault(item, fmt::format("{} stands twice", pair.run));
        return out;
      }
      out.push_back(std::move(pair));
    }
    return out;
  }

  bool OnePair(const YAML::Node& item, Lesson::Pair& pair) {
    if (!item.IsSequence() || item.size() != 3) {
      Fault(item, "a run is [campaign, run, parent run]");
      return false;
    }
    pair = {Scalar(item[0], "a campaign"), Scalar(item[1], "a run"), Scalar(item[2], "a run")};
    if (!Failed() && (!IsCampaign(pair.campaign) || !IsRun(pair.run) || !IsRun(pair.parent) ||
                      pair.run == pair.parent)) {
      Fault(item, "a run is [campaign, run, parent run], as [c-20261130-7f3a, r009, r005]");
    }
    return !Failed();
  }
};

// "L0001" of "skill/lessons/L0001.yaml".
std::optional<std::string> IdOf(std::string_view name) {
  std::string_view file = name.substr(name.rfind('/') + 1);
  if (!file.ends_with(".yaml")) return std::nullopt;
  file.remove_suffix(5);
  if (!file.starts_with('L') || file.size() != 5 || !IsDigits(file.substr(1), 4)) {
    return std::nullopt;
  }
  return std::string(file);
}

}  // namespace

Result<Lesson> ParseLesson(std::string_view text, const std::string& name) {
  const std::optional<std::string> id = IdOf(name);
  if (!id) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: a lesson's file is named L0001.yaml", EscapeForDisplay(name)));
  }
  Lesson lesson;
  lesson.id = *id;
  ATTUNE_RETURN_IF_ERROR(skill::ReadDocument(
      text, name, [&](const YAML::Node& root) { return LessonReader(name).Run(root, lesson); }));
  return lesson;
}

}  // namespace attune
