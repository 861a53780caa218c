// A recipe's own pattern (`log: {pattern: ...}`): RE2, so that no pattern and no line can make it
// slow, with named groups that say what a value is.
#include <re2/re2.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "attune/base/text.h"
#include "dialect.h"
#include "printed_number.h"

namespace attune {
namespace {

constexpr std::int64_t kPatternMemory = std::int64_t{8} << 20;
constexpr std::size_t kLongestPattern = 4096;

enum class Group {
  kStep,
  kLoss,
  kMs,
  kSeconds,
  kGradNorm,
  kLearningRate,
  kTokens,
  kGlobalBatch,
  kConsumedSamples,
  kSkipped,
  kPeakMb,
  kPeakGb,
  kOtherLoss,  // loss_<name>
};

struct GroupName {
  std::string_view name;
  Group group;
};
constexpr GroupName kGroups[] = {
    {"step", Group::kStep},
    {"iteration", Group::kStep},
    {"loss", Group::kLoss},
    {"ms", Group::kMs},
    {"step_ms", Group::kMs},
    {"s", Group::kSeconds},
    {"grad_norm", Group::kGradNorm},
    {"lr", Group::kLearningRate},
    {"tokens", Group::kTokens},
    {"global_batch", Group::kGlobalBatch},
    {"consumed_samples", Group::kConsumedSamples},
    {"skipped", Group::kSkipped},
    {"peak_mb", Group::kPeakMb},
    {"peak_gb", Group::kPeakGb},
};

std::optional<Group> GroupOf(std::string_view name) {
  for (const GroupName& g : kGroups) {
    if (g.name == name) {
      return g.group;
    }
  }
  if (name.starts_with("loss_") && name.size() > 5) {
    return Group::kOtherLoss;
  }
  return std::nullopt;
}

struct Capture {
  Group group = Group::kStep;
  std::string name;
  int index = 0;
};

class Custom final : public Dialect {
 public:
  Custom(std::unique_ptr<re2::RE2> pattern, std::vector<Capture> captures)
      : pattern_(std::move(pattern)), captures_(std::move(captures)) {}

  bool Quick(const LogLine&, const StepBook&, StepLine&) override { return false; }

  bool Read(const LogLine& line, const LineHits&, StepBook& book, StepLine& out) override {
    // Where a pattern ends is not known, so an unfinished line may hold half a number.
    if (!line.ended) {
      return false;
    }
    // First what the user sees, then without what a launcher put before it.
    std::vector<re2::StringPiece> found(static_cast<std::size_t>(captures_.back().index) + 1);
    if (!Match(line.whole, found) &&
        (line.text.size() == line.whole.size() || !Match(line.text, found))) {
      return false;
    }
    StepLine step;
    for (const Capture& c : captures_) {
      const re2::StringPiece& piece = found[static_cast<std::size_t>(c.index)];
      if (piece.data() == nullptr) {
        continue;  // an optional group
      }
      if (!Use(c, {piece.data(), piece.size()}, book, step)) {
        ++book.notes()["odd_value"];
        return false;
      }
    }
    out = std::move(step);
    return true;
  }

 private:
  bool Match(std::string_view text, std::vector<re2::StringPiece>& found) const {
    return pattern_->Match(re2::StringPiece(text.data(), text.size()), 0, text.size(),
                           re2::RE2::UNANCHORED, found.data(), static_cast<int>(found.size()));
  }

  static bool Use(const Capture& c, std::string_view text, StepBook& book, StepLine& out) {
    Step& step = out.step;
    switch (c.group) {
      case Group::kStep:
      case Group::kGlobalBatch:
      case Group::kConsumedSamples:
      case Group::kSkipped:
        return UseCount(c.group, text, step);
      case Group::kLoss:
      case Group::kOtherLoss:
      case Group::kGradNorm:
        if (c.group == Group::kGradNorm) {
          out.grad_norm = std::string(text.substr(0, 64));
        }
        if (IsNotFinite(text)) {
          step.nan = true;
          return true;
        }
        break;
      case Group::kMs:
      case Group::kSeconds:
      case Group::kLearningRate:
      case Group::kTokens:
      case Group::kPeakMb:
      case Group::kPeakGb:
        break;
    }
    const std::optional<double> value = ParseDouble(text);
    return value && UseValue(c, *value, book, step);
  }

