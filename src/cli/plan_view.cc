#include "plan_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/calibration.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "attune/store/store.h"
#include "json_out.h"
#include "launchers.h"
#include "session.h"
#include "ship.h"
#include "version.h"

namespace attune::cli {
namespace {

std::string Dollars(GpuMillis amount, double price) {
  return price > 0 ? fmt::format("  ${:.2f}", amount.Hours() * price) : std::string();
}

std::optional<LaunchIntended> FirstLaunch(const Action& action) {
  if (const auto* record = std::get_if<Record>(&action)) {
    for (const Fact& fact : record->facts) {
      if (const auto* launch = std::get_if<LaunchIntended>(&fact)) {
        return *launch;
      }
    }
  }
  return std::nullopt;
}

// The calibration that a campaign opened now would be offered, as OpenCampaign finds it.
void FindEarlier(const Recipe& recipe, const std::string& folder, Instant now, Opened& opened) {
  Result<std::string> fingerprint = StackFingerprint(recipe);
  const Result<FolderPrint> print = PrintOf(opened.checkpoint);
  const auto store = Store::Open(folder, {.read_only = true});
  if (!fingerprint || !print || !store) {
    return;  // no campaign yet, or files that run will name
  }
  opened.stack_fingerprint = std::move(*fingerprint);
  opened.checkpoint_files = print->hash;
  if (auto earlier = (*store)->FindCalibration(opened, now - kCalibrationAge, now)) {
    opened.earlier = std::move(*earlier);
  }
}

std::optional<GpuMillis> LaunchCost(const Planned& planned) {
  const std::optional<EarlierCalibration>& earlier = planned.state.opened->earlier;
  return earlier ? std::optional(earlier->calibration.launch_cost) : std::nullopt;
}

template <class RowFunction>
void BudgetText(const Planned& planned, double price, const RowFunction& row) {
  const std::optional<EarlierCalibration>& earlier = planned.state.opened->earlier;
  const int runs = earlier ? 1 : planned.state.recipe.measure.calibration_runs;
  const std::optional<GpuMillis> cost = LaunchCost(planned);
  std::optional<GpuMillis> budget = planned.state.opened->budget;
  if (budget) {
    row("budget", fmt::format("{} GPU-h{}", ShowGpuHours(*budget), Dollars(*budget, price)));
  } else if (cost) {
    budget = AutoBudget(*cost, Thresholds{});
    row("budget auto", fmt::format("{} GPU-h = 30 x launch, rounded up to 10{}",
                                   ShowGpuHours(*budget), Dollars(*budget, price)));
  } else {
    row("budget auto", "30 x what a launch takes, rounded up to 10 GPU-h");
    if (planned.first) {
      const GpuMillis before{(runs + 2) * planned.first->hold.value};
      row("", fmt::format("until that is known, {} launches of at most {} GPU-h together{}",
                          runs + 2, ShowGpuHours(before), Dollars(before, price)));
    }
  }
  if (!cost || !budget) {
    row("  calibration", fmt::format("{} runs of the recipe as given", runs));
    return;
  }
  // Final blocks of two runs under 1.2 x their time, and a rehearsal of two.
  const int blocks = 3;
  const double launches_kept = 1.2 * 2 * blocks + 2;
  const auto times = [&](double n) {
    return GpuMillis{static_cast<std::int64_t>(std::llround(n * static_cast<double>(cost->value)))};
  };
  const GpuMillis left = *budget - times(runs) - times(launches_kept);
  row("  calibration",
      earlier ? fmt::format("1 run, about {} GPU-h, if it confirms that of {}", ShowGpuHours(*cost),
                            earlier->campaign.value)
              : fmt::format("{} runs, about {} GPU-h", runs, ShowGpuHours(times(runs))));
  row("  final stage",
      fmt::format("about {} GPU-h, kept back", ShowGpuHours(times(launches_kept))));
  row("  search",
      left.value <= 0
          ? std::string("nothing is left for it")
          : fmt::format("about {} launches", left.value / std::max<std::int64_t>(cost->value, 1)));
}

std::vector<std::string> AllowedLevers(const Recipe& recipe) {
  std::vector<std::string> ids = LeverIds(recipe, BuiltInRules());
  std::erase_if(ids, [&](const std::string& id) {
    const auto has = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    return has(recipe.deny) || (!recipe.allow.empty() && !has(recipe.allow));
  });
  return ids;
}

}  // namespace

Result<Planned> PlanFor(Wire& wire, const LoadedRecipe& loaded,
                        const std::optional<RunFlags::Budget>& budget,
                        std::optional<Millis> run_limit, bool recalibrate) {
  Planned out;
  Opened opened;
  opened.id = CampaignId{"c-00000000-plan"};
  opened.recipe_json = loaded.canonical_json;
  opened.recipe_path = std::filesystem::absolute(loaded.path).lexically_normal().string();
  opened.recipe_hash = loaded.hash;
  opened.attune_version = kVersion;
  ATTUNE_TRY(const std::string state_folder, wire.StateFolder());
  opened.run_root = RunRootOf(loaded.recipe, state_folder);
  opened.run_limit = run_limit;
  const LaunchTerms terms = TermsOf(loaded.recipe, state_folder, wire.clock());
  opened.release_margin = terms.release_margin;
  opened.limit_step = terms.limit_step;
  if (budget) {
    opened.budget = budget->amount;
  } else if (loaded.recipe.budget.gpu_hours) {
    opened.budget = FromGpuHours(*loaded.recipe.budget.gpu_hours);
  }
  if (const Result<StartPoint> start = FindStart(loaded.recipe)) {
    opened.start_iteration = start->iteration;
    opened.checkpoint = start->checkpoint;
  } else {
    wire.terminal().Warn(start.error().message);
  }
  const Instant now = wire.clock().Now();
  if (!recalibrate) FindEarlier(loaded.recipe, state_folder, now, opened);
  out.state.recipe = loaded.recipe;
  const CampaignState before = out.state;
  out.state = Apply(std::move(out.state), Event{1, now, opened});
  const Action action = Decide(out.state, now, SessionLimits{});
  out.first = FirstLaunch(action);
  if (const auto* done = std::get_if<Done>(&action)) {
    out.refusal = done->why;
    Opened rich = opened;  // what the launch would be if there were money for it
    rich.budget.reset();
    out.first = FirstLaunch(Decide(Apply(before, Event{1, now, rich}), now, SessionLimits{}));
  }
  const MeasuredWindow window =
      WindowFor(out.state, out.first ? out.first->runs.front().steps_wanted : 1, "RUN_FOLDER");
  out.measured = Instrument(loaded.recipe, loaded.recipe.base, window, BuiltInRules());
  return out;
}

std::string PlanText(const Planned& planned, bool whole_command) {
  const Recipe& recipe = planned.state.recipe;
  const double price = recipe.price_gpu_hour_usd;
  std::string out;
  const auto row = [&](std::string_view left, std::string_view right) {
    out += fmt::format("{:<15} {}\n", left, right);
  };
  if (planned.first) {
    row("one launch", fmt::format("holds at most {} GPU-h: {} slots x ({} limit + {} release){}",
                                  ShowGpuHours(planned.first->hold), planned.first->slots,
                                  ShowDuration(planned.first->limit),
                                  ShowDuration(planned.state.opened->release_margin),
                                  Dollars(planned.first->hold, price)));
    const std::optional<GpuMillis> cost = LaunchCost(planned);
    row("", cost ? fmt::format("took {} GPU-h when it was last measured{}", ShowGpuHours(*cost),
                               Dollars(*cost, price))
                 : "what it takes is known after the first run");
  }
  if (recipe.launcher.session) {
    row("allocation", fmt::format("one is held for at most {}, and the campaign runs in it; idle "
                                  "nodes are charged, final blocks are jobs of their own",
                                  ShowDuration(*recipe.launcher.session)));
  }
  if (!planned.refusal.empty()) {
    row("too little", planned.refusal);
  }
  BudgetText(planned, price, row);
  const MeasureSpec& m = recipe.measure;
  row("window",
      fmt::format("{} warm-up and {} timed steps, at least {}{}", m.warmup_steps,
                  m.steps ? fmt::format("{}", *m.steps) : "20 (10 when a step takes over 30 s)",
                  ShowDuration(m.min_seconds),
                  m.relaxed.empty() ? "" : fmt::format("   relaxed: {}", Join(m.relaxed, ", "))));
  row("start point", planned.state.opened->checkpoint.empty()
                         ? "none: from the beginning"
                         : fmt::format("iteration {} of {}", planned.state.opened->start_iteration,
                                       planned.state.opened->checkpoint));
  row("levers", Join(AllowedLevers(recipe), ", "));
  row("measured form", planned.measured.rows.empty() ? "the recipe as it is" : "in a tuning run");
  for (const AppliedRow& applied : planned.measured.rows) {
    out += fmt::format("  {} {} -> {}{}{}\n", applied.name, EscapeForDisplay(applied.was, 80),
                       EscapeForDisplay(applied.now, 80), applied.why.empty() ? "" : "   ",
                       applied.why);
  }
  if (planned.first) {
    const RunPlan& run = planned.first->runs.front();
    const std::string command = ShellLine(recipe, run.executed.env, run.argv);
    row("would run", whole_command || command.size() <= 160
                         ? command
                         : command.substr(0, 120) + " ...   (--show-command)");
  }
  for (const CheckRow& asked : planned.asked) {
    row(asked.state == "ok" ? asked.what : fmt::format("{}: {}", asked.state, asked.what),
        EscapeForDisplay(asked.text, 600));
    if (!asked.help.empty()) row("", "help: " + asked.help);
  }
  out += "nothing was launched\n";
  return out;
}

std::string PlanJson(const Planned& planned, std::string_view outcome) {
  const Recipe& recipe = planned.state.recipe;
  JsonOut json("attune.plan/1");
  json.Text("name", recipe.name);
  json.Text("recipe_hash", planned.state.opened->recipe_hash);
  json.Int("slots", recipe.workload.gpus);
  if (planned.first) {
    JsonOut launch("");
    launch.Int("limit_ms", planned.first->limit.count());
    launch.Number("hold_gpu_hours", planned.first->hold.Hours());
    launch.Texts("argv", planned.first->runs.front().argv);
    launch.Int("steps", planned.first->runs.front().steps_wanted);
    json.Raw("launch", launch.Take());
  } else {
    json.Null("launch");
  }
  json.Number(
      "session_hours",
      recipe.launcher.session
          ? std::optional<double>(static_cast<double>(recipe.launcher.session->count()) / 3'600'000)
          : std::nullopt);
  json.Text("refusal", planned.refusal);
  const auto hours = [](const std::optional<GpuMillis>& amount) {
    return amount ? std::optional<double>(amount->Hours()) : std::nullopt;
  };
  json.Number("budget_gpu_hours", hours(planned.state.opened->budget));
  json.Bool("budget_auto", !planned.state.opened->budget);
  json.Number("last_launch_gpu_hours", hours(LaunchCost(planned)));
  json.Int("calibration_runs", recipe.measure.calibration_runs);
  json.Texts("relaxed", recipe.measure.relaxed);
  json.Int("start_iteration", planned.state.opened->start_iteration);
  json.Text("checkpoint", planned.state.opened->checkpoint);
  json.Texts("levers", AllowedLevers(recipe));
  std::vector<std::string> rows;
  for (const AppliedRow& applied : planned.measured.rows) {
    JsonOut row("");
    row.Text("name", applied.name);
    row.Text("was", applied.was);
    row.Text("now", applied.now);
    row.Text("why", applied.why);
    rows.push_back(row.Take());
  }
  json.Objects("measured_form", rows);
  if (!outcome.empty()) json.Text("outcome", outcome);
  if (planned.machines_asked) {
    std::vector<std::string> asked;
    for (const CheckRow& row : planned.asked) asked.push_back(JsonOf(row));
    json.Objects("scheduler", asked);
  }
  return json.Take();
}

}  // namespace attune::cli
