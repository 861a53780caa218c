// doctor: is everything there that a campaign needs? Looks, changes nothing.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/instrument.h"
#include "attune/gates/rules.h"
#include "attune/logs/log_parser.h"
#include "attune/os/files.h"
#include "attune/os/process.h"
#include "attune/store/store.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"
#include "version.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLittleSpace = std::int64_t{1} << 30;

struct CheckRow {
  std::string state;  // ok | warn | FAIL
  std::string what, text, help;
};

class Examination {
 public:
  explicit Examination(Wire& wire) : wire_(wire) {}

  void Attune() { Ok("attune", fmt::format("version {}", kVersion)); }

  void State() {
    const Result<std::string> folder = wire_.StateFolder();
    if (!folder) {
      return Failed(kExitUsage, "state", folder.error());
    }
    // The nearest folder that is there decides where the rest will be.
    fs::path there = fs::absolute(*folder).lexically_normal();
    std::error_code error;
    while (!fs::exists(there, error) && there.has_relative_path()) {
      there = there.parent_path();
    }
    if (!fs::is_directory(there, error) || access(there.c_str(), W_OK | X_OK) != 0) {
      return Failed(kExitFailure, "state",
                    {ErrorCode::kDenied, fmt::format("{} cannot be written", there.string()),
                     "give another folder with --state DIR"});
    }
    const Result<std::string> kind = os::FileSystemKind(there.string());
    const Result<std::int64_t> free = os::FreeBytes(there.string());
    const bool network = kind && os::IsNetworkFileSystem(*kind);
    const std::string text = fmt::format(
        "{}: {}, {:.1f} GiB free -> journal {}", *folder, kind ? *kind : "unknown file system",
        free ? static_cast<double>(*free) / static_cast<double>(1 << 30) : 0.0,
        network ? "DELETE, no mmap" : "WAL");
    if (free && *free < kLittleSpace) {
      Warn("state", text, "logs of runs need room");
    } else {
      Ok("state", text);
    }
    Database(*folder);
  }

  void Recipe(const std::string& path, const std::vector<std::string>& set) {
    Result<LoadedRecipe> loaded = wire_.ReadRecipe(path, set);
    if (!loaded) {
      return Failed(kExitUsage, "recipe", loaded.error());
    }
    const attune::Recipe& recipe = loaded->recipe;
    const std::vector<std::string> levers = LeverIds(recipe, BuiltInRules());
    Ok("recipe",
       fmt::format("{}: valid, {} arguments, {} levers, {}", recipe.name,
                   recipe.base.args.items().size(), levers.size(), loaded->hash.substr(0, 12)));
    for (const LoadWarning& warning : loaded->warnings) {
      Warn("recipe", fmt::format("{}: {}", warning.at, warning.text), "");
    }
    Script(*loaded);
    Gates(recipe);
    if (const auto parser = MakeLogParser(recipe.log); !parser) {
      Failed(kExitUsage, "log", parser.error());
    }
    Inputs(recipe);
    Launcher(recipe);
    Machine(recipe);
  }

  const std::vector<CheckRow>& rows() const { return rows_; }
  int code() const { return code_; }

 private:
  void Ok(std::string what, std::string text) {
    rows_.push_back({"ok", std::move(what), std::move(text), ""});
  }
  void Warn(std::string what, std::string text, std::string help) {
    rows_.push_back({"warn", std::move(what), std::move(text), std::move(help)});
  }
  void Failed(int code, std::string what, const Error& error) {
    rows_.push_back({"FAIL", std::move(what), error.message, error.help});
    // Wrong input before a broken machine before a job that cannot start.
    if (code_ == kExitDone || code == kExitUsage ||
        (code == kExitFailure && code_ == kExitNoLaunch)) {
      code_ = code;
    }
  }

  void Database(const std::string& folder) {
    const auto store = Store::Open(folder, {.read_only = true});
    if (store) {
      Ok("database",
         fmt::format("{}: journal {}, synchronous {}", (*store)->path(),
                     (*store)->pragmas().journal_mode, (*store)->pragmas().synchronous));
    } else if (store.error().code == ErrorCode::kNotFound) {
      Ok("database", "none yet");
    } else {
      Failed(kExitFailure, "database", store.error());
    }
  }

  void Script(const LoadedRecipe& loaded) {
    for (const ScriptFinding& finding : loaded.script_findings) {
      const std::string text =
          fmt::format("{}: '{}' starts or ends jobs", finding.at, finding.word);
      if (loaded.recipe.launcher.script_trusted) {
        Warn("script", text, "");
      } else {
        Failed(kExitUsage, "script",
               {ErrorCode::kInvalidInput, text, "remove it, or say launcher.script.trusted: true"});
      }
    }
  }

  void Gates(const attune::Recipe& recipe) {
    std::vector<Finding> findings = CheckBaseline(recipe, BuiltInRules(), ConfigFacts{});
    const MeasuredWindow window{.steps = 1, .run_dir = "RUN_FOLDER"};
    const Effective measured = Instrument(recipe, recipe.base, window, BuiltInRules()).effective;
    for (Finding& finding : CheckPaths(recipe, measured, window.run_dir, BuiltInRules())) {
      findings.push_back(std::move(finding));
    }
    for (const Finding& finding : findings) {
      const std::string text = fmt::format("{}: {}: {}", finding.rule, finding.key, finding.why);
      if (finding.severity == Severity::kRefuse) {
        Failed(kExitUsage, "gates", {ErrorCode::kInvalidInput, text, ""});
      } else {
        Warn("gates", text, "");
      }
    }
  }

