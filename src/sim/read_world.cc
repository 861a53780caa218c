// World files: YAML, read strictly by the same sections as recipes.
#include "read_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "attune/base/text.h"
#include "attune/recipe_io/section.h"
#include "world_fields.h"

namespace attune::sim {
namespace {

using enum KeyKind;

constexpr std::string_view kSchemas[] = {"attune/world/1"};
constexpr std::string_view kEffects[] = {"hang", "oom", "crash", "nan", "slow", "silent"};

template <class T, std::size_t n>
constexpr auto NumberKeys(const Field<T> (&fields)[n]) {
  std::array<Key, n> keys{};
  for (std::size_t i = 0; i < n; ++i) {
    keys[i] = {.name = fields[i].name, .kind = kNumber, .doc = "a number"};
  }
  return keys;
}
template <std::size_t n, std::size_t m>
constexpr std::array<Key, n + m> And(const std::array<Key, n>& a, const std::array<Key, m>& b) {
  std::array<Key, n + m> all{};
  std::copy(a.begin(), a.end(), all.begin());
  std::copy(b.begin(), b.end(), all.begin() + n);
  return all;
}

constexpr Key kIdKey = {.name = "id", .kind = kText, .doc = "a name for it", .required = true};
constexpr Key kWhenKey = {.name = "when", .kind = kTexts, .doc = "conditions that all must hold"};

constexpr Key kStack[] = {
    {.name = "framework", .kind = kText, .doc = "a framework of the stack table"},
    {.name = "version", .kind = kText, .doc = "one of its versions"},
    {.name = "factor", .kind = kNumber, .doc = "instead of the profile's own factor"},
};
constexpr auto kMachine =
    And(NumberKeys(kMachineFields),
        std::array<Key, 1>{
            {{.name = "gpu_initiated", .kind = kBool, .doc = "NICs can be driven by the GPU"}}});
constexpr auto kResiduals =
    And(NumberKeys(kResidualFields),
        std::array<Key, 2>{{{.name = "seed", .kind = kInt, .doc = "of the factors"},
                            {.name = "pinned", .kind = kBool, .doc = "1 at the baseline"}}});
constexpr Key kInteraction[] = {
    kIdKey,
    kWhenKey,
    {.name = "term", .kind = kText, .doc = "a term of the step", .required = true},
    {.name = "factor", .kind = kNumber, .doc = "that it is multiplied by", .required = true},
};
constexpr auto kMemory = And(std::array<Key, 2>{kIdKey, kWhenKey}, NumberKeys(kMemoryFields));
constexpr auto kDefect =
    And(std::array<Key, 4>{kIdKey,
                           kWhenKey,
                           {.name = "effect",
                            .kind = kText,
                            .doc = "what happens",
                            .words = kEffects,
                            .required = true},
                           {.name = "step", .kind = kInt, .doc = "when: 0 is the first step"}},
        NumberKeys(kDefectFields));
constexpr auto kNoise =
    And(NumberKeys(kNoiseFields),
        std::array<Key, 1>{{{.name = "slow_steps", .kind = kInt, .doc = "slow steps at first"}}});
constexpr auto kStarting = NumberKeys(kStartingFields);
constexpr auto kHazards =
    And(NumberKeys(kHazardFields),
        std::array<Key, 1>{{{.name = "watchdog", .kind = kBool, .doc = "ends hung jobs"}}});
constexpr auto kTraining = NumberKeys(kTrainingFields);
constexpr auto kInput = NumberKeys(kInputFields);

constexpr Key kWorld[] = {
    {.name = "schema", .kind = kText, .doc = "attune/world/1", .words = kSchemas, .required = true},
    {.name = "name", .kind = kText, .doc = "of the world", .required = true},
    {.name = "about", .kind = kText, .doc = "what it stands for"},
    {.name = "seed", .kind = kInt, .doc = "of everything that it draws"},
    {.name = "keeps_baseline", .kind = kBool, .doc = "the recipe's own configuration trains"},
    {.name = "physics", .kind = kTextMap, .doc = "constants of the physics, by name"},
    {.name = "stack", .kind = kSection, .doc = "software instead of the recipe's", .keys = kStack},
    {.name = "machine", .kind = kSection, .doc = "hardware that differs", .keys = kMachine},
    {.name = "residuals", .kind = kSection, .doc = "factors over jobs", .keys = kResiduals},
    {.name = "interactions", .kind = kSections, .doc = "couplings", .keys = kInteraction},
    {.name = "memory", .kind = kSections, .doc = "memory beyond the formulas", .keys = kMemory},
    {.name = "defects", .kind = kSections, .doc = "ways to go wrong", .keys = kDefect},
    {.name = "noise", .kind = kSection, .doc = "of step times", .keys = kNoise},
    {.name = "starting", .kind = kSection, .doc = "time of a launch", .keys = kStarting},
    {.name = "hazards", .kind = kSection, .doc = "faults of the cluster", .keys = kHazards},
    {.name = "training", .kind = kSection, .doc = "losses", .keys = kTraining},
    {.name = "input", .kind = kSection, .doc = "bound of the input pipeline", .keys = kInput},
};

template <class T, std::size_t n>
void Numbers(const Section& section, const Field<T> (&fields)[n], T& out) {
  for (const Field<T>& f : fields) {
    double value = out.*f.member / f.unit;
    const bool given = section.Find(f.name) != nullptr;
    section.Number(f.name, value, f.low, f.high);
    if (given) out.*f.member = value * f.unit;
  }
}

std::vector<Condition> ReadConditions(const Section& section) {
  std::vector<Condition> out;
  const Node* list = section.Find("when");
  std::vector<std::string> texts;
  section.Texts("when", texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Result<Condition> c = ParseCondition(texts[i]);
    if (c) {
      out.push_back(*c);
    } else {
      section.problems().At(list->items[i].where, c.error().message, c.error().help);
    }
  }
  return out;
}

// "launch wait" -> "launch_wait", as keys of a file are spelt.
std::string TermKey(Term t) {
  std::string key(sim::Word(t));
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

void ReadPhysics(const Section& top, Coefficients& c) {
  const Node* map = top.Find("physics");
  for (const auto& [name, text] : top.TextMap("physics")) {
    const auto rows = CoefficientRows();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const CoefficientRow& r) { return r.name == name; });
    const Where where = map->Find(name)->where;
    if (row == rows.end()) {
      std::vector<std::string> names;
      for (const CoefficientRow& r : rows) names.emplace_back(r.name);
      const std::string near = Nearest(name, names);
      top.problems().At(
          where, fmt::format("'{}' is no constant of the physics", EscapeForDisplay(name, 60)),
          near.empty() ? "" : fmt::format("did you mean '{}'?", near));
      return;
    }
    const std::optional<double> value = ParseDouble(text);
    if (!value || *value < 0 || *value > 1e15) {
      top.problems().At(where, fmt::format("{} must be a number that is not negative", name));
      return;
    }
    c.*row->member = *value;
  }
}

void ReadDefects(const Section& top, World& world) {
  for (const Section& s : top.Subs("defects")) {
    Defect d;
    s.Text("id", d.id);
    d.when = ReadConditions(s);
    std::string effect;
    s.Text("effect", effect);
    for (std::size_t i = 0; i < std::size(kEffects); ++i) {
      if (kEffects[i] == effect) d.effect = static_cast<Effect>(i);
    }
    s.Int("step", d.step, 0, 1'000'000);
    Numbers(s, kDefectFields, d);
    world.defects.push_back(std::move(d));
  }
}

void ReadLists(const Section& top, World& world) {
  for (const Section& s : top.Subs("interactions")) {
    Interaction i;
    s.Text("id", i.id);
    i.when = ReadConditions(s);
    std::string term;
    s.Text("term", term);
    bool known = false;
    for (std::size_t t = 0; t < kTermCount; ++t) {
      if (TermKey(static_cast<Term>(t)) == term) {
        i.term = static_cast<Term>(t);
        known = true;
      }
    }
    if (s.present() && s.problems().none() && !known) {
      std::string words;
      for (std::size_t t = 0; t < kTermCount; ++t) {
        words += fmt::format("{}{}", t == 0 ? "" : ", ", TermKey(static_cast<Term>(t)));
      }
      s.problems().At(s.WhereOf("term"), fmt::format("'{}' is no term", EscapeForDisplay(term, 40)),
                      "known: " + words);
    }
    s.Number("factor", i.factor, 0.01, 100);
    world.interactions.push_back(std::move(i));
  }
  for (const Section& s : top.Subs("memory")) {
    ExtraMemory m;
    s.Text("id", m.id);
    m.when = ReadConditions(s);
    Numbers(s, kMemoryFields, m);
    world.memory.push_back(std::move(m));
  }
  ReadDefects(top, world);
}

void ReadSections(const Section& top, World& world) {
  const Section stack = top.Sub("stack");
  stack.Text("framework", world.stack_framework);
  stack.Text("version", world.stack_version);
  if (stack.Find("factor") != nullptr) stack.Number("factor", world.stack_factor, 0.01, 100);
  const Section machine = top.Sub("machine");
  Numbers(machine, kMachineFields, world);
  if (machine.Find("gpu_initiated") != nullptr) {
    bool on = false;
    machine.Bool("gpu_initiated", on);
    world.gpu_initiated = on;
  }
  const Section residuals = top.Sub("residuals");
  Numbers(residuals, kResidualFields, world.residuals);
  std::optional<std::int64_t> seed;
  residuals.Int64("seed", seed, 0);
  world.residuals.seed = static_cast<std::uint64_t>(seed.value_or(0));
  residuals.Bool("pinned", world.residuals.pinned);
  const Section noise = top.Sub("noise");
  Numbers(noise, kNoiseFields, world.noise);
  noise.Int("slow_steps", world.noise.slow_steps, 0, 1000);
  Numbers(top.Sub("starting"), kStartingFields, world.starting);
  const Section hazards = top.Sub("hazards");
  Numbers(hazards, kHazardFields, world.hazards);
  hazards.Bool("watchdog", world.hazards.watchdog);
  Numbers(top.Sub("training"), kTrainingFields, world.training);
  Numbers(top.Sub("input"), kInputFields, world.input);
}

template <class T, std::size_t n>
void Add(std::string& text, std::string_view of, const Field<T> (&fields)[n], const T& value) {
  for (const Field<T>& f : fields) {
    text += fmt::format("{}.{}={:.17g}\n", of, f.name, value.*f.member);
  }
}
void Add(std::string& text, const std::vector<Condition>& when) {
  for (const Condition& c : when) text += " " + Show(c);
  text += "\n";
}

}  // namespace

