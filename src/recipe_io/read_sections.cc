// measure, gate, profile, launcher, budget, llm: fields and their bounds. Defaults are the model's
// (model/recipe.h), bounds are control_plane.md sections 1, 3 and 5.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "attune/base/text.h"
#include "read_recipe.h"

namespace attune {
namespace {

constexpr int kLeastSeconds = 3;  // a shorter window measures the timer

Millis FromSeconds(double seconds) { return Millis{std::llround(seconds * 1000.0)}; }

std::optional<Millis> TimeOfSlurm(std::string_view text) {
  // man sbatch, --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
  // days-hours:minutes, days-hours:minutes:seconds.
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto parsed = ParseInt(text.substr(0, dash));
    if (!parsed) {
      return std::nullopt;
    }
    days = *parsed;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (const std::string_view part : Split(text, ':')) {
    const bool padded = part.size() == 2 && part.front() == '0';
    const auto parsed = ParseInt(padded ? part.substr(1) : part);
    if (!parsed || *parsed < 0 || *parsed > 1'000'000) {
      return std::nullopt;
    }
    parts.push_back(*parsed);
  }
  if (parts.size() > 3 || days < 0 || days > 366) {
    return std::nullopt;
  }
  parts.resize(3, 0);
  std::int64_t seconds = 0;
  if (dash != std::string_view::npos) {
    seconds = ((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
  } else if (text.find(':') == std::string_view::npos) {
    seconds = parts[0] * 60;
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    seconds = parts[0] * 60 + parts[1];
  } else {
    seconds = (parts[0] * 60 + parts[1]) * 60 + parts[2];
  }
  return seconds == 0 ? std::nullopt : std::optional<Millis>(std::chrono::seconds(seconds));
}

// What the measured form sets or removes cannot be a lever too.
void RefuseLevers(const Section& section, const Recipe& recipe,
                  const std::function<bool(const std::string& flag)>& instrumented) {
  for (const DeclaredLever& lever : recipe.declared) {
    if (lever.flag.empty() || !instrumented(lever.flag)) continue;
    section.problems().At(
        section.where(),
        fmt::format("{} is instrumented and declared as lever {}", lever.flag, lever.id),
        "a lever cannot be part of the measured form");
  }
}

void ReadInstrument(const Section& instrument, Recipe& recipe) {
  if (!instrument.present()) {
    return;
  }
  if (recipe.framework != Framework::kCustom) {
    instrument.problems().At(instrument.where(),
                             "measure.instrument is for framework custom: megatron-lm has its own "
                             "rows");
    return;
  }
  for (auto& [key, value] : instrument.TextMap("set")) {
    recipe.measure.instrument_set[FlagName(key)] = value;
  }
  instrument.Texts("remove", recipe.measure.instrument_remove);
  for (std::string& flag : recipe.measure.instrument_remove) {
    flag = FlagName(flag);
  }
  const auto& removed = recipe.measure.instrument_remove;
  RefuseLevers(instrument, recipe, [&](const std::string& flag) {
    return recipe.measure.instrument_set.contains(flag) ||
           std::find(removed.begin(), removed.end(), flag) != removed.end();
  });
}

// Options of sbatch that a recipe may not give: attune sets them itself, or they would start the job
// twice, elsewhere, under another name, or with signals of their own (control_plane.md section 2a).
bool IsOursInSbatch(std::string_view key) {
  static constexpr std::string_view kOurs[] = {
      "array",     "begin",        "chdir",       "clusters",    "comment", "dependency",
      "error",     "export",       "export-file", "hold",        "input",   "job-name",
      "mail-type", "mail-user",    "no-requeue",  "open-mode",   "output",  "parsable",
      "quiet",     "requeue",      "signal",      "test-only",   "uid",     "wait",
      "wrap",      "get-user-env", "kill-on-invalid-dep"};
  return key.size() < 2 || std::find(std::begin(kOurs), std::end(kOurs), key) != std::end(kOurs);
}

}  // namespace

void ReadMeasure(const Section& measure, Recipe& recipe) {
  MeasureSpec& spec = recipe.measure;
  const MeasureSpec defaults;
  measure.Int("warmup_steps", spec.warmup_steps, 1);
  measure.Int("steps", spec.steps, 3);
  double seconds = static_cast<double>(spec.min_seconds.count()) / 1000.0;
  measure.Number("min_seconds", seconds, kLeastSeconds, 86'400);
  spec.min_seconds = FromSeconds(seconds);
  measure.Int("calibration_runs", spec.calibration_runs, 1, 100);
  measure.Number("cv_max", spec.cv_max, 0, 1);
  measure.Number("half_drift_max", spec.half_drift_max, 0, 1);
  const Section band = measure.Sub("band");
  double floor_pct = spec.band_floor * 100.0;
  band.Number("floor_pct", floor_pct, 3, 100);
  spec.band_floor = floor_pct / 100.0;
  band.Number("sigma", spec.sigma_factor, 3, 100);
  measure.Text("start_from", spec.start_from);
  ReadInstrument(measure.Sub("instrument"), recipe);
  // What makes a measurement weaker than the rule; the report says so. Below 20 steps the rule
  // still holds where a step of the baseline takes over 30 s: only a campaign can know.
  const auto relax = [&](bool relaxed, std::string_view field) {
    if (relaxed) {
      spec.relaxed.emplace_back(field);
    }
  };
  relax(spec.warmup_steps < defaults.warmup_steps, "warmup_steps");
  relax(spec.steps && *spec.steps < 20, "steps");
  relax(spec.min_seconds < defaults.min_seconds, "min_seconds");
  relax(spec.calibration_runs < defaults.calibration_runs, "calibration_runs");
  relax(spec.cv_max > defaults.cv_max, "cv_max");
  relax(spec.half_drift_max > defaults.half_drift_max, "half_drift_max");
}

void ReadGate(const Section& gate, Recipe& recipe) {
  GateSpec& spec = recipe.gate;
  gate.Number("memory_headroom", spec.memory_headroom, 0.1, 1);
  double loss_pct = spec.step0_loss * 100.0;
  gate.Number("step0_loss_pct", loss_pct, 0.01, 2);
  spec.step0_loss = loss_pct / 100.0;
  gate.Int("long_steps", spec.long_steps, 1);
  for (const Section& section : gate.Subs("component_tests")) {
    ComponentTest test;
    section.Text("lever", test.lever);
    section.Text("value", test.value);
    section.Texts("command", test.command);
    section.Int("gpus", test.gpus, 1);
    std::optional<Millis> time;
    section.Duration("time", time);
    test.time = time.value_or(test.time);
    if (section.present() && test.command.empty()) {
      section.problems().At(section.WhereOf("command"),
                            fmt::format("{} is empty", section.Name("command")));
    }
    spec.component_tests.push_back(std::move(test));
  }
  for (const Section& section : gate.Subs("accept")) {
    AcceptedLever accept;
    section.Text("lever", accept.lever);
    section.Text("why", accept.why);
    spec.accept.push_back(std::move(accept));
  }
}

void ReadProfile(const Section& profile, Recipe& recipe) {
  ProfileSpec& spec = recipe.profile;
  profile.Ints("ranks", spec.ranks, 0);
  profile.Int("steps", spec.steps, 1, 20);
  std::optional<std::int64_t> megabytes;
  profile.Int64("max_mb", megabytes, 1);
  if (megabytes && *megabytes > 1'000'000) {
    profile.problems().At(profile.WhereOf("max_mb"), "profile.max_mb must be at most 1000000");
  } else if (megabytes) {
    spec.max_bytes = *megabytes * 1'000'000;
  }
  profile.Bool("off", spec.off);
  for (auto& [key, value] : profile.TextMap("set")) {
    spec.set[FlagName(key)] = value;
  }
  if (spec.set.empty()) return;
  if (recipe.framework != Framework::kCustom) {
    profile.problems().At(profile.WhereOf("set"),
                          "profile.set is for framework custom: megatron-lm has its own rows");
    return;
  }
  RefuseLevers(profile, recipe, [&](const std::string& flag) { return spec.set.contains(flag); });
}

namespace {

// per_run, or {held: {session: TIME}}.
void ReadAllocation(const Section& launcher, LauncherSpec& spec) {
  const Node* allocation = launcher.Find("allocation");
  if (allocation == nullptr) return;
  if (!allocation->IsMap()) {
    if (!allocation->IsScalar() || allocation->text != "per_run") {
      launcher.problems().At(allocation->where, "launcher.allocation is no allocation",
                             "per_run, or {held: {session: 4h}}");
    }
    return;
  }
  const Section held = launcher.Sub("allocation").Sub("held");
  held.Duration("session", spec.session);
  if (!spec.session) return;
  if (const std::string why = WhyNotHeld(spec, *spec.session); !why.empty()) {
    launcher.problems().At(held.WhereOf("session"), "launcher.allocation.held.session " + why,
                           "allocation: per_run gives each launch one of its own");
  }
}

}  // namespace

void ReadLauncher(const Section& launcher, const PathReader& paths, const LoadOptions& options,
                  Recipe& recipe) {
  LauncherSpec& spec = recipe.launcher;
  Problems& problems = launcher.problems();
  launcher.Text("kind", spec.kind);
  for (auto& [key, value] : launcher.TextMap("sbatch")) {
    if (key.starts_with('-')) {
      problems.At(launcher.WhereOf("sbatch"),
                  fmt::format("'{}': options of sbatch are written without dashes", key));
    }
    if (IsOursInSbatch(key)) {
      problems.At(launcher.Find("sbatch")->Find(key)->where,
                  fmt::format("launcher.sbatch.{} is attune's to set, or would take a job out of "
                              "its hands",
                              EscapeForDisplay(key, 40)),
                  "remove it");
    }
    if (value.find('\n') != std::string::npos) {
      problems.At(launcher.WhereOf("sbatch"), fmt::format("a newline in launcher.sbatch.{}", key));
    }
    spec.sbatch[key] = value;
  }
  if (const auto nodes = spec.sbatch.find("nodes"); nodes != spec.sbatch.end()) {
    const Workload& w = recipe.workload;
    const std::optional<std::int64_t> count = ParseInt(nodes->second);
    if (!count || *count * w.gpus_per_node != w.gpus) {
      problems.At(launcher.Find("sbatch")->Find("nodes")->where,
                  fmt::format("launcher.sbatch.nodes '{}' x workload.gpus_per_node {} is not "
                              "workload.gpus {}",
                              EscapeForDisplay(nodes->second, 40), w.gpus_per_node, w.gpus),
                  "what is charged is what is allocated: the three must agree");
    }
  }
  paths.Path(launcher, "batch_template", spec.batch_template);
  const Section container = launcher.Sub("container");
  container.Text("style", spec.container.style);
  container.Text("image", spec.container.image);
  container.Texts("mounts", spec.container.mounts);
  if (container.present() && (spec.container.style.empty() || spec.container.image.empty())) {
    problems.At(container.where(), "launcher.container needs style and image");
  }
  launcher.Text("login", spec.login);
  if (!spec.login.empty() && !IsHostName(spec.login)) {
    problems.At(launcher.WhereOf("login"),
                fmt::format("'{}' is no name of a host", EscapeForDisplay(spec.login, 80)),
                "a Host of your ssh configuration, where user, port and key stand");
  }
  launcher.Texts("hosts", spec.hosts);
  if (spec.kind == "ssh" && launcher.present() && spec.hosts.empty()) {
    problems.At(launcher.where(), "launcher.kind ssh needs launcher.hosts");
  }
  for (const std::string& host : spec.hosts) {
    if (!IsHostName(host)) {
      problems.At(launcher.WhereOf("hosts"),
                  fmt::format("'{}' is no name of a host", EscapeForDisplay(host, 80)),
                  "a Host of your ssh configuration, where user, port and key stand");
    }
  }
  launcher.Text("run_root", spec.run_root);
  if (!spec.run_root.empty() && (spec.run_root.front() != '/' || spec.run_root.back() == '/')) {
    problems.At(launcher.WhereOf("run_root"), "launcher.run_root is no absolute path",
                "like /scratch/me/attune-runs, on the hosts");
  }
  if (!spec.login.empty() && spec.kind != "slurm") {
    problems.At(launcher.WhereOf("login"), "launcher.login goes with launcher.kind slurm");
  }
  if (!spec.login.empty() && spec.run_root.empty()) {
    problems.At(launcher.WhereOf("login"), "launcher.login needs launcher.run_root",
                "a folder on the cluster that its nodes share, like /scratch/me/attune-runs");
  }
  paths.Path(launcher, "workdir", spec.workdir);
  for (auto& [name, value] : launcher.TextMap("env")) {
    CheckEnvName(name, launcher.Find("env")->Find(name)->where, options, problems);
    if (value.find('\n') != std::string::npos) {
      problems.At(launcher.WhereOf("env"), fmt::format("a newline in launcher.env.{}", name));
    }
    recipe.base.env[name] = value;
  }
  launcher.Texts("pass_env", spec.pass_env);
  if (const Node* names = launcher.Find("pass_env"); names != nullptr) {
    for (const Node& name : names->items) {
      CheckEnvName(name.text, name.where, options, problems);
      if (recipe.base.env.contains(name.text)) {
        problems.At(name.where,
                    fmt::format("{} stands in launcher.env and in launcher.pass_env", name.text));
      }
    }
  }
  const Section script = launcher.Sub("script");
  paths.Path(script, "file", spec.script);
  script.Bool("trusted", spec.script_trusted);
  launcher.Duration("time", spec.time);
  if (const auto time = spec.sbatch.find("time"); time != spec.sbatch.end()) {
    const std::optional<Millis> limit = TimeOfSlurm(time->second);
    if (!limit) {
      problems.At(launcher.Find("sbatch")->Find("time")->where,
                  fmt::format("'{}' is no time limit of Slurm", EscapeForDisplay(time->second, 40)),
                  "like \"00:30:00\" or \"1-12:00:00\"; 0 means no limit and is refused");
    } else if (!spec.time) {
      spec.time = limit;
    }
  }
  const Section limits = launcher.Sub("limits");
  limits.Duration("startup", spec.startup);
  limits.Duration("no_progress", spec.no_progress);
  std::optional<Millis> poll;
  launcher.Duration("poll", poll);
  spec.poll = poll.value_or(spec.poll);
  ReadAllocation(launcher, spec);
}

void ReadBudget(const Section& budget, Recipe& recipe) {
  BudgetSpec& spec = recipe.budget;
  const Node* hours = budget.Find("gpu_hours");
  if (hours != nullptr && hours->IsScalar() && hours->text == "auto") {
    spec.automatic = true;
  } else if (hours != nullptr) {
    double value = 0;
    budget.Number("gpu_hours", value, 0, 1e9);
    if (value <= 0) {
      budget.problems().At(hours->where, "budget.gpu_hours must be above 0");
    }
    spec.gpu_hours = value;
  }
  budget.Duration("run_limit", spec.run_limit);
  budget.Duration("wall", spec.wall);
  if (budget.Find("llm_usd") != nullptr) {
    double usd = 0;
    budget.Number("llm_usd", usd, 0, 1e9);
    spec.llm_usd = usd;
  }
}

void ReadLlm(const Section& llm, Recipe& recipe) {
  llm.Text("profile", recipe.llm.profile);
  llm.Text("model", recipe.llm.model);
  llm.Int("retries", recipe.llm.retries, 0, 100);
  llm.Int("prompt_bytes", recipe.llm.prompt_bytes, 1'200, 1'000'000);
  const Section limits = llm.Sub("limits");
  if (limits.Find("usd") != nullptr) {
    double usd = 0;
    limits.Number("usd", usd, 0, 1e9);
    recipe.llm.usd = usd;
  }
  limits.Int64("tokens", recipe.llm.tokens, 1);
  limits.Int("calls", recipe.llm.calls, 1);
}

}  // namespace attune
