#include "attune/recipe_io/user_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "attune/base/redact.h"
#include "attune/base/text.h"
#include "file_text.h"
#include "llm_config.h"
#include "secrets.h"
#include "attune/recipe_io/section.h"

namespace attune {
namespace {

using enum KeyKind;

constexpr std::string_view kColors[] = {"auto", "always", "never"};
constexpr std::string_view kProgress[] = {"auto", "bar", "plain", "none"};
constexpr std::string_view kInterrupts[] = {"drain", "cancel", "detach"};
constexpr std::string_view kNotices[] = {"end", "fail", "budget"};
constexpr std::string_view kSchemas[] = {"attune/config/1"};

constexpr Key kPrice[] = {
    {.name = "gpu_hour_usd", .kind = kNumber, .doc = "dollars of one GPU-hour"},
};
constexpr Key kNotify[] = {
    {.name = "on", .kind = kTexts, .doc = "what to be told of", .words = kNotices},
    {.name = "command", .kind = kTexts, .doc = "argv; gets the status on its input"},
};
// Not constexpr: the keys of llm are another file's.
const std::vector<Key>& ConfigKeys() {
  static const std::vector<Key> keys = {
      {.name = "schema", .kind = kText, .doc = "first line", .words = kSchemas, .required = true},
      {.name = "state_dir", .kind = kText, .doc = "where campaigns are kept"},
      {.name = "color", .kind = kText, .doc = "colour on a terminal", .words = kColors},
      {.name = "progress", .kind = kText, .doc = "how progress is shown", .words = kProgress},
      {.name = "on_interrupt",
       .kind = kText,
       .doc = "what the first Ctrl-C does",
       .words = kInterrupts},
      {.name = "no_input", .kind = kBool, .doc = "never ask"},
      {.name = "budget", .kind = kBudget, .doc = "GPU-hours when neither flag nor recipe says"},
      {.name = "log_file", .kind = kText, .doc = "attune's own log"},
      {.name = "price", .kind = kSection, .doc = "what a GPU-hour costs", .keys = kPrice},
      {.name = "notify", .kind = kSection, .doc = "whom to tell", .keys = kNotify},
      {.name = "allow_env",
       .kind = kTexts,
       .doc = "names that look like secrets and may reach a job"},
      {.name = "llm",
       .kind = kSection,
       .doc = "models and where they are",
       .keys = LlmConfigKeys()},
  };
  return keys;
}

struct Variable {
  std::string_view name, key;
};
constexpr std::array<Variable, 6> kVariables = {{{"ATTUNE_STATE_DIR", "state_dir"},
                                                 {"ATTUNE_BUDGET", "budget"},
                                                 {"ATTUNE_LOG", "log_file"},
                                                 {"ATTUNE_NO_INPUT", "no_input"},
                                                 {"ATTUNE_LLM_ENDPOINT", "llm.endpoint"},
                                                 {"ATTUNE_LLM_MODEL", "llm.model"}}};

class ConfigReader {
 public:
  Status AddFile(const ConfigSource& source) {
    const Result<std::string> text = ReadText(source.path, kMaxRecipeText);
    if (!text && text.error().code == ErrorCode::kNotFound && !source.required) {
      return {};
    }
    if (!text) {
      return Fail(ErrorCode::kInvalidInput, text.error().message);
    }
    const int id = sources_.Add(source.path);
    ATTUNE_TRY(const Node tree, ParseYaml(*text, id, sources_));
    if (!tree.IsMap() || tree.entries.empty() || tree.entries.front().key != "schema") {
      return FailAt(sources_, tree.where, "the first key of a config file is schema",
                    "begin with the line 'schema: attune/config/1'");
    }
    ATTUNE_RETURN_IF_ERROR(RefuseSecrets(tree, {}, sources_));
    Problems problems(sources_);
    const Section top(&tree, ConfigKeys(), "", problems);
    ATTUNE_RETURN_IF_ERROR(problems.Take());
    if (!source.trusted) {
      ATTUNE_RETURN_IF_ERROR(RefuseUntrusted(tree));
    }
    Read(top);
    return problems.Take();
  }

  Status AddVariables(const GetEnv& getenv) {
    for (const Variable& variable : kVariables) {
      const std::optional<std::string> value = getenv(std::string(variable.name));
      if (!value || value->empty()) {
        continue;
      }
      const std::string name(variable.name);
      if (variable.key == "budget" && !IsBudget(*value)) {
        return Fail(
            ErrorCode::kInvalidInput,
            fmt::format("{}: '{}' is no number of GPU-hours", name, EscapeForDisplay(*value, 40)),
            "a number above 0, or auto");
      }
      if (variable.key == "state_dir") {
        out_.state_dir = *value;
      } else if (variable.key == "budget") {
        out_.budget = *value;
      } else if (variable.key == "log_file") {
        out_.log_file = *value;
      } else if (variable.key == "llm.endpoint") {
        out_.llm.main.endpoint = *value;
        out_.llm.endpoint_from_variable = true;
      } else if (variable.key == "llm.model") {
        out_.llm.main.model = *value;
      } else {
        out_.no_input = *value != "0";
      }
      Note(variable.key, variable.key == "no_input" ? (out_.no_input ? "true" : "false") : *value,
           name);
    }
    return {};
  }

