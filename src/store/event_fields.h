// Every stored structure, field by field: one list serves writing, reading and the round-trip test.
// A structured binding over all members comes first, so a member added to a fact and forgotten here
// does not compile. Names are stored and never change; units are in the name.
//
// Care of a field: kExact text must be UTF-8 and numbers finite; kText is free text, bad bytes are
// replaced; kLoose is what a job may have printed, so NaN and infinities are kept, and text is
// free.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "attune/model/event.h"

namespace attune::store_fields {

// kAdded: a field that events of earlier versions lack; it keeps its default then.
enum class Care { kExact, kText, kLoose, kAdded };
using enum Care;

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// Last enumerator of each stored enum: words are looked up by trying Word() of each.
template <class E>
inline constexpr E kLast = E{};
template <>
inline constexpr Phase kLast<Phase> = Phase::kAborted;
template <>
inline constexpr ChargeSource kLast<ChargeSource> = ChargeSource::kNeverStarted;
template <>
inline constexpr StopWhy kLast<StopWhy> = StopWhy::kLimit;
template <>
inline constexpr RunEnd kLast<RunEnd> = RunEnd::kLost;
template <>
inline constexpr Standing kLast<Standing> = Standing::kEnvironment;
template <>
inline constexpr Purpose kLast<Purpose> = Purpose::kComponentTest;
template <>
inline constexpr Form kLast<Form> = Form::kUser;
template <>
inline constexpr Edit::Op kLast<Edit::Op> = Edit::Op::kUnsetEnv;
template <>
inline constexpr Severity kLast<Severity> = Severity::kNote;
template <>
inline constexpr Validity kLast<Validity> = Validity::kInvalid;

inline std::string_view Word(Form f) { return f == Form::kMeasured ? "measured" : "user"; }

// ----- parts of facts

template <class V, Is<Argument> T>
void Fields(V& v, T& x) {
  auto& [flag, values] = x;
  v("flag", flag);
  v("values", values);
}
template <class V, Is<Effective> T>
void Fields(V& v, T& x) {
  auto& [args, env] = x;
  v("args", args);
  v("env", env);
}
template <class V, Is<Edit> T>
void Fields(V& v, T& x) {
  auto& [op, name, values] = x;
  v("op", op);
  v("name", name);
  v("values", values);
}
template <class V, Is<Change> T>
void Fields(V& v, T& x) {
  auto& [lever, edits, enablers] = x;
  v("lever", lever);
  v("edits", edits);
  v("enablers", enablers);
}
template <class V, Is<Proposal> T>
void Fields(V& v, T& x) {
  auto& [change, label, hypothesis, bottleneck, evidence, gain, peak, fits, stop_if] = x;
  v("change", change);
  v("label", label);
  v("hypothesis", hypothesis, kText);
  v("bottleneck", bottleneck, kText);
  v("evidence", evidence);
  v("expected_gain", gain);
  v("expected_peak_gb", peak);
  v("fits_because", fits, kText);
  v("stop_if", stop_if, kText);
}
template <class V, Is<StopWish> T>
void Fields(V& v, T& x) {
  auto& [reason, per_class] = x;
  v("reason", reason, kText);
  v("per_class", per_class, kText);
}
template <class V, Is<Finding> T>
void Fields(V& v, T& x) {
  auto& [severity, rule, key, was, now, why] = x;
  v("severity", severity);
  v("rule", rule);
  v("key", key, kText);
  v("was", was, kText);
  v("now", now, kText);
  v("why", why, kText);
}
template <class V, Is<GateVerdict> T>
void Fields(V& v, T& x) {
  auto& [admitted, findings] = x;
  v("admitted", admitted);
  v("findings", findings);
}
template <class V, Is<Step> T>
void Fields(V& v, T& x) {
  auto& [iteration, printed_ms, arrival_ms, losses, grad_norm, learning_rate, global_batch,
         consumed_samples, tokens, skipped, nan, cut] = x;
  v("iteration", iteration);
  v("printed_ms", printed_ms, kLoose);
  v("arrival_ms", arrival_ms);
  v("losses", losses, kLoose);
  v("grad_norm", grad_norm, kLoose);
  v("learning_rate", learning_rate, kLoose);
  v("global_batch", global_batch);
  v("consumed_samples", consumed_samples);
  v("tokens", tokens, kLoose);
  v("skipped", skipped);
  v("nan", nan);
  v("cut", cut);
}
template <class V, Is<MemorySeen> T>
void Fields(V& v, T& x) {
  auto& [max_allocated, max_reserved] = x;
  v("max_allocated_bytes", max_allocated);
  v("max_reserved_bytes", max_reserved);
}
template <class V, Is<RunPlan> T>
void Fields(V& v, T& x) {
  auto& [id, label, of, proposal, form, user, executed, argv, start_iteration, steps_wanted,
         profile_first, profile_last] = x;
  v("run", id);
  v("label", label);
  v("of", of);
  v("proposal", proposal);
  v("form", form);
  v("user", user);
  v("executed", executed);
  v("argv", argv);
  v("start_iteration", start_iteration);
  v("steps_wanted", steps_wanted);
  v("profile_first", profile_first, kAdded);
  v("profile_last", profile_last, kAdded);
}
template <class V, Is<LaunchHandle> T>
void Fields(V& v, T& x) {
  auto& [token, id, folder, allocation] = x;
  v("token", token);
  v("id", id);
  v("folder", folder);
  v("allocation", allocation, kAdded);
}
template <class V, Is<EndDetail> T>
void Fields(V& v, T& x) {
  auto& [end, exit_code, signal, failure_class, cause, evidence, evidence_at] = x;
  v("end", end);
  v("exit_code", exit_code);
  v("signal", signal);
  v("failure_class", failure_class);
  v("cause", cause, kText);
  v("evidence", evidence, kText);
  v("evidence_at", evidence_at, kText);
}
template <class V, Is<Measurement> T>
void Fields(V& v, T& x) {
  auto& [first, last, steps, short_window, seconds, score, median, p95, mad, cv, half_drift, drift,
         lag1, mean_over_median, same_steps_ratio, mfu, clock_ratio, memory, step0_loss,
         cut_steps] = x;
  v("first_iteration", first);
  v("last_iteration", last);
  v("steps", steps);
  v("short_window", short_window);
  v("seconds", seconds, kLoose);
  v("tokens_per_s_per_slot", score, kLoose);
  v("median_step_ms", median, kLoose);
  v("p95_step_ms", p95, kLoose);
  v("mad_step_ms", mad, kLoose);
  v("cv", cv, kLoose);
  v("half_drift", half_drift, kLoose);
  v("drift", drift, kLoose);
  v("lag1", lag1, kLoose);
  v("mean_over_median", mean_over_median, kLoose);
  v("same_steps_ratio", same_steps_ratio, kLoose);
  v("mfu", mfu, kLoose);
  v("clock_ratio", clock_ratio, kLoose);
  v("memory", memory);
  v("step0_loss", step0_loss, kLoose);
  v("cut_steps", cut_steps);
}
template <class V, Is<Calibration::Reference> T>
void Fields(V& v, T& x) {
  auto& [mean, sd, n, e_sd] = x;
  v("mean", mean, kLoose);
  v("sd", sd, kLoose);
  v("n", n);
  v("e_sd", e_sd, kLoose);
}
template <class V, Is<Calibration::StepReference> T>
void Fields(V& v, T& x) {
  auto& [step_ms, tokens, learning_rate, global_batch, consumed_samples] = x;
  v("step_ms", step_ms, kLoose);
  v("tokens", tokens, kLoose);
  v("learning_rate", learning_rate, kLoose);
  v("global_batch", global_batch);
  v("consumed_samples", consumed_samples);
}
template <class V, Is<Calibration> T>
void Fields(V& v, T& x) {
  auto& [runs, mean, sigma, band, quick, how, distinct_nodes, startup, step_ms, step_sd, step_lag1,
         window_steps, launch_cost, short_window_bias, losses, block, varying_keys, memory,
         own_mean_over_median, own_cv, own_half_drift, own_drift, steps, allocations, within_runs,
         within_sigma, within_band, pooled_freedom] = x;
  v("runs", runs);
  v("mean", mean);
  v("sigma", sigma);
  v("band", band);
  v("quick", quick);
  v("how", how, kText);
  v("distinct_nodes", distinct_nodes);
  v("startup_ms", startup);
  v("step_ms", step_ms);
  v("step_sd", step_sd);
  v("step_lag1", step_lag1);
  v("window_steps", window_steps);
  v("launch_cost_gpu_ms", launch_cost);
  v("short_window_bias", short_window_bias);
  v("losses", losses, kLoose);
  v("argument_block", block, kText);
  v("varying_keys", varying_keys, kText);
  v("memory", memory);
  v("own_mean_over_median", own_mean_over_median, kLoose);
  v("own_cv", own_cv, kLoose);
  v("own_half_drift", own_half_drift, kLoose);
  v("own_drift", own_drift, kLoose);
  v("steps", steps);
  v("allocations", allocations, kAdded);
  v("within_runs", within_runs, kAdded);
  v("within_sigma", within_sigma, kAdded);
  v("within_band", within_band, kAdded);
  v("pooled_freedom", pooled_freedom, kAdded);
}
template <class V, Is<Bottleneck> T>
void Fields(V& v, T& x) {
  auto& [cls, share, metric, threshold, named, evidence] = x;
  v("class", cls);
  v("share", share, kLoose);
  v("metric", metric, kLoose);
  v("threshold", threshold, kLoose);
  v("named", named);
  v("evidence", evidence, kText);
}
template <class V, Is<TimeSplit> T>
void Fields(V& v, T& x) {
  auto& [rank, steps, span, compute, memory, exposed, host_wait, other_idle, host_operators] = x;
  v("rank", rank);
  v("steps", steps);
  v("span_ns", span);
  v("compute_ns", compute);
  v("memory_ns", memory);
  v("exposed_ns", exposed);
  v("host_wait_ns", host_wait);
  v("other_idle_ns", other_idle);
  v("host_operators_ns", host_operators);
}
template <class V, Is<Diagnosis> T>
void Fields(V& v, T& x) {
  auto& [source, bottlenecks, summary, times, traces, notes] = x;
  v("source", source);
  v("bottlenecks", bottlenecks);
  v("summary", summary, kText);
  v("times", times, kAdded);
  v("traces", traces, kAdded);
  v("notes", notes, kAdded);
}
template <class V, Is<attune::Policy> T>
void Fields(V& v, T& x) {
  auto& [proposer, name, prefilter, script, seed, final_blocks, rules, catalog, lessons, diagnosis,
         inspections, space, agents, models, replay, skill] = x;
  v("proposer", proposer);
  v("name", name);
  v("prefilter", prefilter);
  v("script", script);
  v("seed", seed);
  v("final_blocks", final_blocks);
  v("rules", rules, kAdded);
  v("catalog", catalog, kAdded);
  v("lessons", lessons, kAdded);
  v("diagnosis", diagnosis, kAdded);
  v("inspections", inspections, kAdded);
  v("space", space, kAdded);
  v("agents", agents, kAdded);
  v("models", models, kAdded);
  v("replay", replay, kAdded);
  v("skill", skill, kAdded);
}

template <class V, Is<EarlierCalibration> T>
void Fields(V& v, T& x) {
  auto& [campaign, at, calibration, scores] = x;
  v("campaign", campaign);
  v("at_ms", at.ms);
  v("calibration", calibration);
  v("scores", scores);
}

// ----- facts, in the order of the variant

template <class V, Is<Opened> T>
void Fields(V& v, T& x) {
  auto& [id, recipe_json, recipe_path, recipe_hash, stack_fingerprint, skill_version,
         attune_version, run_root, policy, budget, run_limit, start_iteration, checkpoint,
         checkpoint_files, release_margin, limit_step, world, world_hash, earlier] = x;
  v("campaign", id);
  v("recipe", recipe_json);
  v("recipe_path", recipe_path);
  v("recipe_hash", recipe_hash);
  v("stack_fingerprint", stack_fingerprint);
  v("skill_version", skill_version);
  v("attune_version", attune_version);
  v("run_root", run_root);
  v("policy", policy);
  v("budget_gpu_ms", budget);
  v("run_limit_ms", run_limit);
  v("start_iteration", start_iteration);
  v("checkpoint", checkpoint);
  v("checkpoint_files", checkpoint_files);
  v("release_margin_ms", release_margin);
  v("limit_step_ms", limit_step);
  v("world", world, kAdded);
  v("world_hash", world_hash, kAdded);
  v("earlier_calibration", earlier, kAdded);
}
template <class V, Is<Resumed> T>
void Fields(V& v, T& x) {
  auto& [by] = x;
  v("by", by, kText);
}
template <class V, Is<BudgetSet> T>
void Fields(V& v, T& x) {
  auto& [budget, why] = x;
  v("budget_gpu_ms", budget);
  v("why", why, kText);
}
template <class V, Is<PhaseSet> T>
void Fields(V& v, T& x) {
  auto& [phase, reason, stop] = x;
  v("phase", phase);
  v("reason", reason, kText);
  v("stop", stop);
}
template <class V, Is<Calibrated> T>
void Fields(V& v, T& x) {
  auto& [calibration, reused] = x;
  v("calibration", calibration);
  v("reused", reused, kAdded);
}
template <class V, Is<Proposed> T>
void Fields(V& v, T& x) {
  auto& [id, proposal, source, llm_call, candidate, hash, verdict] = x;
  v("proposal", id);
  v("what", proposal);
  v("source", source);
  v("llm_call", llm_call);
  v("candidate", candidate);
  v("hash", hash);
  v("verdict", verdict);
}
template <class V, Is<TurnedBack> T>
void Fields(V& v, T& x) {
  auto& [id, proposal, source, llm_call, reason, verdict, detail] = x;
  v("proposal", id);
  v("what", proposal);
  v("source", source);
  v("llm_call", llm_call);
  v("reason", reason);
  v("verdict", verdict);
  v("detail", detail, kText);
}
template <class V, Is<AskIntended> T>
void Fields(V& v, T& x) {
  auto& [call, body_hash, model, profile, role, bound, repeats] = x;
  v("call", call);
  v("body_hash", body_hash);
  v("model", model);
  v("profile", profile);
  v("role", role);
  v("bound_usd_micros", bound);
  v("repeats", repeats);
}
template <class V, Is<Answered> T>
void Fields(V& v, T& x) {
  auto& [call, outcome, model, tool, arguments, error, shown, in_tokens, out_tokens, cached_tokens,
         cache_written_tokens, reasoning_tokens, usd_micros, tries, status, latency, request_id] =
      x;
  v("call", call);
  v("outcome", outcome);
  v("model", model, kText);
  v("tool", tool, kText);
  v("arguments", arguments, kText);
  v("error", error, kText);
  v("shown", shown, kText);
  v("in_tokens", in_tokens);
  v("out_tokens", out_tokens);
  v("cached_tokens", cached_tokens);
  v("cache_written_tokens", cache_written_tokens);
  v("reasoning_tokens", reasoning_tokens);
  v("usd_micros", usd_micros);
  v("tries", tries);
  v("status", status);
  v("latency_ms", latency);
  v("request_id", request_id, kText);
}
template <class V, Is<LlmBudgetSet> T>
void Fields(V& v, T& x) {
  auto& [usd_micros, why] = x;
  v("usd_micros", usd_micros);
  v("why", why, kText);
}
template <class V, Is<StopWished> T>
void Fields(V& v, T& x) {
  auto& [wish, source] = x;
  v("wish", wish);
  v("source", source);
}
template <class V, Is<LaunchIntended> T>
void Fields(V& v, T& x) {
  auto& [id, token, purpose, slots, hold, limit, runs, exclude, attempt] = x;
  v("launch", id);
  v("token", token);
  v("purpose", purpose);
  v("slots", slots);
  v("hold_gpu_ms", hold);
  v("limit_ms", limit);
  v("runs", runs);
  v("exclude", exclude);
  v("attempt", attempt);
}
template <class V, Is<LaunchBound> T>
void Fields(V& v, T& x) {
  auto& [id, handle] = x;
  v("launch", id);
  v("handle", handle);
}
template <class V, Is<LaunchEnded> T>
void Fields(V& v, T& x) {
  auto& [id, reached, charged, overrun, source, nodes, detail, failed_nodes, idle] = x;
  v("launch", id);
  v("reached", reached);
  v("charged_gpu_ms", charged);
  v("overrun_gpu_ms", overrun);
  v("source", source);
  v("nodes", nodes, kText);
  v("detail", detail, kText);
  v("failed_nodes", failed_nodes, kAdded);
  v("idle_gpu_ms", idle, kAdded);
}
template <class V, Is<RunStarted> T>
void Fields(V& v, T& x) {
  auto& [id, node, folder] = x;
  v("run", id);
  v("node", node, kText);
  v("folder", folder);
}
template <class V, Is<StepsSeen> T>
void Fields(V& v, T& x) {
  auto& [id, steps] = x;
  v("run", id);
  v("steps", steps);
}
template <class V, Is<DumpSeen> T>
void Fields(V& v, T& x) {
  auto& [id, block] = x;
  v("run", id);
  v("block", block, kText);
}
template <class V, Is<MemoryNoted> T>
void Fields(V& v, T& x) {
  auto& [id, memory] = x;
  v("run", id);
  v("memory", memory);
}
template <class V, Is<StopAsked> T>
void Fields(V& v, T& x) {
  auto& [id, why, findings, detail] = x;
  v("run", id);
  v("why", why);
  v("findings", findings);
  v("detail", detail, kText);
}
template <class V, Is<StopSent> T>
void Fields(V& v, T& x) {
  auto& [id] = x;
  v("run", id);
}
template <class V, Is<RunEnded> T>
void Fields(V& v, T& x) {
  auto& [id, detail, held, startup] = x;
  v("run", id);
  v("detail", detail);
  v("held_ms", held);
  v("startup_ms", startup);
}
template <class V, Is<Judged> T>
void Fields(V& v, T& x) {
  auto& [id, validity, standing, measurement, gain, findings, reason, leads] = x;
  v("run", id);
  v("validity", validity);
  v("standing", standing);
  v("measurement", measurement);
  v("gain", gain);
  v("findings", findings);
  v("reason", reason, kText);
  v("leads", leads);
}
template <class V, Is<Diagnosed> T>
void Fields(V& v, T& x) {
  auto& [id, diagnosis] = x;
  v("run", id);
  v("diagnosis", diagnosis);
}
template <class V, Is<FinalResult> T>
void Fields(V& v, T& x) {
  auto& [leader, passed, baseline, winner, gain, ratios, p, p_floor, rehearsed, strength, findings,
         reason] = x;
  v("leader", leader);
  v("passed", passed);
  v("baseline_mean", baseline);
  v("winner_mean", winner);
  v("gain", gain);
  v("block_ratios", ratios);
  v("p", p);
  v("p_floor", p_floor);
  v("rehearsed", rehearsed);
  v("strength", strength);
  v("findings", findings);
  v("reason", reason, kText);
}
template <class V, Is<ShipIntended> T>
void Fields(V& v, T& x) {
  auto& [verdict, winner, bundle] = x;
  v("verdict", verdict);
  v("winner", winner);
  v("bundle", bundle);
}
template <class V, Is<Shipped> T>
void Fields(V& v, T& x) {
  auto& [bundle, recipe_path, gain] = x;
  v("bundle", bundle);
  v("recipe_path", recipe_path);
  v("gain", gain);
}
template <class V, Is<NoticeIntended> T>
void Fields(V& v, T& x) {
  auto& [what] = x;
  v("what", what, kText);
}
template <class V, Is<Noticed> T>
void Fields(V& v, T& x) {
  auto& [what] = x;
  v("what", what, kText);
}
template <class V, Is<UserAsked> T>
void Fields(V& v, T& x) {
  auto& [what] = x;
  v("what", what);
}
template <class V, Is<Paused> T>
void Fields(V& v, T& x) {
  auto& [why, exit_code] = x;
  v("why", why, kText);
  v("exit_code", exit_code);
}
template <class V, Is<LaunchUncertain> T>
void Fields(V& v, T& x) {
  auto& [id, why] = x;
  v("launch", id);
  v("why", why, kText);
}
template <class V, Is<LaunchAbsent> T>
void Fields(V& v, T& x) {
  auto& [id] = x;
  v("launch", id);
}
template <class V, Is<FailureNoted> T>
void Fields(V& v, T& x) {
  auto& [id, cls, line, detail, line_number, fatal] = x;
  v("run", id);
  v("class", cls);
  v("line", line, kText);
  v("detail", detail, kText);
  v("line_number", line_number);
  v("fatal", fatal);
}

}  // namespace attune::store_fields
