// The stored form of a recipe. One list of fields serves writing and reading, so neither can forget
// what the other does.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "attune/recipe-json/1";

constexpr std::array<std::pair<RanksKind, std::string_view>, 4> kRanks = {
    {{RanksKind::kNone, "none"},
     {RanksKind::kEnv, "env"},
     {RanksKind::kTorchrun, "torchrun"},
     {RanksKind::kSrun, "srun"}}};
constexpr std::array<std::pair<Framework, std::string_view>, 2> kFrameworks = {
    {{Framework::kMegatronLm, "megatron-lm"}, {Framework::kCustom, "custom"}}};
constexpr std::array<std::pair<LeverClass, std::string_view>, 10> kClasses = {
    {{LeverClass::kPlacement, "placement"},
     {LeverClass::kMemory, "memory"},
     {LeverClass::kOverlap, "overlap"},
     {LeverClass::kBatching, "batching"},
     {LeverClass::kKernel, "kernel"},
     {LeverClass::kEnv, "env"},
     {LeverClass::kIoLogging, "io/logging"},
     {LeverClass::kUnsafe, "unsafe"},
     {LeverClass::kObjective, "objective"},
     {LeverClass::kUnknown, "unknown"}}};

template <class Enum>
const auto& WordsOf() {
  if constexpr (std::is_same_v<Enum, RanksKind>) {
    return kRanks;
  } else if constexpr (std::is_same_v<Enum, Framework>) {
    return kFrameworks;
  } else {
    return kClasses;
  }
}

template <class Io, class Value>
void Fields(Io& io, Value& value);

class Writer {
 public:
  template <class Value>
  void Field(std::string_view key, Value& value) {
    out_[std::string(key)] = Put(value);
  }
  Json Take() { return std::move(out_); }

 private:
  static Json Put(std::string& v) { return v; }
  static Json Put(int& v) { return v; }
  static Json Put(std::int64_t& v) { return v; }
  static Json Put(double& v) { return v; }
  static Json Put(bool v) { return v; }
  static Json Put(Millis& v) { return v.count(); }
  static Json Put(std::map<std::string, std::string>& v) {
    Json out = Json::object();
    for (auto& [key, value] : v) {
      out[key] = value;
    }
    return out;
  }
  template <class Value>
  static Json Put(std::optional<Value>& v) {
    return v ? Put(*v) : Json(nullptr);
  }
  template <class Value>
  static Json Put(std::vector<Value>& v) {
    Json out = Json::array();
    for (Value& item : v) {
      out.push_back(Put(item));
    }
    return out;
  }
  static Json Put(Arguments& v) {
    Json out = Json::array();
    for (const Argument& argument : v.items()) {
      Json item = Json::array({argument.flag});
      for (const std::string& text : argument.values) {
        item.push_back(text);
      }
      out.push_back(std::move(item));
    }
    return out;
  }
  template <class Value>
  static Json Put(Value& v) {
    if constexpr (std::is_enum_v<Value>) {
      for (const auto& [known, word] : WordsOf<Value>()) {
        if (known == v) {
          return std::string(word);
        }
      }
      return nullptr;
    } else {
      Writer inner;
      Fields(inner, v);
      return inner.Take();
    }
  }

  Json out_ = Json::object();
};

// Keeps the first problem; later fields are left alone.
struct ReadState {
  std::optional<Error> problem;
  bool all_present = true;

  void Bad(const std::string& where, std::string_view what, ErrorCode code = ErrorCode::kCorrupt) {
    if (!problem) {
      problem = Error{code, fmt::format("stored recipe, {}: {}", where, what), ""};
    }
  }
};

class Reader {
 public:
  Reader(const Json& in, std::string path, ReadState& state)
      : in_(in), path_(std::move(path)), state_(state) {
    if (!in.is_object()) {
      state_.Bad(path_, "not an object");
    }
  }

  template <class Value>
  void Field(std::string_view key, Value& value) {
    known_.emplace(key);
    if (state_.problem) {
      return;
    }
    const auto found = in_.find(std::string(key));
    if (found == in_.end()) {
      state_.all_present = false;
      return;
    }
    Get(*found, fmt::format("{}.{}", path_, key), value);
  }

  void RefuseUnknown() {
    if (state_.problem) {
      return;
    }
    for (const auto& [key, value] : in_.items()) {
      if (!known_.contains(key)) {
        state_.Bad(path_,
                   fmt::format("'{}' was written by a newer attune", EscapeForDisplay(key, 80)),
                   ErrorCode::kNewerFormat);
      }
    }
  }