  UserConfig Take() {
    const auto builtin = [&](std::string_view key, std::string value) {
      if (!places_.contains(std::string(key))) {
        Note(key, std::move(value), "built-in");
      }
    };
    builtin("color", out_.color);
    builtin("progress", out_.progress);
    builtin("on_interrupt", out_.on_interrupt);
    builtin("no_input", "false");
    for (const std::string_view key :
         {"state_dir", "color", "progress", "on_interrupt", "no_input", "budget", "log_file",
          "price.gpu_hour_usd", "notify.on", "notify.command", "allow_env", "llm.endpoint",
          "llm.model", "llm.api", "llm.auth", "llm.fallback"}) {
      const auto place = places_.find(std::string(key));
      if (place != places_.end()) {
        out_.origins.push_back(place->second);
      }
    }
    return std::move(out_);
  }

 private:
  static bool IsBudget(const std::string& text) {
    const auto number = ParseDouble(text);
    return text == "auto" || (number && *number > 0);
  }

  // A project's file comes with a repository: it may run nothing and let nothing through.
  Status RefuseUntrusted(const Node& tree) const {
    const Node* notify = tree.Find("notify");
    for (const Entry& entry : tree.entries) {
      if (entry.key == "allow_env" || entry.key == "state_dir" || entry.key == "log_file" ||
          entry.key == "llm") {
        return FailAt(sources_, entry.where,
                      fmt::format("{} cannot come from a project's attune.yaml", entry.key),
                      "give it in your own config.yaml");
      }
    }
    if (notify != nullptr && notify->Find("command") != nullptr) {
      return FailAt(sources_, notify->Find("command")->where,
                    "notify.command cannot come from a project's attune.yaml",
                    "give it in your own config.yaml");
    }
    return {};
  }

  void Note(std::string_view key, const std::string& value, std::string at) {
    // A URL may hold a password that no check has seen yet.
    places_[std::string(key)] = {std::string(key), Redactor()(value), std::move(at)};
  }

  void NoteNode(const Section& section, std::string_view key) {
    const Node* value = section.Find(key);
    if (value == nullptr) {
      return;
    }
    std::vector<std::string> items;
    for (const Node& item : value->items) {
      items.push_back(item.text);
    }
    const std::string text = value->IsList() ? fmt::format("[{}]", Join(items, ", ")) : value->text;
    Note(section.Name(key), text, sources_.Show(value->where));
  }

  void Read(const Section& top) {
    top.Text("state_dir", out_.state_dir);
    top.Text("color", out_.color);
    top.Text("progress", out_.progress);
    top.Text("on_interrupt", out_.on_interrupt);
    top.Bool("no_input", out_.no_input);
    top.Text("budget", out_.budget);
    if (top.Find("budget") != nullptr && !IsBudget(out_.budget)) {
      top.problems().At(top.WhereOf("budget"), "budget must be a number of GPU-hours or auto");
    }
    top.Text("log_file", out_.log_file);
    const Section price = top.Sub("price");
    price.Number("gpu_hour_usd", out_.price_gpu_hour_usd, 0, 1e6);
    const Section notify = top.Sub("notify");
    notify.Texts("on", out_.notify_on);
    notify.Texts("command", out_.notify_command);
    top.Texts("allow_env", out_.allow_env);
    const Section llm = top.Sub("llm");
    ReadLlmConfig(llm, out_.llm);
    for (const std::string_view key : {"endpoint", "model", "api", "auth", "fallback"}) {
      NoteNode(llm, key);
    }
    for (const std::string_view key : {"state_dir", "color", "progress", "on_interrupt", "no_input",
                                       "budget", "log_file", "allow_env"}) {
      NoteNode(top, key);
    }
    NoteNode(price, "gpu_hour_usd");
    NoteNode(notify, "on");
    NoteNode(notify, "command");
  }

  Sources sources_;
  UserConfig out_;
  std::map<std::string, ConfigValue> places_;
};

}  // namespace

std::vector<ConfigSource> ConfigSources(const GetEnv& getenv, const std::string& folder) {
  std::vector<ConfigSource> out;
  out.push_back({JoinPath(folder, "attune.yaml"), false, false});
  const auto named = getenv("ATTUNE_CONFIG");
  const auto xdg = getenv("XDG_CONFIG_HOME");
  const auto home = getenv("HOME");
  if (named && !named->empty()) {
    out.push_back({*named, true, true});
  } else if (xdg && xdg->starts_with('/')) {
    out.push_back({JoinPath(*xdg, "attune/config.yaml"), true, false});
  } else if (home && home->starts_with('/')) {
    out.push_back({JoinPath(*home, ".config/attune/config.yaml"), true, false});
  }
  out.push_back({"/etc/xdg/attune/config.yaml", true, false});
  return out;
}

Result<UserConfig> LoadUserConfig(const std::vector<ConfigSource>& sources, const GetEnv& getenv) {
  ConfigReader reader;
  for (auto source = sources.rbegin(); source != sources.rend(); ++source) {
    ATTUNE_RETURN_IF_ERROR(reader.AddFile(*source));
  }
  ATTUNE_RETURN_IF_ERROR(reader.AddVariables(getenv));
  return reader.Take();
}

}  // namespace attune
