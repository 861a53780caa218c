// A recipe written out again, as the file that would give it: `check --print`.
#include <fmt/core.h>

#include <map>
#include <set>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"
#include "file_text.h"
#include "yaml_emit.h"

namespace attune {
namespace {

// A map under construction; what is empty or a default is left out.
class MapBuilder {
 public:
  MapBuilder() { node_.kind = Node::Kind::kMap; }

  void Text(std::string key, const std::string& value) {
    if (!value.empty()) {
      Put(std::move(key), Scalar(value));
    }
  }
  void Plain(std::string key, const std::string& value) {
    Node node = Scalar(value);
    node.plain = true;
    Put(std::move(key), std::move(node));
  }
  template <class Value>
  void Number(std::string key, Value value, Value unless) {
    if (value != unless) {
      Plain(std::move(key), fmt::format("{}", value));
    }
  }
  template <class Value>
  void Number(std::string key, const std::optional<Value>& value) {
    if (value) {
      Plain(std::move(key), fmt::format("{}", *value));
    }
  }
  void Flag(std::string key, bool value) {
    if (value) {
      Plain(std::move(key), "true");
    }
  }
  void Duration(std::string key, const std::optional<Millis>& value) {
    if (value) {
      Text(std::move(key), ShowDuration(*value));
    }
  }
  void Texts(std::string key, const std::vector<std::string>& values) {
    if (!values.empty()) {
      Put(std::move(key), List(values));
    }
  }
  void Texts(std::string key, const std::map<std::string, std::string>& values) {
    MapBuilder inner;
    for (const auto& [name, value] : values) {
      inner.Put(name, Scalar(value));
    }
    Sub(std::move(key), std::move(inner));
  }
  void Sub(std::string key, MapBuilder inner) {
    if (!inner.node_.entries.empty()) {
      Put(std::move(key), std::move(inner.node_));
    }
  }
  void Put(std::string key, Node value) {
    node_.entries.push_back({std::move(key), {}, std::move(value)});
  }

  static Node Scalar(const std::string& text) {
    Node node = MakeText(text, {});
    node.plain = ParseDouble(text).has_value();  // read as text all the same
    return node;
  }
  static Node List(const std::vector<std::string>& values) {
    Node list;
    list.kind = Node::Kind::kList;
    for (const std::string& value : values) {
      list.items.push_back(Scalar(value));
    }
    return list;
  }
  Node Take() { return std::move(node_); }