 private:
  void Get(const Json& in, const std::string& where, std::string& out) {
    if (!in.is_string()) {
      return state_.Bad(where, "not a text");
    }
    out = in.get_ref<const std::string&>();
  }
  template <class Integer>
  void GetWhole(const Json& in, const std::string& where, Integer& out) {
    if (!in.is_number_integer() ||
        (in.is_number_unsigned() &&
         in.get<std::uint64_t>() >
             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))) {
      return state_.Bad(where, "not a whole number");
    }
    const auto value = in.get<std::int64_t>();
    if (value < std::numeric_limits<Integer>::min() ||
        value > std::numeric_limits<Integer>::max()) {
      return state_.Bad(where, "out of range");
    }
    out = static_cast<Integer>(value);
  }
  void Get(const Json& in, const std::string& where, int& out) { GetWhole(in, where, out); }
  void Get(const Json& in, const std::string& where, std::int64_t& out) {
    GetWhole(in, where, out);
  }
  void Get(const Json& in, const std::string& where, Millis& out) {
    std::int64_t count = 0;
    GetWhole(in, where, count);
    out = Millis{count};
  }
  void Get(const Json& in, const std::string& where, double& out) {
    if (!in.is_number()) {
      return state_.Bad(where, "not a number");
    }
    out = in.get<double>();
  }
  void Get(const Json& in, const std::string& where, bool& out) {
    if (!in.is_boolean()) {
      return state_.Bad(where, "not true or false");
    }
    out = in.get<bool>();
  }
  void Get(const Json& in, const std::string& where, std::map<std::string, std::string>& out) {
    if (!in.is_object()) {
      return state_.Bad(where, "not an object");
    }
    out.clear();
    for (const auto& [key, value] : in.items()) {
      Get(value, where, out[key]);
    }
  }
  template <class Value>
  void Get(const Json& in, const std::string& where, std::optional<Value>& out) {
    out.reset();
    if (!in.is_null()) {
      Get(in, where, out.emplace());
    }
  }
  template <class Value>
  void Get(const Json& in, const std::string& where, std::vector<Value>& out) {
    if (!in.is_array()) {
      return state_.Bad(where, "not a list");
    }
    out.clear();
    for (const Json& item : in) {
      Get(item, where, out.emplace_back());
    }
  }
  void Get(const Json& in, const std::string& where, Arguments& out) {
    std::vector<std::vector<std::string>> items;
    Get(in, where, items);
    std::vector<Argument> arguments;
    for (std::vector<std::string>& item : items) {
      if (item.empty()) {
        return state_.Bad(where, "an argument without a flag");
      }
      Argument argument{item.front(), {}};
      argument.values.assign(item.begin() + 1, item.end());
      arguments.push_back(std::move(argument));
    }
    out = Arguments(std::move(arguments));
  }
  template <class Value>
  void Get(const Json& in, const std::string& where, Value& out) {
    if constexpr (std::is_enum_v<Value>) {
      std::string text;
      Get(in, where, text);
      for (const auto& [known, word] : WordsOf<Value>()) {
        if (word == text) {
          out = known;
          return;
        }
      }
      state_.Bad(where, fmt::format("unknown word '{}'", EscapeForDisplay(text, 40)));
    } else {
      Reader inner(in, where, state_);
      if (!state_.problem) {
        Fields(inner, out);
        inner.RefuseUnknown();
      }
    }
  }

  const Json& in_;
  std::string path_;
  ReadState& state_;
  std::set<std::string, std::less<>> known_;
};

// ----- the fields, in the order in which they are written; only added to, never renamed