  void Inputs(const attune::Recipe& recipe) {
    const Result<StartPoint> start = FindStart(recipe);
    if (!start) {
      Failed(kExitNoLaunch, "start point", start.error());
    } else {
      Ok("start point",
         start->checkpoint.empty()
             ? std::string("from the beginning")
             : fmt::format("iteration {} of {}", start->iteration, start->checkpoint));
    }
    if (const Result<std::string> fingerprint = StackFingerprint(recipe); !fingerprint) {
      Failed(kExitNoLaunch, "files", fingerprint.error());
    }
    for (const std::string& name : recipe.launcher.pass_env) {
      if (!GetEnvironment(name)) {
        Warn("environment", fmt::format("{} is to be passed on and is not set", name), "");
      }
    }
  }

  void Launcher(const attune::Recipe& recipe) {
    if (recipe.launcher.kind != "local") {
      return Failed(kExitNoLaunch, "launcher",
                    {ErrorCode::kInvalidInput,
                     fmt::format("kind {} is not in this version", recipe.launcher.kind),
                     "launcher: {kind: local}"});
    }
    const std::string folder =
        recipe.launcher.workdir.empty() ? recipe.folder : recipe.launcher.workdir;
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
      return Failed(kExitNoLaunch, "launcher",
                    {ErrorCode::kNotFound, fmt::format("{} is no folder", folder), ""});
    }
    if (recipe.command.empty()) {
      return Ok("launcher", "local, your own script");
    }
    const os::Environment node = os::NodeEnvironment(os::OwnEnvironment());
    const auto path = node.find("PATH");
    const Result<std::string> program =
        os::FindProgram(recipe.command.front(), path == node.end() ? "" : path->second);
    if (!program) {
      return Failed(kExitNoLaunch, "launcher", program.error());
    }
    for (const std::string& word : recipe.command) {
      const bool is_script = word.ends_with(".py") || word.ends_with(".sh");
      if (is_script && access((fs::path(folder) / word).c_str(), R_OK) != 0) {
        return Failed(kExitNoLaunch, "launcher",
                      {ErrorCode::kNotFound, fmt::format("{} is not in {}", word, folder), ""});
      }
    }
    Ok("launcher", fmt::format("local, {} in {}", *program, folder));
  }

  void Machine(const attune::Recipe& recipe) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (recipe.workload.gpu == "cpu" && recipe.workload.gpus > cores) {
      Warn("machine", fmt::format("{} slots on {} cores", recipe.workload.gpus, cores),
           "workload.gpus is what the job takes from this machine");
    }
    double load[1] = {0};
    if (getloadavg(load, 1) == 1 && load[0] > static_cast<double>(cores) / 2) {
      Warn("machine",
           fmt::format("load {:.1f} on {} cores: measurements will be noisy", load[0], cores), "");
    }
  }

  Wire& wire_;
  std::vector<CheckRow> rows_;
  int code_ = kExitDone;
};

class Doctor final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RECIPE", path_, "a recipe, and what it needs", false);
    options.Texts("--set", set_, "KEY=VALUE", "a value of the recipe; KEY= removes it");
  }

  Result<int> Run(Wire& wire) override {
    Examination examination(wire);
    examination.Attune();
    examination.State();
    if (!path_.empty()) {
      examination.Recipe(path_, set_);
    }
    int failed = 0;
    int warnings = 0;
    std::string text;
    std::vector<std::string> checks;
    for (const CheckRow& row : examination.rows()) {
      failed += row.state == "FAIL" ? 1 : 0;
      warnings += row.state == "warn" ? 1 : 0;
      const Ink ink = row.state == "FAIL"   ? Ink::kBad
                      : row.state == "warn" ? Ink::kWarn
                                            : Ink::kGood;
      text +=
          fmt::format("{}  {}: {}\n", wire.terminal().Paint(ink, fmt::format("{:<4}", row.state)),
                      row.what, EscapeForDisplay(row.text, 600));
      if (!row.help.empty()) {
        text += fmt::format("      help: {}\n", row.help);
      }
      JsonOut check("");
      check.Text("state", row.state == "FAIL" ? "fail" : row.state);
      check.Text("what", row.what);
      check.Text("text", row.text);
      check.Text("help", row.help);
      checks.push_back(check.Take());
    }
    if (wire.flags().json) {
      JsonOut json("attune.doctor/1");
      json.Int("failed", failed);
      json.Int("warnings", warnings);
      json.Objects("checks", checks);
      text = json.Take() + "\n";
    } else {
      text += fmt::format("{} failed, {} warnings\n", failed, warnings);
    }
    wire.terminal().Out(text);
    return examination.code();
  }

 private:
  std::string path_;
  std::vector<std::string> set_;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace attune::cli
