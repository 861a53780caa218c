#include "options.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "parse.h"
#include "version.h"

namespace attune::cli {
namespace {

constexpr const char* kGlobalGroup = "Global flags";
constexpr std::size_t kHelpColumn = 30;

// Two columns; a long left side takes a line of its own.
std::string Row(std::string_view left, std::string_view right) {
  if (left.size() + 4 > kHelpColumn) {
    return fmt::format("  {}\n{:{}}{}\n", left, "", kHelpColumn, right);
  }
  return fmt::format("  {:<{}}{}\n", left, kHelpColumn - 2, right);
}

std::string NamesOf(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) {
    names += fmt::format("{}-{}", names.empty() ? "" : ", ", name);
  }
  for (const std::string& name : option.get_lnames()) {
    names += fmt::format("{}--{}", names.empty() ? "" : ", ", name);
  }
  if (option.get_positional()) {
    return option.get_name();
  }
  const std::string type = option.get_type_name();
  return option.get_items_expected_max() == 0 || type.empty() ? names
                                                              : fmt::format("{} {}", names, type);
}

std::string OptionRows(const CLI::App& app, bool global) {
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    const bool is_global = option->get_group() == kGlobalGroup;
    if (is_global == global && !option->get_group().empty() && !option->get_description().empty()) {
      rows += Row(NamesOf(*option), option->get_description());
    }
  }
  return rows;
}

std::string Indent(std::string_view lines) {
  std::string out;
  for (const std::string_view line : SplitLines(lines)) {
    out += fmt::format("  {}\n", line);
  }
  return out;
}

std::string ExitLine(std::string_view extra) {
  std::vector<std::string> parts = {"0 done", "1 unexpected failure", "2 wrong usage or input"};
  for (const std::string_view code : Split(extra, ' ')) {
    if (const auto number = ParseInt(code)) {
      parts.push_back(fmt::format("{} {}", *number, MeaningOf(static_cast<int>(*number))));
    }
  }
  return Join(parts, "; ");
}

// Examples first, then flags, then exit codes (cli.md section 3.1).
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter(const CommandRow* row, std::string path, std::string synopsis)
      : row_(row), path_(std::move(path)), synopsis_(std::move(synopsis)) {}

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return row_ == nullptr ? RootHelp(*app) : CommandHelp(*app);
  }

 private:
  static std::string RootHelp(const CLI::App& app) {
    std::string out =
        "attune tunes the throughput of a training recipe within a GPU-hour budget\n\n";
    out += "Usage: attune COMMAND [ARGUMENTS] [FLAGS]\n\nCommands:\n";
    for (const CommandRow& row : Commands()) {
      if (!row.hidden) {
        out += Row(row.name, row.summary);
      }
    }
    out += fmt::format("\n{}:\n{}", kGlobalGroup, OptionRows(app, true));
    out += "\nattune help COMMAND tells more; attune help exit-codes, environment, recipe.\n";
    return out;
  }

  std::string CommandHelp(const CLI::App& app) const {
    std::string out = fmt::format("attune {}: {}\n", path_, app.get_description());
    if (!row_->examples.empty() && path_ == row_->name) {
      out += fmt::format("\nExamples:\n{}", Indent(row_->examples));
    }
    out += fmt::format("\nUsage: attune {}{}{}\n", path_, synopsis_.empty() ? "" : " ", synopsis_);
    const std::vector<const CLI::App*> subs =
        app.get_subcommands([](const CLI::App*) { return true; });
    if (!subs.empty()) {
      out += "\nCommands:\n";
      for (const CLI::App* sub : subs) {
        out += Row(sub->get_name(), sub->get_description());
      }
    }
    if (const std::string rows = OptionRows(app, false); !rows.empty()) {
      out += fmt::format("\nFlags and arguments:\n{}", rows);
    }
    out += fmt::format("\nGlobal flags: attune --help\nExit codes: {}\n", ExitLine(row_->exits));
    return out;
  }

  const CommandRow* row_;
  std::string path_;
  std::string synopsis_;
};

// Every app of ours: help flag, flags after the positional arguments, global flags after the
// command.
void SetUp(CLI::App& app, const CommandRow* row, const std::string& path,
           const std::string& synopsis) {
  app.set_help_flag("-h,--help", "this text");
  app.get_help_ptr()->group(row == nullptr ? kGlobalGroup : "");
  app.formatter(std::make_shared<HelpFormatter>(row, path, synopsis));
  app.fallthrough();
}

