#include "attune/gates/instrument.h"

#include <algorithm>

#include "attune/base/text.h"
#include "check_parts.h"

namespace attune {
namespace {

using gates::ShowEnv;
using gates::ShowFlag;
using Op = InstrumentRow::Op;
using When = InstrumentRow::When;

std::string Fill(std::string_view text, const MeasuredWindow& w) {
  std::string ranks;
  for (int r : w.profile_ranks) ranks += (ranks.empty() ? "" : " ") + std::to_string(r);
  const std::pair<std::string_view, std::string> words[] = {
      {"{n}", std::to_string(LastIteration(w))},
      {"{s}", std::to_string(w.start_iteration)},
      {"{p}", std::to_string(w.profile_after + 2)},
      {"{q}", std::to_string(ProfiledBy(w).last - 1)},
      {"{ranks}", ranks},
      {"{run}", w.run_dir},
  };
  std::string out(text);
  for (const auto& [word, value] : words) {
    for (std::size_t at = out.find(word); at != std::string::npos;
         at = out.find(word, at + value.size())) {
      out.replace(at, word.size(), value);
    }
  }
  return out;
}

std::vector<std::string> ValuesOf(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string_view word : Split(text, ' ')) {
    if (!word.empty()) out.emplace_back(word);
  }
  return out;
}

// An evaluation falls after an iteration that is a multiple of the interval.
bool EvaluatesWithin(const Arguments& args, std::int64_t after, std::int64_t last) {
  const auto number = [&](std::string_view flag, std::int64_t otherwise) {
    const std::optional<std::string> v = args.Value(flag);
    const std::optional<std::int64_t> n = v ? ParseInt(*v) : std::nullopt;
    return n ? *n : otherwise;
  };
  if (number("--eval-iters", 100) <= 0) return false;
  const std::int64_t interval = number("--eval-interval", 0);
  if (interval <= 0) return false;
  return last / interval > after / interval;
}

// Edits one argument list and remembers how to undo each edit exactly.
class Table {
 public:
  Table(const Effective& user, const MeasuredWindow& window) : window_(window) {
    out_.effective = user;
  }

  void Apply(Op op, const std::string& name, std::string_view value, std::string_view why) {
    switch (op) {
      case Op::kSet:
        return SetFlag(op, name, ValuesOf(Fill(value, window_)), why);
      case Op::kRedirect:
        if (!out_.effective.args.Has(name)) return;
        return SetFlag(op, name, ValuesOf(Fill(value, window_)), why);
      case Op::kRemove:
        return RemoveFlag(name, why);
      case Op::kEnv:
        return SetEnv(name, Fill(value, window_), why);
      case Op::kUnsetEnv:
        return UnsetEnv(name, why);
    }
  }
  const Arguments& args() const { return out_.effective.args; }
  Instrumented Take() { return std::move(out_); }

 private:
  AppliedRow Begin(Op op, const std::string& name, std::string was, std::string now,
                   std::string_view why) {
    AppliedRow row;
    row.op = op;
    row.name = name;
    row.was = std::move(was);
    row.now = std::move(now);
    row.why = std::string(why);
    return row;
  }
  void Remember(AppliedRow& row) {
    const std::vector<Argument>& items = out_.effective.args.items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].flag == row.name) row.replaced.emplace_back(i, items[i]);
    }
  }
  void SetFlag(Op op, const std::string& name, std::vector<std::string> values,
               std::string_view why) {
    const Argument* old = args().Find(name);
    AppliedRow row = Begin(op, name, ShowFlag(args(), name), {}, why);
    Remember(row);
    if (old != nullptr && old->values == values && row.replaced.size() == 1) return;
    row.added = row.replaced.empty();
    out_.effective.args.Set(name, std::move(values));
    row.now = ShowFlag(args(), name);
    out_.rows.push_back(std::move(row));
  }
  void RemoveFlag(const std::string& name, std::string_view why) {
    if (!args().Has(name)) return;
    AppliedRow row = Begin(Op::kRemove, name, ShowFlag(args(), name), "off", why);
    Remember(row);
    out_.effective.args.Unset(name);
    out_.rows.push_back(std::move(row));
  }
  void SetEnv(const std::string& name, std::string value, std::string_view why) {
    Env& env = out_.effective.env;
    AppliedRow row = Begin(Op::kEnv, name, ShowEnv(env, name), value, why);
    const auto old = env.find(name);
    if (old != env.end()) {
      if (old->second == value) return;
      row.env_was = old->second;
    }
    env[name] = std::move(value);
    out_.rows.push_back(std::move(row));
  }
  void UnsetEnv(const std::string& name, std::string_view why) {
    Env& env = out_.effective.env;
    const auto old = env.find(name);
    if (old == env.end()) return;
    AppliedRow row = Begin(Op::kUnsetEnv, name, old->second, "unset", why);
    row.env_was = old->second;
    env.erase(old);
    out_.rows.push_back(std::move(row));
  }

  const MeasuredWindow& window_;
  Instrumented out_;
};

