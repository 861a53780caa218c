#include "harness.h"

#include <fmt/core.h>

#include "attune/logs/log_parser.h"

namespace attune::testing {

Result<std::vector<Event>> MemoryJournal::Append(std::vector<Fact> facts, Instant at) {
  ++commits;
  if (commits == cut_before) throw Cut{};
  if (commits == full_at) return Fail(ErrorCode::kFull, "database or disk is full");
  std::vector<Event> added;
  for (Fact& fact : facts) {
    added.push_back({static_cast<std::int64_t>(events.size()) + 1, at, std::move(fact)});
    events.push_back(added.back());
    if (on_event) on_event(added.back());
  }
  if (commits == cut_after) throw Cut{};
  return added;
}

Result<std::vector<Event>> MemoryJournal::TakeWishes(Instant at) {
  std::vector<Event> added;
  for (UserAsked& wish : std::exchange(wishes, {})) {
    added.push_back({static_cast<std::int64_t>(events.size()) + 1, at, std::move(wish)});
    events.push_back(added.back());
  }
  return added;
}

Recipe FakeRecipe() {
  Recipe r;
  r.name = "fake";
  r.folder = "/fake";
  r.framework = Framework::kCustom;
  r.workload.model = "fake-gpt";
  r.workload.gpus = 2;
  r.workload.gpus_per_node = 2;
  r.workload.gpu = "cpu";
  r.workload.seq_length = 128;
  r.workload.global_batch = 8;
  r.workload.precision = "fp32";
  r.workload.order = "layout_free";
  r.workload.loss_mask = "full";
  r.command = {"fake_train", "{{args}}"};
  r.base.args = ParseArguments(std::vector<std::string>{"--train-iters",
                                                        "100000",
                                                        "--micro-batch-size",
                                                        "1",
                                                        "--global-batch-size",
                                                        "8",
                                                        "--seq-length",
                                                        "128",
                                                        "--num-ranks",
                                                        "1",
                                                        "--lr",
                                                        "3e-4",
                                                        "--seed",
                                                        "1",
                                                        "--ckpt-step",
                                                        "40",
                                                        "--fake-step-ms",
                                                        "200",
                                                        "--fake-seed",
                                                        "7"});
  r.base.env = {{"OPENBLAS_NUM_THREADS", "1"}};
  r.declared = {
      {"micro_batch",
       "--micro-batch-size",
       "",
       {"1", "2", "4", "8"},
       LeverClass::kBatching,
       {}, {}, {}, ""},
      {"threads",
       "",
       "OPENBLAS_NUM_THREADS",
       {"1", "2"},
       LeverClass::kPlacement,
       {{"--num-ranks", "", "2"}}, {}, {}, ""},
      {"ranks", "--num-ranks", "", {"1", "2"}, LeverClass::kPlacement, {}, {},
       {{"data_parallel_size", "{v}"}, {"world_size", "{v}"}}, ""},
      {"recompute", "--recompute", "", {"true", "false"}, LeverClass::kMemory, {}, {}, {}, ""},
  };
  r.log.dialect = "megatron-lm";
  r.measure.min_seconds = Millis{3'000};
  r.measure.steps = 20;
  r.measure.warmup_steps = 3;
  r.measure.calibration_runs = 3;
  r.measure.instrument_set = {{"--exit-interval", "{n}"}};
  return r;
}

Campaign::Campaign(Recipe r) : recipe(std::move(r)) {
  opening.id = CampaignId{"c-20261130-7f3a"};
  opening.recipe_path = "/fake/recipe.yaml";
  opening.recipe_hash = CanonicalHash(recipe.base);
  opening.policy.seed = 11;
  opening.start_iteration = 40;
  opening.checkpoint = "/fake/ckpt";
  opening.release_margin = world.release_margin;
  opening.budget = FromGpuHours(5);
}

CampaignState Campaign::State() const {
  CampaignState s;
  s.recipe = recipe;
  for (const Event& event : journal.events) s = Apply(std::move(s), event);
  return s;
}

Result<CampaignEnd> Campaign::Go() {
  ++processes;
  fakes::FakeLauncher launcher(&world);
  const std::unique_ptr<Proposer> mind = proposer();
  world.after_effect = [this](std::string_view what) {
    if (effect_hook) effect_hook(std::string(what).c_str());
  };
  journal.commits = 0;
  journal.on_event = nullptr;
  if (journal.events.empty()) {
    ATTUNE_TRY(auto first, journal.Append({opening}, clock.Now()));
  } else {
    ATTUNE_TRY(auto again,
               journal.Append({Resumed{fmt::format("process {}", processes)}}, clock.Now()));
  }
  CampaignState state = State();
  std::string broken;
  CampaignParts parts{.journal = journal,
                      .launcher = launcher,
                      .proposer = *mind,
                      .clock = clock,
                      .ship = [this](const CampaignState& s) -> Result<Shipped> {
                        ++ships;
                        if (effect_hook) effect_hook("ship");
                        return Shipped{s.ship->bundle, "/fake/recipe.tuned.yaml", s.leader.gain};
                      },
                      .notify = {},
                      .approve = approve,
                      .interrupted = interrupted,
                      .on_event =
                          [&](const CampaignState& s, const Event&) {
                            if (broken.empty()) broken = BrokenInvariant(s);
                          },
                      .check_inputs = check_inputs,
                      .passed_env = {},
                      .limits = limits};
  parts.limits.allocation = launcher.HeldAllocation();
  Result<CampaignEnd> end = RunCampaign(state, parts);
  if (!broken.empty()) return Fail(ErrorCode::kInternal, "broken invariant: " + broken);
  return end;
}

std::vector<std::string> Campaign::RunTable() const {
  std::vector<std::string> table;
  const CampaignState s = State();
  for (const auto& [id, run] : s.runs) {
    table.push_back(fmt::format("{}:{}:{}", Word(run.purpose), run.plan.label,
                                run.judged ? Word(run.judged->standing) : "open"));
  }
  return table;
}

const RunRecord* Campaign::Run(const CampaignState& s, const std::string& label) const {
  for (const auto& [id, run] : s.runs) {
    if (run.plan.label == label) return &run;
  }
  return nullptr;
}

std::string BrokenInvariant(const CampaignState& s) {
  GpuMillis held;
  for (const LaunchRecord* launch : s.OpenLaunches()) held += launch->intent.hold;
  if (held != s.ledger.held) return "holds do not add up to the open launches";
  GpuMillis charged;
  for (const auto& [id, launch] : s.launches) {
    if (launch.end) charged += launch.end->charged;
  }
  if (charged != s.ledger.Charged()) return "charges do not add up to the ledger";
  if (s.budget && s.ledger.Charged() + s.ledger.held > *s.budget) {
    return fmt::format("charged {} + held {} > budget {}", s.ledger.Charged().value,
                       s.ledger.held.value, s.budget->value);
  }
  if (s.ledger.overrun.value != 0) return "overrun";
  return {};
}

std::string BrokenBooks(Campaign& c) {
  const CampaignState s = c.State();
  GpuMillis total;
  for (const auto& [id, launch] : s.launches) {
    const Token& token = launch.intent.token;
    if (c.world.Starts(token) > 1) return id.value + " started twice";
    if (c.world.Live(token)) return id.value + " is still alive";
    const GpuMillis truth = c.world.Charge(token);
    const GpuMillis booked = launch.end ? launch.end->charged : GpuMillis{};
    if (truth != booked) {
      return fmt::format("{} booked {} but cost {}", id.value, booked.value, truth.value);
    }
    total += truth;
  }
  if (total != s.ledger.Charged()) return "the sum of the launches is not what is charged";
  if (total != c.world.TotalCharge()) return "the cluster ran launches that no event names";
  if (s.ledger.held.value != 0) return "something is held after the end";
  return BrokenInvariant(s);
}

}  // namespace attune::testing