const CommandRow* RowOf(const CLI::App& app) {
  const CLI::App* top = &app;
  while (top->get_parent() != nullptr && top->get_parent()->get_parent() != nullptr) {
    top = top->get_parent();
  }
  return FindCommand(top->get_name());
}

std::string PathOf(const CLI::App& app) {
  if (app.get_parent() == nullptr || app.get_parent()->get_parent() == nullptr) {
    return app.get_name();
  }
  return fmt::format("{} {}", PathOf(*app.get_parent()), app.get_name());
}

}  // namespace

void Options::Flag(std::string_view names, bool& out, std::string_view doc) {
  app_.add_flag(std::string(names), out, std::string(doc));
}

void Options::Count(std::string_view names, int& out, std::string_view doc) {
  app_.add_flag(
      std::string(names), [&out](std::int64_t n) { out = static_cast<int>(n); }, std::string(doc));
}

void Options::Text(std::string_view names, std::string& out, std::string_view placeholder,
                   std::string_view doc) {
  app_.add_option(std::string(names), out, std::string(doc))
      ->type_name(std::string(placeholder))
      ->expected(1)
      ->allow_extra_args(false);
}

void Options::Word(std::string_view names, std::string& out, const std::vector<std::string>& words,
                   std::string_view doc) {
  CLI::Option* option = app_.add_option(std::string(names), out, std::string(doc));
  option->type_name(Join(words, "|"))->expected(1)->allow_extra_args(false);
  option->check([words](const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) {
      return std::string();
    }
    const std::string near = Nearest(value, words);
    return fmt::format("'{}' is none of {}{}", EscapeForDisplay(value, 60), Join(words, ", "),
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  });
}