template <class Io>
void List(Io& io, Workload& w) {
  io.Field("model", w.model);
  io.Field("gpus", w.gpus);
  io.Field("gpus_per_node", w.gpus_per_node);
  io.Field("gpu", w.gpu);
  io.Field("seq_length", w.seq_length);
  io.Field("global_batch", w.global_batch);
  io.Field("precision", w.precision);
  io.Field("order", w.order);
  io.Field("loss_mask", w.loss_mask);
  io.Field("variable_rows", w.variable_rows);
  io.Field("shape_row", w.shape_row);
  io.Field("shape", w.shape);
  io.Field("caches", w.caches);
  io.Field("reads", w.reads);
}
template <class Io>
void List(Io& io, Effective& e) {
  io.Field("args", e.args);
  io.Field("env", e.env);
}
template <class Io>
void List(Io& io, LeverCondition& c) {
  io.Field("flag", c.flag);
  io.Field("env", c.env);
  io.Field("is", c.is);
}
template <class Io>
void List(Io& io, DeclaredLever& l) {
  io.Field("id", l.id);
  io.Field("flag", l.flag);
  io.Field("env", l.env);
  io.Field("values", l.values);
  io.Field("class", l.cls);
  io.Field("excludes", l.excludes);
  io.Field("needs", l.needs);
  io.Field("derives", l.derives);
  io.Field("why", l.why);
}
template <class Io>
void List(Io& io, LogSpec& l) {
  io.Field("dialect", l.dialect);
  io.Field("pattern", l.pattern);
}
template <class Io>
void List(Io& io, MeasureSpec& m) {
  io.Field("warmup_steps", m.warmup_steps);
  io.Field("steps", m.steps);
  io.Field("min_ms", m.min_seconds);
  io.Field("calibration_runs", m.calibration_runs);
  io.Field("cv_max", m.cv_max);
  io.Field("half_drift_max", m.half_drift_max);
  io.Field("band_floor", m.band_floor);
  io.Field("sigma_factor", m.sigma_factor);
  io.Field("relaxed", m.relaxed);
  io.Field("instrument_set", m.instrument_set);
  io.Field("instrument_remove", m.instrument_remove);
  io.Field("start_from", m.start_from);
}
template <class Io>
void List(Io& io, ComponentTest& t) {
  io.Field("lever", t.lever);
  io.Field("value", t.value);
  io.Field("command", t.command);
  io.Field("gpus", t.gpus);
  io.Field("time_ms", t.time);
}
template <class Io>
void List(Io& io, AcceptedLever& a) {
  io.Field("lever", a.lever);
  io.Field("why", a.why);
}
template <class Io>
void List(Io& io, GateSpec& g) {
  io.Field("memory_headroom", g.memory_headroom);
  io.Field("step0_loss", g.step0_loss);
  io.Field("long_steps", g.long_steps);
  io.Field("component_tests", g.component_tests);
  io.Field("accept", g.accept);
}
template <class Io>
void List(Io& io, ProfileSpec& p) {
  io.Field("ranks", p.ranks);
  io.Field("steps", p.steps);
  io.Field("max_bytes", p.max_bytes);
  io.Field("off", p.off);
  io.Field("set", p.set);
}
template <class Io>
void List(Io& io, ContainerSpec& c) {
  io.Field("style", c.style);
  io.Field("image", c.image);
  io.Field("mounts", c.mounts);
}
template <class Io>
void List(Io& io, LauncherSpec& l) {
  io.Field("kind", l.kind);
  io.Field("sbatch", l.sbatch);
  io.Field("batch_template", l.batch_template);
  io.Field("container", l.container);
  io.Field("login", l.login);
  io.Field("hosts", l.hosts);
  io.Field("run_root", l.run_root);
  io.Field("workdir", l.workdir);
  io.Field("env", l.env);
  io.Field("pass_env", l.pass_env);
  io.Field("script", l.script);
  io.Field("script_trusted", l.script_trusted);
  io.Field("time_ms", l.time);
  io.Field("startup_ms", l.startup);
  io.Field("no_progress_ms", l.no_progress);
  io.Field("poll_ms", l.poll);
  io.Field("session_ms", l.session);
}
template <class Io>
void List(Io& io, BudgetSpec& b) {
  io.Field("gpu_hours", b.gpu_hours);
  io.Field("auto", b.automatic);
  io.Field("run_limit_ms", b.run_limit);
  io.Field("wall_ms", b.wall);
  io.Field("llm_usd", b.llm_usd);
}
template <class Io>
void List(Io& io, LlmSpec& l) {
  io.Field("profile", l.profile);
  io.Field("model", l.model);
  io.Field("usd", l.usd);
  io.Field("tokens", l.tokens);
  io.Field("calls", l.calls);
  io.Field("retries", l.retries);
  io.Field("prompt_bytes", l.prompt_bytes);
}
template <class Io>
void List(Io& io, Recipe& r) {
  std::string format(kFormat);
  io.Field("format", format);
  io.Field("name", r.name);
  io.Field("description", r.description);
  io.Field("tags", r.tags);
  io.Field("folder", r.folder);
  io.Field("framework", r.framework);
  io.Field("workload", r.workload);
  io.Field("stack", r.stack);
  io.Field("ranks", r.ranks);
  io.Field("command", r.command);
  io.Field("base", r.base);
  io.Field("files", r.files);
  io.Field("declared", r.declared);
  io.Field("allow", r.allow);
  io.Field("deny", r.deny);
  io.Field("why", r.why);
  io.Field("log", r.log);
  io.Field("measure", r.measure);
  io.Field("gate", r.gate);
  io.Field("profile", r.profile);
  io.Field("launcher", r.launcher);
  io.Field("budget", r.budget);
  io.Field("llm", r.llm);
  io.Field("price_gpu_hour_usd", r.price_gpu_hour_usd);
  io.Field("notify_on", r.notify_on);
  io.Field("notify_command", r.notify_command);
}

