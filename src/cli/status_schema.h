// The JSON Schema of `status --json`; a test holds the command's output to it.
#pragma once

#include <string_view>

namespace attune::cli {

inline constexpr std::string_view kStatusSchema = R"schema({
 "$schema": "https://json-schema.org/draft/2020-12/schema",
 "$id": "attune/status/1",
 "title": "attune status --json",
 "type": "object",
 "properties": {
  "schema": {"const": "attune.status/1"},
  "campaign": {"type": "string"},
  "state": {"enum": ["opened", "running", "paused", "stopped", "interrupted", "shipped", "no_gain", "aborted"],
   "description": "derived from the phase, the writer's lease and open launches"},
  "phase": {"enum": ["calibrating", "searching", "finalizing", "shipped", "no_gain", "aborted"]},
  "recipe_fingerprint": {"type": "string"},
  "score_unit": {"const": "tok/s/GPU"},
  "baseline": {"description": "null before it is calibrated", "anyOf": [{"type": "null"}, {
   "type": "object",
   "properties": {
    "mean": {"type": "number"},
    "sigma_pct": {"type": ["number", "null"]},
    "n": {"type": "integer", "description": "calibration runs"}
   },
   "required": ["mean", "sigma_pct", "n"]}]},
  "band_pct": {"type": ["number", "null"]},
  "leader": {"description": "null while the recipe as given leads; its gain is the search's", "anyOf": [{"type": "null"}, {
   "type": "object",
   "properties": {
    "run": {"type": "string"},
    "score": {"type": ["number", "null"]},
    "gain_pct": {"type": ["number", "null"]}
   },
   "required": ["run", "score", "gain_pct"]}]},
  "final": {"description": "null before the final stage", "anyOf": [{"type": "null"}, {
   "type": "object",
   "properties": {
    "gain_pct": {"type": "number"},
    "baseline": {"type": "number"},
    "winner": {"type": "number"},
    "blocks": {"type": "integer"},
    "verified": {"type": "boolean"}
   },
   "required": ["gain_pct", "baseline", "winner", "blocks", "verified"]}]},
  "gpu_hours": {"type": "object",
   "description": "used = calibration + search + final + idle + overrun; failed is part of search; reserved is null in a campaign of very many events",
   "properties": {
    "used": {"type": "number"},
    "budget": {"type": ["number", "null"]},
    "held": {"type": "number"},
    "reserved": {"type": ["number", "null"]},
    "calibration": {"type": "number"},
    "search": {"type": "number"},
    "final": {"type": "number"},
    "failed": {"type": "number"},
    "idle": {"type": "number"},
    "overrun": {"type": "number"}
   },
   "required": ["used", "budget", "held", "reserved", "calibration", "search", "final", "failed", "idle", "overrun"]},
  "llm": {"description": "null where no model is asked, and in a campaign of very many events", "anyOf": [{"type": "null"}, {
   "type": "object",
   "properties": {
    "usd": {"type": "number"},
    "budget_usd": {"type": ["number", "null"]},
    "input_tokens": {"type": "integer"},
    "output_tokens": {"type": "integer"}
   },
   "required": ["usd", "budget_usd", "input_tokens", "output_tokens"]}]},
  "counts": {"type": "object",
   "description": "launches of the search, and proposals that launched nothing",
   "properties": {
    "launched": {"type": "integer"},
    "win": {"type": "integer"},
    "tie": {"type": "integer"},
    "loss": {"type": "integer"},
    "failed": {"type": "integer"},
    "stopped_early": {"type": "integer"},
    "rejected": {"type": "integer"},
    "refused": {"type": "integer"},
    "turned_back": {"type": "integer"},
    "duplicate": {"type": "integer"}
   },
   "required": ["launched", "win", "tie", "loss", "failed", "stopped_early", "rejected", "refused", "turned_back", "duplicate"]},
  "current": {"type": ["string", "null"], "description": "the run that is going on"},
  "stop_reason": {"type": ["string", "null"]},
  "updated": {"type": "string", "format": "date-time"}
 },
 "required": ["schema", "campaign", "state", "phase", "recipe_fingerprint", "score_unit", "baseline", "band_pct", "leader", "final", "gpu_hours", "llm", "counts", "current", "stop_reason", "updated"]
}
)schema";

}  // namespace attune::cli