void Options::Texts(std::string_view names, std::vector<std::string>& out,
                    std::string_view placeholder, std::string_view doc) {
  app_.add_option(std::string(names), out, std::string(doc))
      ->type_name(std::string(placeholder))
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void Options::Int(std::string_view names, std::optional<std::int64_t>& out, std::int64_t least,
                  std::string_view doc) {
  CLI::Option* option = app_.add_option_function<std::string>(
      std::string(names), [&out](const std::string& text) { out = ParseInt(text); },
      std::string(doc));
  option->type_name("N")->expected(1)->allow_extra_args(false);
  option->check([least](const std::string& text) {
    const auto value = ParseInt(text);
    return value && *value >= least ? std::string()
                                    : fmt::format("must be a whole number from {}, got '{}'", least,
                                                  EscapeForDisplay(text, 60));
  });
}

void Options::Number(std::string_view names, std::optional<double>& out,
                     std::string_view placeholder, std::string_view doc) {
  CLI::Option* option = app_.add_option_function<std::string>(
      std::string(names), [&out](const std::string& text) { out = ParseDouble(text); },
      std::string(doc));
  option->type_name(std::string(placeholder))->expected(1)->allow_extra_args(false);
  option->check([](const std::string& text) {
    const auto value = ParseDouble(text);
    return value && *value > 0
               ? std::string()
               : fmt::format("must be a number above 0, got '{}'", EscapeForDisplay(text, 60));
  });
}

void Options::Duration(std::string_view names, std::optional<Millis>& out, std::string_view doc) {
  CLI::Option* option = app_.add_option_function<std::string>(
      std::string(names),
      [&out](const std::string& text) {
        if (const Result<Millis> parsed = ParseDuration(text)) {
          out = *parsed;
        }
      },
      std::string(doc));
  option->type_name("DUR")->expected(1)->allow_extra_args(false);
  option->check([](const std::string& text) {
    const Result<Millis> parsed = ParseDuration(text);
    return parsed ? std::string() : parsed.error().message;
  });
}

void Options::Positional(std::string_view name, std::string& out, std::string_view doc,
                         bool required) {
  app_.add_option(std::string(name), out, std::string(doc))->required(required)->expected(1);
}

void Options::Positionals(std::string_view name, std::vector<std::string>& out,
                          std::string_view doc, int least) {
  app_.add_option(std::string(name), out, std::string(doc))
      ->required(least > 0)
      ->expected(least, -1);
}

Options Options::Sub(std::string_view name, std::string_view synopsis, std::string_view summary,
                     std::string& chosen) {
  CLI::App* sub = app_.add_subcommand(std::string(name), std::string(summary));
  SetUp(*sub, RowOf(*sub), PathOf(*sub), std::string(synopsis));
  sub->parse_complete_callback([&chosen, word = std::string(name)] { chosen = word; });
  app_.require_subcommand(1);
  return Options(*sub);
}

void Options::Everything(std::vector<std::string>& out) {
  app_.set_help_flag();
  app_.prefix_command();
  app_.fallthrough(false);
  app_.parse_complete_callback([this_app = &app_, &out] { out = this_app->remaining(); });
}

namespace {

// The tree of commands for one parse. Commands live here until one is chosen.
class CommandLine {
 public:
  explicit CommandLine(GlobalFlags& flags) : root_("", "attune") {
    SetUp(root_, nullptr, "", "");
    AddGlobals(flags);
    root_.require_subcommand(0, 1);
    for (const CommandRow& row : Commands()) {
      CLI::App* app = root_.add_subcommand(std::string(row.name), std::string(row.summary));
      SetUp(*app, &row, std::string(row.name), std::string(row.synopsis));
      commands_.push_back(row.make());
      Options options(*app);
      commands_.back()->Declare(options);
    }
  }

  CLI::App& root() { return root_; }

  // What was chosen; null when no command was given.
  std::unique_ptr<Command> TakeChosen() {
    const std::vector<CLI::App*> chosen = root_.get_subcommands();
    if (chosen.empty()) {
      return nullptr;
    }
    const std::span<const CommandRow> rows = Commands();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].name == chosen.front()->get_name()) {
        return std::move(commands_[i]);
      }
    }
    return nullptr;
  }

  CLI::App* Find(const std::string& command) {
    if (command.empty()) {
      return &root_;
    }
    const std::vector<CLI::App*> found =
        root_.get_subcommands([&](const CLI::App* app) { return app->get_name() == command; });
    return found.empty() ? nullptr : found.front();
  }

 private:
  void AddGlobals(GlobalFlags& flags) {
    Options options(root_);
    options.Text("-C", flags.folder, "DIR", "work in this folder");
    options.Text("--state", flags.state, "DIR", "where campaigns are kept");
    options.Text("-c,--campaign", flags.campaign, "ID", "which campaign; a unique prefix will do");
    options.Flag("--json", flags.json, "the answer as one JSON object, errors too");
    options.Flag("-q,--quiet", flags.quiet, "no progress, no hints");
    options.Count("-v,--verbose", flags.verbose, "more of attune's own log; -vv for all");
    options.Word("--color", flags.color, {"auto", "always", "never"}, "colour on a terminal");
    options.Word("--progress", flags.progress, {"auto", "bar", "plain", "none"},
                 "how progress is shown");
    options.Flag("--no-input", flags.no_input, "never ask");
    options.Flag("-y,--yes", flags.yes, "yes to every question");
    options.Text("--log-file", flags.log_file, "FILE", "attune's own log as JSON lines");
    root_.set_version_flag("--version", kVersion, "print the version");
    for (CLI::Option* option : root_.get_options()) {
      option->group(kGlobalGroup);
    }
  }

  CLI::App root_;
  std::vector<std::unique_ptr<Command>> commands_;
};

std::vector<std::string> LongFlags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
  }
  return flags;
}

struct Mistake {
  std::string message, help;
};

// CLI11 names what it did not expect and leaves it there.
Mistake Explain(CLI::App& root, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = root.get_subcommands();
  CLI::App* command = chosen.empty() ? &root : chosen.front();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
  }
  const std::string path = command == &root ? std::string() : PathOf(*command);
  const std::string see = path.empty() ? "attune --help" : fmt::format("attune {} --help", path);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const std::vector<std::string> left = root.remaining(true);
  // A flag that is not there explains more than the argument that is missing because of it.
  const auto flag = std::find_if(left.begin(), left.end(),
                                 [](const std::string& word) { return word.starts_with('-'); });
  if (flag != left.end() || (extras && !left.empty())) {
    const std::string& word = flag != left.end() ? *flag : left.front();
    std::vector<std::string> known;
    std::string what = "argument";
    if (word.starts_with('-')) {
      what = "flag";
      known = LongFlags(*command);
      const std::vector<std::string> global = LongFlags(root);
      known.insert(known.end(), global.begin(), global.end());
    } else if (command == &root) {
      what = "command";
      for (const CommandRow& row : Commands()) {
        if (!row.hidden) {
          known.emplace_back(row.name);
        }
      }
    }
    const std::string near = Nearest(word.substr(0, word.find('=')), known);
    return {fmt::format("unknown {} '{}'", what, EscapeForDisplay(word, 80)),
            near.empty() ? see : fmt::format("did you mean '{}'?", near)};
  }
  const std::vector<CLI::App*> subs =
      command->get_subcommands([](const CLI::App*) { return true; });
  if (command != &root && !subs.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* sub : subs) {
      names.push_back(sub->get_name());
    }
    return {fmt::format("attune {} what?", path), fmt::format("one of: {}", Join(names, ", "))};
  }
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return {EscapeForDisplay(text, 400), see};
}