 private:
  Node node_;
};

Node ArgumentTree(const Arguments& args) {
  std::set<std::string> flags;
  bool as_map = true;
  for (const Argument& argument : args.items()) {
    as_map = as_map && !argument.flag.empty() && flags.insert(argument.flag).second;
  }
  if (!as_map) {
    return MapBuilder::List(args.Render());
  }
  MapBuilder map;
  for (const Argument& argument : args.items()) {
    const std::string key =
        argument.flag.starts_with("--") ? argument.flag.substr(2) : argument.flag;
    if (argument.values.empty()) {
      map.Plain(key, "true");
    } else if (argument.values.size() == 1) {
      map.Put(key, MapBuilder::Scalar(argument.values.front()));
    } else {
      map.Put(key, MapBuilder::List(argument.values));
    }
  }
  return map.Take();
}

Node ConditionList(const std::vector<LeverCondition>& conditions) {
  Node list;
  list.kind = Node::Kind::kList;
  for (const LeverCondition& condition : conditions) {
    MapBuilder map;
    map.Text("flag", condition.flag);
    map.Text("env", condition.env);
    map.Text("is", condition.is);
    list.items.push_back(map.Take());
  }
  return list;
}

Node DeclareList(const Recipe& recipe) {
  Node list;
  list.kind = Node::Kind::kList;
  for (const DeclaredLever& lever : recipe.declared) {
    MapBuilder map;
    map.Text("lever", lever.id);
    map.Text("flag", lever.flag);
    map.Text("env", lever.env);
    map.Texts("values", lever.values);
    map.Text("class", std::string(Word(lever.cls)));
    if (!lever.excludes.empty()) {
      map.Put("excludes", ConditionList(lever.excludes));
    }
    if (!lever.needs.empty()) {
      map.Put("needs", ConditionList(lever.needs));
    }
    map.Texts("derives", lever.derives);
    map.Text("why", lever.why);
    list.items.push_back(map.Take());
  }
  return list;
}

MapBuilder WorkloadTree(const Workload& w) {
  MapBuilder map;
  map.Text("model", w.model);
  map.Number("gpus", w.gpus, 0);
  map.Number("gpus_per_node", w.gpus_per_node, 0);
  map.Text("gpu", w.gpu);
  map.Number("seq_length", w.seq_length);
  map.Number("global_batch", w.global_batch);
  map.Text("precision", w.precision);
  map.Text("order", w.order);
  map.Text("loss_mask", w.loss_mask);
  map.Flag("variable_rows", w.variable_rows);
  map.Text("shape", w.shape_row);
  map.Texts("shape", w.shape);
  map.Texts("caches", w.caches);
  map.Texts("reads", w.reads);
  return map;
}

MapBuilder MeasureTree(const MeasureSpec& m) {
  const MeasureSpec unless;
  MapBuilder map;
  map.Number("warmup_steps", m.warmup_steps, unless.warmup_steps);
  map.Number("steps", m.steps);
  map.Number("min_seconds", static_cast<double>(m.min_seconds.count()) / 1000.0,
             static_cast<double>(unless.min_seconds.count()) / 1000.0);
  map.Number("calibration_runs", m.calibration_runs, unless.calibration_runs);
  map.Number("cv_max", m.cv_max, unless.cv_max);
  map.Number("half_drift_max", m.half_drift_max, unless.half_drift_max);
  MapBuilder band;
  band.Number("floor_pct", m.band_floor * 100.0, unless.band_floor * 100.0);
  band.Number("sigma", m.sigma_factor, unless.sigma_factor);
  map.Sub("band", std::move(band));
  MapBuilder instrument;
  instrument.Texts("set", m.instrument_set);
  instrument.Texts("remove", m.instrument_remove);
  map.Sub("instrument", std::move(instrument));
  map.Text("start_from", m.start_from);
  return map;
}

MapBuilder GateTree(const GateSpec& g) {
  const GateSpec unless;
  MapBuilder map;
  map.Number("memory_headroom", g.memory_headroom, 0.0);
  map.Number("step0_loss_pct", g.step0_loss * 100.0, unless.step0_loss * 100.0);
  map.Number("long_steps", g.long_steps);
  Node tests;
  tests.kind = Node::Kind::kList;
  for (const ComponentTest& test : g.component_tests) {
    MapBuilder item;
    item.Text("lever", test.lever);
    item.Text("value", test.value);
    item.Texts("command", test.command);
    item.Number("gpus", test.gpus, 1);
    item.Duration("time", test.time);
    tests.items.push_back(item.Take());
  }
  if (!tests.items.empty()) {
    map.Put("component_tests", std::move(tests));
  }
  Node accept;
  accept.kind = Node::Kind::kList;
  for (const AcceptedLever& lever : g.accept) {
    MapBuilder item;
    item.Text("lever", lever.lever);
    item.Text("why", lever.why);
    accept.items.push_back(item.Take());
  }
  if (!accept.items.empty()) {
    map.Put("accept", std::move(accept));
  }
  return map;
}

MapBuilder ProfileTree(const ProfileSpec& p) {
  const ProfileSpec unless;
  MapBuilder map;
  if (p.ranks != unless.ranks) {
    std::vector<std::string> ranks;
    for (const int rank : p.ranks) {
      ranks.push_back(fmt::format("{}", rank));
    }
    map.Put("ranks", MapBuilder::List(ranks));
  }
  map.Number("steps", p.steps, unless.steps);
  map.Number("max_mb", p.max_bytes / 1'000'000, unless.max_bytes / 1'000'000);
  map.Flag("off", p.off);
  map.Texts("set", p.set);
  return map;
}

MapBuilder LauncherTree(const Recipe& recipe) {
  const LauncherSpec& l = recipe.launcher;
  MapBuilder map;
  map.Text("kind", l.kind);
  map.Texts("sbatch", l.sbatch);
  map.Text("batch_template", l.batch_template);
  MapBuilder container;
  container.Text("style", l.container.style);
  container.Text("image", l.container.image);
  container.Texts("mounts", l.container.mounts);
  map.Sub("container", std::move(container));
  map.Text("login", l.login);
  map.Texts("hosts", l.hosts);
  map.Text("run_root", l.run_root);
  map.Text("workdir", l.workdir);
  map.Texts("env", recipe.base.env);
  map.Texts("pass_env", l.pass_env);
  MapBuilder script;
  script.Text("file", l.script);
  script.Flag("trusted", l.script_trusted);
  map.Sub("script", std::move(script));
  if (!l.sbatch.contains("time")) {
    map.Duration("time", l.time);
  }
  MapBuilder limits;
  limits.Duration("startup", l.startup);
  limits.Duration("no_progress", l.no_progress);
  map.Sub("limits", std::move(limits));
  if (l.poll != LauncherSpec().poll) {
    map.Duration("poll", l.poll);
  }
  MapBuilder held;
  held.Duration("session", l.session);
  MapBuilder allocation;
  allocation.Sub("held", std::move(held));
  map.Sub("allocation", std::move(allocation));
  return map;
}

Node RecipeTree(const Recipe& r) {
  MapBuilder map;
  map.Text("schema", "attune/recipe/1");
  map.Text("name", r.name);
  map.Text("description", r.description);
  map.Texts("tags", r.tags);
  map.Text("framework", std::string(Word(r.framework)));
  map.Sub("workload", WorkloadTree(r.workload));
  map.Texts("stack", r.stack);
  MapBuilder ranks;
  ranks.Text("kind", r.ranks == RanksKind::kEnv        ? "env"
                     : r.ranks == RanksKind::kTorchrun ? "torchrun"
                     : r.ranks == RanksKind::kSrun     ? "srun"
                                                       : "");
  map.Sub("ranks", std::move(ranks));
  map.Texts("command", r.command);
  if (!r.base.args.empty()) {
    map.Put("args", ArgumentTree(r.base.args));
  }
  map.Texts("files", r.files);
  if (!r.declared.empty()) {
    map.Put("declare", DeclareList(r));
  }
  MapBuilder levers;
  levers.Texts("allow", r.allow);
  levers.Texts("deny", r.deny);
  levers.Texts("why", r.why);
  map.Sub("levers", std::move(levers));
  MapBuilder log;
  log.Text("dialect", r.log.dialect);
  log.Text("pattern", r.log.pattern);
  map.Sub("log", std::move(log));
  map.Sub("measure", MeasureTree(r.measure));
  map.Sub("gate", GateTree(r.gate));
  map.Sub("profile", ProfileTree(r.profile));
  map.Sub("launcher", LauncherTree(r));
  MapBuilder budget;
  if (r.budget.automatic) {
    budget.Text("gpu_hours", "auto");
  }
  budget.Number("gpu_hours", r.budget.gpu_hours);
  budget.Duration("run_limit", r.budget.run_limit);
  budget.Duration("wall", r.budget.wall);
  budget.Number("llm_usd", r.budget.llm_usd);
  map.Sub("budget", std::move(budget));
  MapBuilder llm;
  llm.Text("profile", r.llm.profile);
  llm.Text("model", r.llm.model);
  MapBuilder limits;
  limits.Number("usd", r.llm.usd);
  limits.Number("tokens", r.llm.tokens);
  limits.Number("calls", r.llm.calls);
  llm.Sub("limits", std::move(limits));
  llm.Number("retries", r.llm.retries, LlmSpec().retries);
  llm.Number("prompt_bytes", r.llm.prompt_bytes, LlmSpec().prompt_bytes);
  map.Sub("llm", std::move(llm));
  MapBuilder price;
  price.Number("gpu_hour_usd", r.price_gpu_hour_usd, 0.0);
  map.Sub("price", std::move(price));
  MapBuilder notify;
  notify.Texts("on", r.notify_on);
  map.Sub("notify", std::move(notify));
  return map.Take();
}

// Marks each node with the place of its origin in the list, as its line.
void MarkOrigins(Node& node, const std::string& path, const std::map<std::string, int>& places) {
  node.where.line = 0;
  if (const auto place = places.find(path); place != places.end()) {
    node.where.line = place->second + 1;
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    MarkOrigins(node.items[i], fmt::format("{}.{}", path, i), places);
  }
  for (Entry& entry : node.entries) {
    const bool argument = path == "args" && !entry.key.starts_with('-');
    const std::string key = argument ? "--" + entry.key : entry.key;
    MarkOrigins(entry.value, path.empty() ? key : fmt::format("{}.{}", path, key), places);
  }
}

}  // namespace

std::string ShowRecipe(const LoadedRecipe& loaded, bool origins) {
  Node tree = RecipeTree(loaded.recipe);
  if (!origins) {
    return EmitYaml(tree);
  }
  std::map<std::string, int> places;
  for (std::size_t i = 0; i < loaded.origins.size(); ++i) {
    places[loaded.origins[i].key] = static_cast<int>(i);
  }
  MarkOrigins(tree, "", places);
  return EmitYaml(tree, [&](const Where& where) {
    return where.line == 0 ? std::string()
                           : loaded.origins[static_cast<std::size_t>(where.line - 1)].at;
  });
}

}  // namespace attune
