#include "read_recipe.h"

#include <fmt/core.h>

#include <algorithm>

#include "arguments_reader.h"
#include "attune/base/text.h"
#include "file_text.h"
#include "keys.h"
#include "secrets.h"

namespace attune {
namespace {

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() != '.' && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

// Sections that may say where a key goes or what is run must be the user's own.
Status RefuseForeignKeys(const Node& root, const Sources& sources) {
  const auto refuse = [&](std::string_view section,
                          std::initializer_list<std::string_view> words) -> Status {
    const Node* node = root.Find(section);
    if (node == nullptr) {
      return {};
    }
    for (const Entry& entry : node->entries) {
      for (const std::string_view word : words) {
        if (entry.key.starts_with(word)) {
          return FailAt(sources, entry.where,
                        fmt::format("{}.{} cannot come from a recipe", section,
                                    EscapeForDisplay(entry.key, 80)),
                        "give it as a flag, as an ATTUNE_ variable or in your own config");
        }
      }
    }
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(
      refuse("llm", {"endpoint", "api", "header", "key", "base_url", "url", "proxy"}));
  return refuse("notify", {"command", "webhook", "url"});
}

class RecipeReader {
 public:
  RecipeReader(ReadContext& context, LoadedRecipe& out)
      : context_(context), out_(out), recipe_(out.recipe), problems_(context.sources) {}

  Status Run() {
    ATTUNE_RETURN_IF_ERROR(RefuseForeignKeys(context_.root, context_.sources));
    ATTUNE_RETURN_IF_ERROR(ExpandEnvironment(context_));
    const Section top(&context_.root, RecipeKeys(), "", problems_);
    ATTUNE_RETURN_IF_ERROR(problems_.Take());
    ReadIdentity(top);
    const PathReader paths(context_, recipe_.folder);
    ReadWorkload(top.Sub("workload"), paths);
    for (auto& [name, value] : top.TextMap("stack")) {
      recipe_.stack[name] = value;
    }
    paths.Paths(top, "files", recipe_.files);
    ReadDeclared(top, context_.options, recipe_);
    ReadLevers(top.Sub("levers"), context_.options, recipe_);
    ReadLog(top);
    ReadMeasure(top.Sub("measure"), recipe_);
    if (!recipe_.measure.start_from.empty()) {
      recipe_.measure.start_from =
          paths.Resolve(recipe_.measure.start_from, top.Sub("measure").WhereOf("start_from"));
    }
    ReadGate(top.Sub("gate"), recipe_);
    ReadProfile(top.Sub("profile"), recipe_);
    ReadLauncher(top.Sub("launcher"), paths, context_.options, recipe_);
    ReadBudget(top.Sub("budget"), recipe_);
    ReadLlm(top.Sub("llm"), recipe_);
    recipe_.price_gpu_hour_usd = context_.options.price_gpu_hour_usd;
    top.Sub("price").Number("gpu_hour_usd", recipe_.price_gpu_hour_usd, 0, 1e6);
    top.Sub("notify").Texts("on", recipe_.notify_on);
    recipe_.notify_command = context_.options.notify_command;
    ATTUNE_RETURN_IF_ERROR(problems_.Take());
    ATTUNE_RETURN_IF_ERROR(ReadCommand(top, paths));
    ATTUNE_RETURN_IF_ERROR(ReadAllArguments(top, paths));
    return CheckAgainstArguments(top);
  }

 private:
  void ReadIdentity(const Section& top) {
    top.Text("name", recipe_.name);
    if (problems_.none() && !IsName(recipe_.name)) {
      problems_.At(top.WhereOf("name"),
                   fmt::format("'{}' is no name", EscapeForDisplay(recipe_.name, 80)),
                   "letters, digits, '.', '_' and '-', at most 64, beginning with a letter or "
                   "digit");
    }
    top.Text("description", recipe_.description);
    top.Texts("tags", recipe_.tags);
    std::string framework;
    top.Text("framework", framework);
    recipe_.framework =
        framework == Word(Framework::kMegatronLm) ? Framework::kMegatronLm : Framework::kCustom;
    const Node* command = context_.root.Find("command");
    const Node* launcher = context_.root.Find("launcher");
    const Node* script = launcher == nullptr ? nullptr : launcher->Find("script");
    const Node* home = command != nullptr ? command : script;
    recipe_.folder =
        context_.folders[static_cast<std::size_t>(home != nullptr ? home->where.source : 0)]
            .absolute;
    std::string kind;
    top.Sub("ranks").Text("kind", kind);
    recipe_.ranks = kind == "env"        ? RanksKind::kEnv
                    : kind == "torchrun" ? RanksKind::kTorchrun
                    : kind == "srun"     ? RanksKind::kSrun
                                         : RanksKind::kNone;
  }

  void ReadWorkload(const Section& workload, const PathReader& paths) {
    Workload& w = recipe_.workload;
    workload.Text("model", w.model);
    workload.Int("gpus", w.gpus, 1, 1'000'000);
    w.gpus_per_node = w.gpus;
    workload.Int("gpus_per_node", w.gpus_per_node, 1, 1'000'000);
    if (workload.present() && w.gpus > 8 && workload.Find("gpus_per_node") == nullptr) {
      problems_.At(workload.where(), "missing workload.gpus_per_node: gpus is above 8");
    }
    if (w.gpus % w.gpus_per_node != 0) {
      problems_.At(workload.WhereOf("gpus_per_node"),
                   fmt::format("workload.gpus_per_node {} does not divide workload.gpus {}",
                               w.gpus_per_node, w.gpus));
    }
    workload.Text("gpu", w.gpu);
    workload.Int64("seq_length", w.seq_length, 1);
    workload.Int64("global_batch", w.global_batch, 1);
    workload.Text("precision", w.precision);
    workload.Text("order", w.order);
    workload.Text("loss_mask", w.loss_mask);
    workload.Bool("variable_rows", w.variable_rows);
    if (const Node* shape = workload.Find("shape"); shape != nullptr && shape->IsMap()) {
      for (auto& [key, value] : workload.TextMap("shape")) {
        w.shape[key] = value;
      }
    } else {
      workload.Text("shape", w.shape_row);
    }
    paths.Paths(workload, "caches", w.caches);
    paths.Paths(workload, "reads", w.reads);
    if (recipe_.framework == Framework::kCustom && workload.present()) {
      for (const std::string_view key : {"seq_length", "global_batch"}) {
        if (workload.Find(key) == nullptr) {
          problems_.At(workload.where(),
                       fmt::format("missing workload.{}: framework custom needs it", key),
                       "throughput is tokens, and attune cannot read them off your arguments");
        }
      }
    }
  }

  void ReadLog(const Section& top) {
    const Section log = top.Sub("log");
    log.Text("dialect", recipe_.log.dialect);
    log.Text("pattern", recipe_.log.pattern);
    LogSpec& spec = recipe_.log;
    if (!problems_.none()) {
      return;
    }
    if (!spec.pattern.empty() && spec.dialect.empty()) {
      spec.dialect = "custom";
    }
    if (spec.dialect.empty() && recipe_.framework == Framework::kMegatronLm) {
      spec.dialect = "megatron-lm";
    }
    if (spec.dialect.empty()) {
      problems_.At(top.where(), "missing log: framework custom needs a dialect or a pattern",
                   "log: {dialect: megatron-lm}, or log: {pattern: ...}");
    } else if ((spec.dialect == "custom") != !spec.pattern.empty()) {
      problems_.At(log.where(), "log.pattern belongs to dialect custom, and custom needs one");
    }
  }

  Status ReadCommand(const Section& top, const PathReader& paths) {
    top.Texts("command", recipe_.command);
    const Node* command = top.Find("command");
    const bool has_script = !recipe_.launcher.script.empty();
    if (command == nullptr && !has_script) {
      problems_.At(top.where(), "missing command: argv of the training job",
                   "command: [python3, train.py, \"{{args}}\"]");
    } else if (command != nullptr && has_script) {
      problems_.At(command->where, "command and launcher.script are both given", "keep one");
    } else if (command != nullptr && recipe_.command.empty()) {
      problems_.At(command->where, "command is empty");
    }
    ATTUNE_RETURN_IF_ERROR(problems_.Take());
    if (has_script) return ReadUserScript(top);
    int places = 0;
    std::vector<PlacedText> tokens;
    for (const Node& item : command->items) {
      tokens.push_back({item.text, item.where});
      if (item.text.find('\n') != std::string::npos) {
        problems_.At(item.where, "a newline inside an argument", "arguments are single lines");
      }
      if (item.text == "{{args}}") {
        ++places;
      } else if (item.text.find("{{") != std::string::npos) {
        problems_.At(item.where,
                     fmt::format("'{}' is no template", EscapeForDisplay(item.text, 80)),
                     "\"{{args}}\" alone is replaced, as a word of its own");
      }
    }
    if (places > 1) {
      problems_.At(command->where, "{{args}} stands in command more than once");
    } else if (places == 0) {
      Warn(command->where, "command has no {{args}}: the arguments are put at its end");
    }
    ATTUNE_RETURN_IF_ERROR(problems_.Take());
    ATTUNE_RETURN_IF_ERROR(RefuseSecretArguments(tokens, context_.sources));
    for (const PlacedText& token : tokens) {
      if (token.text.ends_with(".sh")) {
        const std::string path = paths.Resolve(token.text, token.where);
        const Result<std::string> text =
            ReadText(JoinPath(recipe_.folder, path), kMaxScriptBytes, path);
        if (text) FindInScript(*text, path);  // one that is not there is the launcher's to miss
      }
    }
    return {};
  }

  // It is executed as a program, and starts what it likes where it likes.
  Status ReadUserScript(const Section& top) {
    const LauncherSpec& launcher = recipe_.launcher;
    const Section section = top.Sub("launcher");
    const Where& where = section.WhereOf("script");
    if (recipe_.ranks != RanksKind::kNone) {
      problems_.At(where, "launcher.script starts its ranks itself: ranks has no place beside it",
                   "remove ranks, or give a command instead of the script");
    }
    if (!launcher.container.style.empty()) {
      problems_.At(where,
                   "launcher.script starts its container itself: launcher.container has no place "
                   "beside it",
                   "remove launcher.container, or give a command instead of the script");
    }
    ATTUNE_RETURN_IF_ERROR(problems_.Take());
    const Result<std::string> text =
        ReadText(JoinPath(recipe_.folder, launcher.script), kMaxScriptBytes, launcher.script);
    if (!text) return FailAt(context_.sources, where, text.error().message);
    if (!text->starts_with("#!")) {
      return FailAt(context_.sources, where,
                    fmt::format("{} does not begin with #!, so nothing says what executes it",
                                launcher.script),
                    "#!/usr/bin/env bash");
    }
    FindInScript(*text, launcher.script);
    return {};
  }

  void FindInScript(const std::string& text, const std::string& name) {
    for (ScriptFinding& finding : ScanScript(text, name)) {
      out_.script_findings.push_back(std::move(finding));
    }
  }

  Status ReadAllArguments(const Section& top, const PathReader& paths) {
    ArgumentsRequest request;
    request.args = top.Find("args");
    if (request.args != nullptr && request.args->IsScalar()) {
      return FailAt(context_.sources, request.args->where, "args must be a list or a map",
                    "words of a command line go into args_file");
    }
    request.argparse = recipe_.framework == Framework::kMegatronLm;
    request.known_flags = &context_.options.known_flags;
    std::string file;
    top.Text("args_file", file);
    ATTUNE_RETURN_IF_ERROR(problems_.Take());
    if (!file.empty()) {
      const Where where = top.WhereOf("args_file");
      if (request.args != nullptr && request.args->IsList()) {
        return FailAt(context_.sources, request.args->where,
                      "args is a list, and args_file is given", "keep one, or write args as a map");
      }
      ATTUNE_RETURN_IF_ERROR(ReadArgumentsFile(file, where, paths, request.file));
    }
    ATTUNE_TRY(PlacedArguments placed, ReadArguments(request, context_.sources));
    recipe_.base.args = std::move(placed.args);
    out_.origins.insert(out_.origins.end(), placed.origins.begin(), placed.origins.end());
    return {};
  }

  Status ReadArgumentsFile(const std::string& file, const Where& where, const PathReader& paths,
                           std::vector<PlacedText>& words) {
    const std::string shown =
        JoinPath(context_.folders[static_cast<std::size_t>(where.source)].shown, file);
    const Result<std::string> text =
        ReadText(JoinPath(recipe_.folder, paths.Resolve(file, where)), kMaxRecipeText, shown);
    if (!text) {
      return FailAt(context_.sources, where, text.error().message);
    }
    const int source = context_.sources.Add(shown);
    context_.folders.push_back(context_.folders[static_cast<std::size_t>(where.source)]);
    ATTUNE_TRY(const std::vector<ShellWord> split, ReadShellWords(*text, shown));
    for (const ShellWord& word : split) {
      words.push_back({word.text, {source, word.line, 0}});
    }
    return {};
  }

  // Facts that the arguments give too must be the same.
  Status CheckAgainstArguments(const Section& top) {
    if (recipe_.framework == Framework::kCustom && recipe_.declared.empty()) {
      Warn(top.where(), "no lever is declared: there is nothing to tune");
    }
    if (recipe_.framework != Framework::kMegatronLm) {
      return {};
    }
    const Section workload = top.Sub("workload");
    const auto same = [&](std::string_view key, std::string_view flag,
                          const std::optional<std::int64_t>& fact) {
      const std::optional<std::string> value = recipe_.base.args.Value(flag);
      if (fact && value && ParseInt(*value) != fact) {
        problems_.At(workload.WhereOf(key),
                     fmt::format("workload.{} is {}, but {} is {}", key, *fact, flag,
                                 EscapeForDisplay(*value, 40)),
                     "leave it out: the argument counts");
      }
    };
    same("seq_length", "--seq-length", recipe_.workload.seq_length);
    same("global_batch", "--global-batch-size", recipe_.workload.global_batch);
    return problems_.Take();
  }

  void Warn(const Where& where, std::string text) {
    out_.warnings.push_back({context_.sources.Show(where), std::move(text)});
  }

  ReadContext& context_;
  LoadedRecipe& out_;
  Recipe& recipe_;
  Problems problems_;
};

}  // namespace

std::string PathReader::Resolve(const std::string& path, const Where& where) const {
  if (path.empty() || path.starts_with('/')) {
    return path;
  }
  const std::string& home = context_.folders[static_cast<std::size_t>(where.source)].absolute;
  return home == folder_ ? path : Normal(JoinPath(home, path));
}

void PathReader::Path(const Section& section, std::string_view key, std::string& out) const {
  section.Text(key, out);
  if (section.Find(key) != nullptr) {
    out = Resolve(out, section.WhereOf(key));
  }
}

void PathReader::Paths(const Section& section, std::string_view key,
                       std::vector<std::string>& out) const {
  section.Texts(key, out);
  const Node* list = section.Find(key);
  for (std::size_t i = 0; list != nullptr && i < out.size(); ++i) {
    out[i] = Resolve(out[i], list->items[i].where);
  }
}

std::string FlagName(const std::string& key) { return key.starts_with('-') ? key : "--" + key; }

bool IsFlag(std::string_view text) {
  if (text.find_first_of(" =\t\n") != std::string_view::npos) {
    return false;
  }
  return ParseArguments(std::vector<std::string>{std::string(text)}).items().front().values.empty();
}

Status ReadRecipe(ReadContext& context, LoadedRecipe& out) {
  return RecipeReader(context, out).Run();
}

}  // namespace attune