  static bool UseCount(Group group, std::string_view text, Step& step) {
    // Programs pad numbers with zeros; ParseInt is for our own files and refuses them.
    const std::optional<std::int64_t> n = TakeNumber(text);
    if (!n || !text.empty()) {
      return false;
    }
    if (group == Group::kStep) {
      step.iteration = *n;
    } else if (group == Group::kGlobalBatch) {
      step.global_batch = n;
    } else if (group == Group::kConsumedSamples) {
      step.consumed_samples = n;
    } else {
      step.skipped = static_cast<int>(std::min<std::int64_t>(*n, 1'000'000));
    }
    return true;
  }

  static bool UseValue(const Capture& c, double value, StepBook& book, Step& step) {
    constexpr double kMostMs = 1e9;
    if (c.group == Group::kMs || c.group == Group::kSeconds) {
      const double ms = c.group == Group::kMs ? value : value * 1000;
      step.printed_ms = ms;
      return ms > 0 && ms <= kMostMs;
    }
    if (c.group == Group::kPeakMb || c.group == Group::kPeakGb) {
      const double bytes = value * (c.group == Group::kPeakMb ? 0x1p20 : 0x1p30);
      if (value < 0 || bytes > 1e15) {
        return false;
      }
      book.Saw({static_cast<std::int64_t>(bytes), 0});
      return true;
    }
    if (c.group == Group::kTokens) {
      step.tokens = value;
      return value >= 0;
    }
    if (c.group == Group::kLearningRate) {
      step.learning_rate = value;
    } else if (c.group == Group::kGradNorm) {
      step.grad_norm = value;
    } else {
      step.losses.emplace(c.group == Group::kLoss ? "loss" : c.name.substr(5), value);
    }
    return true;
  }

  std::unique_ptr<re2::RE2> pattern_;
  std::vector<Capture> captures_;  // by index; never empty
};

std::string GroupList() {
  std::string list;
  for (const GroupName& g : kGroups) {
    list += std::string(g.name) + ", ";
  }
  return list + "loss_<name>";
}

}  // namespace

Result<std::unique_ptr<Dialect>> MakeCustom(const std::string& pattern) {
  const std::string help = "named groups: " + GroupList();
  if (pattern.empty()) {
    return Fail(ErrorCode::kInvalidInput, "log dialect 'custom' needs a pattern", help);
  }
  if (pattern.size() > kLongestPattern) {
    return Fail(ErrorCode::kInvalidInput, "log pattern is longer than 4096 bytes");
  }
  re2::RE2::Options options;
  options.set_max_mem(kPatternMemory);
  options.set_log_errors(false);
  auto re = std::make_unique<re2::RE2>(pattern, options);
  if (!re->ok()) {
    return Fail(ErrorCode::kInvalidInput,
                "log pattern: " + EscapeForDisplay(re->error()) + " in '" +
                    EscapeForDisplay(pattern, 200) + "'",
                "the syntax is RE2's: no look-around, no back-references");
  }
  std::vector<Capture> captures;
  bool step = false, value = false;
  for (const auto& [index, name] : re->CapturingGroupNames()) {
    const std::optional<Group> group = GroupOf(name);
    if (!group) {
      return Fail(ErrorCode::kInvalidInput, "log pattern: unknown group '" + name + "'", help);
    }
    captures.push_back({*group, name, index});
    step = step || *group == Group::kStep;
    value = value || *group == Group::kLoss || *group == Group::kMs || *group == Group::kSeconds;
  }
  if (!step || !value) {
    return Fail(ErrorCode::kInvalidInput,
                std::string("log pattern lacks the group ") + (step ? "'loss' or 'ms'" : "'step'"),
                help);
  }
  return std::make_unique<Custom>(std::move(re), std::move(captures));
}

}  // namespace attune