std::string StartText() {
  struct Line {
    std::string_view command, text;
  };
  constexpr Line kLines[] = {
      {"init", "attune init                        write a recipe to start from"},
      {"doctor", "attune doctor recipe.yaml          is everything there that a campaign needs?"},
      {"plan", "attune plan recipe.yaml            what will it cost? launches nothing"},
      {"run", "attune run recipe.yaml             tune it; attune resume goes on after a stop"},
      {"report", "attune report                      what was gained, and how to use it"},
  };
  std::string out;
  for (const Line& line : kLines) {
    if (FindCommand(line.command) != nullptr) {
      out += fmt::format("{}\n", line.text);
    }
  }
  return out;
}

}  // namespace

Parsed ParseCommandLine(const std::vector<std::string>& words, GlobalFlags& flags,
                        Terminal& terminal) {
  // An error must be an object under --json even where parsing stopped before the flag.
  TerminalFlags early;
  early.json = std::find(words.begin(), words.end(), "--json") != words.end();
  terminal.Set(early);
  Parsed parsed;
  CommandLine line(flags);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    line.root().parse(reversed);
  } catch (const CLI::CallForHelp&) {
    CLI::App* app = &line.root();
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
    }
    terminal.Out(app->help());
    return parsed;
  } catch (const CLI::CallForVersion&) {
    terminal.Out(fmt::format("attune {}\n", kVersion));
    return parsed;
  } catch (const CLI::ParseError& error) {
    const Mistake mistake = Explain(line.root(), error);
    parsed.code = kExitUsage;
    terminal.Fail("usage", parsed.code, mistake.message, mistake.help);
    return parsed;
  }
  parsed.command = line.TakeChosen();
  if (parsed.command == nullptr) {
    terminal.Out(StartText());
  }
  return parsed;
}

std::string HelpText(const std::string& command) {
  GlobalFlags flags;
  CommandLine line(flags);
  CLI::App* app = line.Find(command);
  ATTUNE_CHECK(app != nullptr, "help for a command that is not in the table");
  return app->help();
}

std::vector<FlagShape> FlagShapes(const std::string& command, const std::string& sub) {
  GlobalFlags flags;
  CommandLine line(flags);
  std::vector<const CLI::App*> apps = {&line.root()};
  if (CLI::App* app = command.empty() ? nullptr : line.Find(command)) {
    apps.push_back(app);
    for (const CLI::App* below : app->get_subcommands([](const CLI::App*) { return true; })) {
      if (below->get_name() == sub) apps.push_back(below);
    }
  }
  std::vector<FlagShape> shapes;
  for (const CLI::App* app : apps) {
    for (const CLI::Option* option : app->get_options()) {
      FlagShape shape;
      for (const std::string& name : option->get_snames()) shape.names.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) shape.names.push_back("--" + name);
      if (shape.names.empty()) continue;
      shape.takes_value = option->get_items_expected_max() > 0;
      // "drain|cancel"; of "H|auto" the part that is no placeholder.
      const std::string type = option->get_type_name();
      for (const std::string_view word : Split(type, '|')) {
        const bool placeholder =
            std::any_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
        if (shape.takes_value && !placeholder) shape.words.emplace_back(word);
      }
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

std::vector<std::string> SubcommandNames(const std::string& command) {
  GlobalFlags flags;
  CommandLine line(flags);
  const CLI::App* app = line.Find(command);
  std::vector<std::string> names;
  if (app != nullptr) {
    for (const CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(sub->get_name());
    }
  }
  return names;
}

}  // namespace attune::cli
