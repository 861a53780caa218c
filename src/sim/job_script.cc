#include "job_script.h"

#include <algorithm>
#include <cmath>

#include "attune/base/text.h"
#include "log_text.h"

namespace attune::sim {
namespace {

constexpr double kExitMs = 3'000;  // from the last line to the exit
constexpr double kSaveSeconds = 25, kEvaluationSeconds = 8;
constexpr double kLongestStallMs = 2'000;
constexpr int kAborted = 6, kSegfault = 11;

double Exponential(Random& random, double rate_per_hour) {
  const double u = random.Unit();  // drawn in any case: hazards do not shift each other's draws
  return rate_per_hour > 0 ? -std::log(1 - u) / rate_per_hour * 3600 : Allocation::kNever;
}

}  // namespace

Allocation DrawAllocation(const World& world, std::uint64_t seed, const std::string& token) {
  Allocation a;
  // Not of the world's constants: one that nothing shows must not move what is drawn elsewhere.
  a.seed = MixText(Mix(Mix(seed, 1), world.seed), token);
  Random random(a.seed);
  a.rate = random.Normal();
  a.startup = std::exp(world.starting.sigma * random.Normal());
  a.first_node = 1 + static_cast<int>(random.Below(900));
  a.preempted_s = Exponential(random, world.hazards.preemption);
  a.node_failed_s = Exponential(random, world.hazards.node_failure);
  a.hung_s = Exponential(random, world.hazards.hang);
  return a;
}

JobScript::JobScript(JobSetup setup) : setup_(std::move(setup)), noise_(Mix(setup_.run_seed, 77)) {}

Instant JobScript::Wall(double at_ms) const {
  return setup_.wall_start + Millis{static_cast<std::int64_t>(at_ms)};
}

std::int64_t JobScript::Flag(std::string_view flag, std::int64_t otherwise) const {
  const auto text = setup_.args.Value(flag);
  return text ? ParseInt(*text).value_or(otherwise) : otherwise;
}

void JobScript::Say(double at_ms, std::string text, bool news) {
  prints_.push_back({at_ms, std::move(text), false, news});
}

void JobScript::Fail(double at_ms, std::string text, std::optional<int> code,
                     std::optional<int> signal) {
  if (at_ms > setup_.hung_after_ms) return Hang(setup_.hung_after_ms);
  Say(at_ms, std::move(text), true);
  end_ = {at_ms + 1000 * setup_.site->world->starting.teardown_s / setup_.speed, code, signal};
  phase_ = Phase::kOver;
}

void JobScript::Hang(double at_ms) {
  const Hazards& hazards = setup_.site->world->hazards;
  phase_ = Phase::kOver;
  if (!hazards.watchdog) return;  // only a limit ends it
  const double minutes = static_cast<double>(
      Flag("--distributed-timeout-minutes", static_cast<std::int64_t>(hazards.watchdog_minutes)));
  const double wait = (hazards.watchdog_minutes < 1 ? hazards.watchdog_minutes : minutes) * 60'000;
  const double at = at_ms + wait / setup_.speed;
  Say(at, Watchdog(1, minutes), true);
  end_ = {at + 1000 * setup_.site->world->starting.teardown_s / setup_.speed, std::nullopt,
          kAborted};
}

const Defect* JobScript::DefectAt(Effect effect, std::int64_t since) const {
  for (const Defect* d : defects_) {
    if (d->effect == effect && d->step == since) return d;
  }
  return nullptr;
}

void JobScript::Start() {
  const World& world = *setup_.site->world;
  const double speed = setup_.speed;
  const auto resolved = ResolveMegatron(setup_.args, setup_.env, setup_.workload);
  const double build_ms =
      1000 * (world.starting.fixed_s + world.starting.nccl_s_per_gpu * setup_.workload.gpus) *
      setup_.allocation.startup / speed;
  if (const auto* finding = std::get_if<Finding>(&resolved)) {
    return Fail(0.6 * build_ms, Refused(finding->why), 1, std::nullopt);
  }
  job_ = std::get<TrainingJob>(resolved);
  TruthOf(*setup_.site, *job_, truth_);
  defects_ = truth_.defects;
  for (const Defect& d : PublishedDefects()) {
    if (HoldAll(d.when, *job_)) defects_.push_back(&d);
  }
  const double load_ms = 1000 * world.starting.load_s_per_billion * TotalParameters(job_->shape) /
                         1e9 * setup_.allocation.startup / speed;
  startup_ms_ = build_ms + load_ms;
  Say(0.4 * build_ms, WorldSizeLine(*job_));
  if (truth_.trouble.failure == Failure::kRefused) {
    return Fail(0.6 * build_ms, Refused(truth_.trouble.why), 1, std::nullopt);
  }
  Say(0.7 * build_ms, ArgumentBlock(setup_.args, *job_, *setup_.block_flags), true);
  if (truth_.oom == OomAt::kBuild) {
    return Fail(build_ms, OutOfMemory(0, 0.02 * truth_.needed, truth_.limit, truth_.limit), 1,
                std::nullopt);
  }
  Say(build_ms, ModelLines(*job_, truth_, Wall(build_ms)));
  Say(startup_ms_, TrainingLines(Wall(startup_ms_)));
  now_ms_ = startup_ms_;
  phase_ = Phase::kSteps;

  const double spread = world.noise.allocation_sigma *
                        (1 + (world.noise.launch_bound_factor - 1) * truth_.launch_bound);
  step_ms_ = 1000 * truth_.step * std::exp(spread * setup_.allocation.rate) / speed;
  if (setup_.args.Has("--load") && !setup_.args.Has("--finetune")) {
    start_ = Flag("--ckpt-step", -1);
    if (start_ < 0) {
      const std::string folder = setup_.args.Value("--load").value_or("");
      const auto latest = setup_.checkpoints != nullptr ? setup_.checkpoints->Latest(folder)
                                                        : std::optional<std::int64_t>();
      start_ = latest.value_or(0);
    }
  }
  iteration_ = start_;
  last_ = Flag("--train-iters", 0);
  if (last_ <= 0) {
    const std::int64_t samples = Flag("--train-samples", 0);
    last_ = samples > 0 && job_->batch.gbs > 0 ? samples / job_->batch.gbs : 1'000'000;
  }
  exit_interval_ = Flag("--exit-interval", 0);
  save_folder_ = setup_.args.Value("--save").value_or("");
  save_interval_ = save_folder_.empty() ? 0 : Flag("--save-interval", 0);
  eval_interval_ = Flag("--eval-iters", 100) > 0 ? Flag("--eval-interval", 1000) : 0;
  wish_ = TraceWishOf(setup_.args);
  learning_.emplace(world.training, setup_.args, *job_, defects_, setup_.run_seed, start_);

  switch (truth_.trouble.failure) {
    case Failure::kStartCrash:
      Fail(startup_ms_ + 0.2 * step_ms_,
           job_->switches.dispatcher == "flex" ? DeepEpFailed(0) : Segfault(setup_.node), 1,
           std::nullopt);
      break;
    case Failure::kHang:
      Hang(startup_ms_);
      break;
    case Failure::kNone:
    case Failure::kRefused:
      break;
  }
}

// A slow first few, noise that is correlated from step to step, now and then a straggler.
double JobScript::StepMs(std::int64_t since) {
  const Noise& n = setup_.site->world->noise;
  lag_ = n.step_lag1 * lag_ + std::sqrt(1 - n.step_lag1 * n.step_lag1) * noise_.Normal();
  double factor = std::exp(n.step_sigma * lag_);
  if (noise_.Unit() < n.straggler_rate) {
    // What holds a step up (a collection, a retransmission, a slow page) takes its own time.
    factor += std::min(0.05 + 0.15 * noise_.Unit(), kLongestStallMs / setup_.speed / step_ms_);
  }
  if (since < n.slow_steps)
    factor *= 1 + n.slow_first * std::exp(-1.6 * static_cast<double>(since));
  return step_ms_ * factor;
}

void JobScript::NextStep() {
  const std::int64_t since = iteration_ - start_;
  const double ms = StepMs(since);
  if (iteration_ >= last_) {
    Say(now_ms_, "[after training is done]\n");
    end_ = {now_ms_ + kExitMs / setup_.speed, 0, std::nullopt};
    phase_ = Phase::kOver;
    return;
  }
  if (now_ms_ + ms > setup_.hung_after_ms || DefectAt(Effect::kHang, since) != nullptr) {
    return Hang(std::min(now_ms_, setup_.hung_after_ms));
  }
  const bool first = since == 0;
  if ((first && (truth_.oom == OomAt::kForward || truth_.oom == OomAt::kOptimizer)) ||
      (truth_.oom == OomAt::kLate && since == truth_.oom_step)) {
    const double done = truth_.oom == OomAt::kOptimizer ? 1.0 : 0.35;
    return Fail(now_ms_ + done * ms,
                OutOfMemory(truth_.stage, 0.03 * truth_.needed, truth_.limit, truth_.limit), 1,
                std::nullopt);
  }
  const bool nan = DefectAt(Effect::kNan, since) != nullptr;
  now_ms_ += ms;
  ++iteration_;
  if (wish_ && since + 1 == wish_->step) profiled_ = {*wish_, now_ms_ - ms, now_ms_};
  IterationFacts f;
  f.iteration = iteration_;
  f.last = last_;
  f.consumed = iteration_ * job_->batch.gbs;
  f.global_batch = job_->batch.gbs;
  f.ms = ms;
  f.nan = nan;
  if (setup_.args.Has("--log-throughput")) {
    const double tokens = static_cast<double>(job_->batch.gbs * job_->batch.seq_len);
    f.tflops = truth_.model.model_flops_token * tokens / (ms / 1000) / job_->world / 1e12;
  }
  f.learned = learning_->At(iteration_);
  std::string text = IterationLine(f, Wall(now_ms_));
  if (first) text += MemoryLines(*job_, truth_, iteration_);
  prints_.push_back({now_ms_, std::move(text), true, true});
  if (nan) {
    return Fail(now_ms_ + 0.5 * ms, NanFound(0), 1, std::nullopt);
  }
  AfterStep(iteration_);
}

void JobScript::AfterStep(std::int64_t iteration) {
  if (eval_interval_ > 0 && iteration % eval_interval_ == 0) {
    now_ms_ += 1000 * kEvaluationSeconds / setup_.speed;
    Say(now_ms_, EvaluationLines(iteration, learning_->At(iteration).loss * 1.01));
  }
  const bool ends = iteration >= last_ || (exit_interval_ > 0 && iteration % exit_interval_ == 0);
  const bool saves = save_interval_ > 0 && iteration % save_interval_ == 0;
  if (saves || (ends && !save_folder_.empty())) {
    now_ms_ += 1000 * kSaveSeconds / setup_.speed;
    Say(now_ms_, SaveLines(iteration, save_folder_));
    if (setup_.checkpoints != nullptr) setup_.checkpoints->Saved(save_folder_, iteration);
  }
  if (exit_interval_ > 0 && iteration % exit_interval_ == 0) {
    Say(now_ms_, ExitLine(iteration, Wall(now_ms_)));
    end_ = {now_ms_ + kExitMs / setup_.speed, 0, std::nullopt};
    phase_ = Phase::kOver;
  }
}

const Print* JobScript::Peek() {
  while (prints_.empty()) {
    if (phase_ == Phase::kOver) return nullptr;
    if (phase_ == Phase::kStart) {
      Start();
    } else {
      NextStep();
    }
  }
  return &prints_.front();
}

Print JobScript::Take() {
  Print p = std::move(prints_.front());
  prints_.pop_front();
  return p;
}

}  // namespace attune::sim