std::string_view Word(Effect e) { return kEffects[static_cast<std::size_t>(e)]; }

std::string CanonicalText(const World& w) {
  std::string text = fmt::format("attune/world/1\nname={}\nseed={}\n", w.name, w.seed);
  for (const CoefficientRow& row : CoefficientRows()) {
    text += fmt::format("physics.{}={:.17g}\n", row.name, w.coefficients.*row.member);
  }
  text += fmt::format("stack={}/{}/{:.17g}\n", w.stack_framework, w.stack_version, w.stack_factor);
  Add(text, "machine", kMachineFields, w);
  text += fmt::format("gpu_initiated={}\n", w.gpu_initiated ? int(*w.gpu_initiated) : -1);
  text += fmt::format("keeps_baseline={}\nresiduals.seed={}\nresiduals.pinned={}\n",
                      w.keeps_baseline, w.residuals.seed, w.residuals.pinned);
  Add(text, "residuals", kResidualFields, w.residuals);
  for (const Interaction& i : w.interactions) {
    text += fmt::format("interaction {} {} {:.17g}", i.id, sim::Word(i.term), i.factor);
    Add(text, i.when);
  }
  for (const ExtraMemory& m : w.memory) {
    text += "memory " + m.id;
    Add(text, m.when);
    Add(text, "memory", kMemoryFields, m);
  }
  for (const Defect& d : w.defects) {
    text += fmt::format("defect {} {} {}", d.id, Word(d.effect), d.step);
    Add(text, d.when);
    Add(text, "defect", kDefectFields, d);
  }
  Add(text, "noise", kNoiseFields, w.noise);
  text += fmt::format("noise.slow_steps={}\n", w.noise.slow_steps);
  Add(text, "starting", kStartingFields, w.starting);
  Add(text, "hazards", kHazardFields, w.hazards);
  text += fmt::format("hazards.watchdog={}\n", w.hazards.watchdog);
  Add(text, "training", kTrainingFields, w.training);
  Add(text, "input", kInputFields, w.input);
  return text;
}

Result<World> ReadWorld(const std::string& path) {
  Sources sources;
  ATTUNE_TRY(const Node tree, ReadYamlFile(path, sources));
  Problems problems(sources, "world");
  World world;
  world.coefficients = BuiltInCoefficients();
  const Section top(&tree, kWorld, "", problems);
  std::string schema;
  top.Text("schema", schema);
  top.Text("name", world.name);
  top.Text("about", world.about);
  std::optional<std::int64_t> seed;
  top.Int64("seed", seed, 0);
  world.seed = static_cast<std::uint64_t>(seed.value_or(0));
  top.Bool("keeps_baseline", world.keeps_baseline);
  if (top.present()) {
    ReadPhysics(top, world.coefficients);
    ReadSections(top, world);
    ReadLists(top, world);
  }
  ATTUNE_RETURN_IF_ERROR(problems.Take());
  world.hash = Sha256Hex(CanonicalText(world));
  return world;
}

}  // namespace attune::sim