template <class Io, class Value>
void Fields(Io& io, Value& value) {
  List(io, value);
}

// Values by which nothing is decided about the job: resume may take new ones over.
constexpr std::array<std::string_view, 10> kFree = {"/name",
                                                    "/description",
                                                    "/tags",
                                                    "/budget",
                                                    "/llm",
                                                    "/price_gpu_hour_usd",
                                                    "/notify_on",
                                                    "/notify_command",
                                                    "/launcher/poll_ms",
                                                    "/launcher/session_ms"};

bool IsFree(std::string_view pointer) {
  return std::any_of(kFree.begin(), kFree.end(), [&](std::string_view free) {
    return pointer.starts_with(free) &&
           (pointer.size() == free.size() || pointer[free.size()] == '/');
  });
}

Json ToJson(const Recipe& recipe) {
  Recipe copy = recipe;  // one list of fields for both directions takes a mutable recipe
  Writer writer;
  Fields(writer, copy);
  return writer.Take();
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Arguments by flag, everything else by field: what a person would call one change.
std::map<std::string, std::string> Flatten(const Recipe& recipe) {
  Json json = ToJson(recipe);
  json["base"].erase("args");
  std::map<std::string, std::string> out;
  const Json flat = json.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    out[pointer] = value.is_string() ? value.get<std::string>() : Dump(value);
  }
  for (const Argument& argument : recipe.base.args.items()) {
    std::string& text = out["/base/args/" + argument.flag];
    text += (text.empty() ? "" : " ; ") +
            (argument.values.empty() ? std::string("true") : Join(argument.values, " "));
  }
  return out;
}

}  // namespace

std::string RecipeToJson(const Recipe& recipe) { return Dump(ToJson(recipe)); }

Result<Recipe> RecipeFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return Fail(ErrorCode::kCorrupt, "stored recipe: not a JSON object");
  }
  const auto format = json.find("format");
  if (format == json.end() || !format->is_string()) {
    return Fail(ErrorCode::kCorrupt, "stored recipe: no format");
  }
  if (format->get_ref<const std::string&>() != kFormat) {
    return Fail(ErrorCode::kNewerFormat,
                fmt::format("stored recipe: format '{}' is not {}",
                            EscapeForDisplay(format->get_ref<const std::string&>(), 40), kFormat),
                "update attune");
  }
  Recipe recipe;
  ReadState state;
  Reader reader(json, "recipe", state);
  Fields(reader, recipe);
  reader.RefuseUnknown();
  if (state.problem) {
    return Fail(std::move(*state.problem));
  }
  // Catches what a JSON reader lets pass: keys twice, numbers in another form, white space.
  if (state.all_present && RecipeToJson(recipe) != text) {
    return Fail(ErrorCode::kCorrupt, "stored recipe: not in the form in which it was written");
  }
  return recipe;
}

std::string RecipeHash(const Recipe& recipe) {
  Recipe decisive = recipe;
  decisive.name.clear();
  decisive.description.clear();
  decisive.tags.clear();
  decisive.budget = {};
  decisive.llm = {};
  decisive.price_gpu_hour_usd = 0;
  decisive.notify_on.clear();
  decisive.notify_command.clear();
  decisive.launcher.poll = LauncherSpec().poll;
  decisive.launcher.session.reset();
  return Sha256Hex(RecipeToJson(decisive));
}

std::vector<RecipeChange> CompareRecipes(const Recipe& was, const Recipe& now) {
  const std::map<std::string, std::string> before = Flatten(was);
  const std::map<std::string, std::string> after = Flatten(now);
  std::set<std::string> keys;
  for (const auto& [key, value] : before) {
    keys.insert(key);
  }
  for (const auto& [key, value] : after) {
    keys.insert(key);
  }
  std::vector<RecipeChange> changes;
  for (const std::string& key : keys) {
    const auto b = before.find(key);
    const auto a = after.find(key);
    const std::string old_value = b == before.end() ? "unset" : b->second;
    const std::string new_value = a == after.end() ? "unset" : a->second;
    if (old_value == new_value) {
      continue;
    }
    std::string name = key.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    changes.push_back({std::move(name), old_value, new_value, IsFree(key)});
  }
  return changes;
}

}  // namespace attune