bool Wanted(When when, const Effective& user, const MeasuredWindow& w) {
  switch (when) {
    case When::kAlways:
    case When::kPresent:
      return true;
    case When::kEval:
      return EvaluatesWithin(user.args, w.start_iteration, LastIteration(w));
    case When::kLoad:
      // 0: --finetune, a release checkpoint or none; there is no step to pin.
      return user.args.Has("--load") && w.start_iteration > 0;
    case When::kProfile:
      return w.profile;
  }
  return false;
}

}  // namespace

bool IsProfiled(const Recipe& recipe) {
  return !recipe.profile.off &&
         (recipe.framework == Framework::kMegatronLm || !recipe.profile.set.empty());
}

ProfiledIterations ProfiledBy(const MeasuredWindow& w) {
  if (!w.profile) return {};
  const std::int64_t first = w.start_iteration + w.profile_after + 1;
  return {first, first + w.profile_steps + 2};
}

std::int64_t LastIteration(const MeasuredWindow& w) {
  // The profile ends on an iteration below the exit, so that its files are written before it.
  return std::max(w.start_iteration + w.steps, ProfiledBy(w).last);
}

Instrumented Instrument(const Recipe& recipe, const Effective& user, const MeasuredWindow& window,
                        const Rules& rules) {
  Table table(user, window);
  if (recipe.framework == Framework::kMegatronLm) {
    for (const InstrumentRow& row : rules.instrument) {
      if (Wanted(row.when, user, window)) {
        table.Apply(row.op, std::string(row.name), row.value, row.why);
      }
    }
    return table.Take();
  }
  for (const std::string& flag : recipe.measure.instrument_remove) {
    table.Apply(Op::kRemove, flag, {}, "measure.instrument of the recipe");
  }
  for (const auto& [flag, value] : recipe.measure.instrument_set) {
    table.Apply(Op::kSet, flag, value == "true" ? std::string_view() : std::string_view(value),
                "measure.instrument of the recipe");
  }
  if (!window.profile) return table.Take();
  for (const auto& [flag, value] : recipe.profile.set) {
    table.Apply(Op::kSet, flag, value == "true" ? std::string_view() : std::string_view(value),
                "profile.set of the recipe");
  }
  return table.Take();
}

Effective Strip(const Instrumented& measured) {
  Effective out = measured.effective;
  for (auto row = measured.rows.rbegin(); row != measured.rows.rend(); ++row) {
    if (row->op == Op::kEnv || row->op == Op::kUnsetEnv) {
      if (row->env_was) {
        out.env[row->name] = *row->env_was;
      } else {
        out.env.erase(row->name);
      }
      continue;
    }
    out.args.Unset(row->name);
    std::vector<Argument> items = out.args.items();
    for (const auto& [at, argument] : row->replaced) {
      const std::size_t place = std::min(at, items.size());
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(place), argument);
    }
    out.args = Arguments(std::move(items));
  }
  return out;
}

std::vector<std::string> InstrumentedNames(const Instrumented& measured) {
  std::vector<std::string> names;
  for (const AppliedRow& row : measured.rows) names.push_back(row.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> InstrumentCommand(std::vector<std::string> command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    for (const std::string_view flag : {"--max-restarts", "--max_restarts"}) {
      if (command[i] == flag && i + 1 < command.size()) command[i + 1] = "0";
      if (command[i].starts_with(std::string(flag) + "=")) command[i] = std::string(flag) + "=0";
    }
  }
  return command;
}

}  // namespace attune
