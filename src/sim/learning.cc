#include "learning.h"

#include <algorithm>
#include <cmath>

#include "attune/base/check.h"
#include "attune/base/random.h"
#include "attune/base/text.h"
#include "residual.h"

namespace attune::sim {
namespace {

constexpr double kPi = 3.14159265358979323846;

double NormalOf(std::uint64_t seed) { return Random(seed).Normal(); }

double Number(const Arguments& args, std::string_view flag, double otherwise) {
  const auto text = args.Value(flag);
  const auto value = text ? ParseDouble(*text) : std::nullopt;
  return value.value_or(otherwise);
}

// The first loss moves with every argument that sets what is learned (sizes: the paper's Table B2).
double ObjectiveShift(const Arguments& args, const TrainingJob& job) {
  double shift = 0;
  if (job.switches.capacity_factor && *job.switches.capacity_factor > 0) {
    shift += 0.076 / (*job.switches.capacity_factor * *job.switches.capacity_factor);
  }
  if (!job.switches.per_token_loss) shift += 0.005;
  if (!job.switches.grads_fp32) shift -= 0.0004;
  shift += 0.0001 * NormalOf(MixText(1, args.Value("--lr").value_or("")));
  shift += 0.0001 * NormalOf(MixText(2, args.Value("--moe-aux-loss-coeff").value_or("")));
  shift += 0.002 * NormalOf(Mix(3, static_cast<std::uint64_t>(job.batch.gbs)));
  shift += 0.02 * NormalOf(Mix(4, static_cast<std::uint64_t>(job.batch.seq_len)));
  return shift;
}

// Rounding: where the sums are cut, which kernels do them, which expert wins a near-tie.
double RoundingShift(const Training& t, const TrainingJob& job) {
  const Layout& l = job.layout;
  const Switches& s = job.switches;
  const auto mix = [](std::uint64_t h, std::initializer_list<std::int64_t> values) {
    for (const std::int64_t v : values) h = Mix(h, static_cast<std::uint64_t>(v));
    return h;
  };
  const std::uint64_t layout = mix(11, {l.tp, l.pp, l.cp, l.dp, l.vp, l.ep, l.etp, job.batch.mbs});
  std::uint64_t kernels = mix(
      12, {s.grouped_gemm, s.permute_fusion, s.router_fusion, s.ce_fusion, s.grad_accum_fusion});
  kernels = MixText(MixText(kernels, s.attention_backend), s.precision);
  double shift = t.placement_shift * NormalOf(layout) + t.kernel_shift * NormalOf(kernels);
  if (job.shape.experts > 0) {
    std::uint64_t routing =
        mix(13, {l.tp, l.cp, l.etp, s.router_fusion, s.permute_fusion, l.sequence_parallel});
    routing = MixText(MixText(routing, s.dispatcher), s.flex_backend);
    shift += std::clamp(t.routing_shift * NormalOf(routing), -t.routing_most, t.routing_most);
  }
  return shift;
}

}  // namespace

Learning::Learning(const Training& training, const Arguments& args, const TrainingJob& job,
                   std::span<const Defect* const> defects, std::uint64_t run, std::int64_t start)
    : training_(&training), run_(run), start_(start) {
  data_ = MixText(21, args.Value("--seed").value_or("1234"));
  for (const char* flag : {"--data-path", "--per-split-data-args-path", "--split"}) {
    if (const Argument* a = args.Find(flag)) data_ = MixText(data_, Join(a->values, " "));
  }
  loss_factor_ = (1 + ObjectiveShift(args, job)) * (1 + RoundingShift(training, job));
  if (job.shape.experts > 0 && Number(args, "--moe-aux-loss-coeff", 0) > 0) {
    // The auxiliary loss is a mean over micro-batches: fewer rows a micro-batch balance worse.
    balance_ = training.balance_loss *
               (1 + 0.02 / static_cast<double>(std::max<std::int64_t>(job.batch.mbs, 1)));
  }
  if (job.shape.mtp_layers > 0) mtp_ = 1.15;
  grad_ = training.grad_norm;
  for (const Defect* d : defects) {
    loss_factor_ *= 1 + d->step0_loss;
    drift_ += d->loss_drift;
    balance_ *= d->balance_factor;
    grad_ *= d->grad_factor;
  }
  lr_ = Number(args, "--lr", 0);
  min_lr_ = Number(args, "--min-lr", 0);
  const double all = Number(args, "--train-iters", 1e6);
  decay_ = Number(args, "--lr-decay-iters", all);
  warmup_ = Number(args, "--lr-warmup-iters", Number(args, "--lr-warmup-fraction", 0) * decay_);
  decay_style_ = args.Value("--lr-decay-style").value_or("linear");
}

double Learning::Rate(std::int64_t iteration) const {
  const auto n = static_cast<double>(iteration);
  if (warmup_ > 0 && n <= warmup_) return lr_ * n / warmup_;
  if (decay_style_ == "constant" || decay_ <= warmup_) return lr_;
  if (n > decay_) return min_lr_;
  const double done = (n - warmup_) / (decay_ - warmup_);
  const double left = decay_style_ == "cosine" ? 0.5 * (std::cos(kPi * done) + 1) : 1 - done;
  return min_lr_ + left * (lr_ - min_lr_);
}

Learned Learning::At(std::int64_t iteration) const {
  const Training& t = *training_;
  const auto n = static_cast<double>(iteration - 1);
  const auto since = static_cast<double>(iteration - 1 - start_);
  const auto key = static_cast<std::uint64_t>(iteration);
  const double data = NormalOf(Mix(data_, key));
  Learned out;
  out.loss = t.last_loss + (t.first_loss - t.last_loss) * std::exp(-n / t.steps);
  out.loss *= 1 + t.data_sigma * data;
  // Two runs of one job part slowly: atomics and reductions in another order.
  out.loss *= 1 + t.replica_sigma * (1 + 0.3 * since) * NormalOf(Mix(run_, key));
  out.loss *= loss_factor_ * (1 + drift_ * since);
  const double replica = NormalOf(Mix(run_ + 1, key));
  if (balance_ > 0) {
    out.balance = balance_ * (1 + 0.003 * NormalOf(Mix(data_ + 1, key)) + 3e-5 * replica);
  }
  if (mtp_ > 0) out.mtp = mtp_ * out.loss;
  out.grad_norm = grad_ * (1 + 0.04 * NormalOf(Mix(data_ + 2, key)) + 2e-4 * replica);
  out.learning_rate = Rate(iteration);
  return out;
}

std::span<const Defect> PublishedDefects() {
  static const std::vector<Defect> defects = [] {
    std::vector<Defect> out;
    const auto add = [&](std::string id, std::initializer_list<std::string_view> when, Defect d) {
      d.id = std::move(id);
      for (const std::string_view text : when) {
        const Result<Condition> c = ParseCondition(text);
        ATTUNE_CHECK(c.has_value(), "a condition of our own table");
        d.when.push_back(*c);
      }
      out.push_back(std::move(d));
    };
    Defect d;
    d.step0_loss = 0.0002;
    d.grad_factor = 0.9;
    add("sharded-experts-alone", {"experts>=1", "ep=1", "etp>=4"}, d);
    d = {};
    d.balance_factor = 0.5;
    add("deep-pipeline-balance", {"experts>=1", "pp>=32"}, d);
    d = {};
    d.step0_loss = 3.4;
    add("uneven-hybrid", {"hybrid=1", "uneven=1"}, d);
    return out;
  }();
  return defects;
}

}  // namespace attune::sim
