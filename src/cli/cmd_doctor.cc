// doctor: is everything there that a campaign needs? Looks, changes nothing.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ask_gates.h"
#include "ask_launcher.h"
#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "attune/logs/log_parser.h"
#include "attune/os/files.h"
#include "attune/store/store.h"
#include "commands.h"
#include "doctor_llm.h"
#include "json_out.h"
#include "session.h"
#include "version.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLittleSpace = std::int64_t{1} << 30;

class Examination {
 public:
  Examination(Wire& wire, bool job, bool offline) : wire_(wire), job_(job), offline_(offline) {}

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
                     "give another folder with --state DIR"},
                    "ls -ld " + ShellQuote(there.string()));
    }
    const Result<std::string> kind = os::FileSystemKind(there.string());
    const Result<std::int64_t> free = os::FreeBytes(there.string());
    const bool network = kind && os::IsNetworkFileSystem(*kind);
    const std::string text = fmt::format(
        "{}: {}, {:.1f} GiB free -> journal {}", *folder, kind ? *kind : "unknown file system",
        free ? static_cast<double>(*free) / static_cast<double>(1 << 30) : 0.0,
        network ? "DELETE, no mmap" : "WAL");
    if (free && *free < kLittleSpace) {
      Warn("state", text, "logs of runs need room", "attune db gc --keep-logs 3");
    } else {
      Ok("state", text);
    }
    Database(*folder);
  }

  void Recipe(const std::string& path, const std::vector<std::string>& set) {
    Result<LoadedRecipe> loaded = wire_.ReadRecipe(path, set);
    if (!loaded) {
      return Failed(kExitUsage, "recipe", loaded.error(), "attune check " + ShellQuote(path));
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
    llm_ = recipe.llm;
  }

  void Models(const LlmFlags& flags) {
    ModelExamination found = ExamineModels(wire_, flags, llm_);
    for (CheckRow& row : found.rows) rows_.push_back(std::move(row));
    model_code_ = found.code;
  }

  const std::vector<CheckRow>& rows() const { return rows_; }
  int code() const {
    const int worst = WorstCode(rows_);
    return worst == kExitDone ? model_code_ : worst;
  }

 private:
  void Ok(std::string what, std::string text) {
    rows_.push_back(OkRow(std::move(what), std::move(text)));
  }
  void Warn(std::string what, std::string text, std::string help, std::string fix = {}) {
    rows_.push_back(
        WithFix(WarnRow(std::move(what), std::move(text), std::move(help)), std::move(fix)));
  }
  void Failed(int code, std::string what, const Error& error, std::string fix = {}) {
    rows_.push_back(WithFix(FailedRow(code, std::move(what), error), std::move(fix)));
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
      Failed(kExitFailure, "database", store.error(), "attune db check");
    }
  }

  static std::vector<std::string> Quoted(std::vector<std::string> words) {
    for (std::string& word : words) word = ShellQuote(word);
    return words;
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
    for (const Finding& finding : GateFindings(recipe)) {
      const std::string text = fmt::format("{}: {}: {}", finding.rule, finding.key, finding.why);
      if (finding.severity == Severity::kRefuse) {
        Failed(kExitUsage, "gates", {ErrorCode::kInvalidInput, text, ""},
               "attune gate explain " + finding.rule);
      } else {
        Warn("gates", text, "", "attune gate explain " + finding.rule);
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
      Failed(kExitNoLaunch, "files", fingerprint.error(),
             "ls -l " + Join(Quoted(recipe.files), " "));
    }
    for (const std::string& name : recipe.launcher.pass_env) {
      if (!GetEnvironment(name)) {
        Warn("environment", fmt::format("{} is to be passed on and is not set", name), "",
             fmt::format("export {}=", name));
      }
    }
  }

  // What lies beyond this machine, named and left alone.
  void NotAsked(const attune::Recipe& recipe) {
    const auto skip = [&](std::string what) {
      rows_.push_back(SkipRow(std::move(what), "not asked: --offline"));
    };
    if (recipe.launcher.kind == "slurm") {
      skip(recipe.launcher.login.empty() ? "slurm" : "host " + recipe.launcher.login);
    }
    if (recipe.launcher.kind == "ssh") {
      for (const std::string& host : recipe.launcher.hosts) skip("host " + host);
    }
  }

  void Launcher(const attune::Recipe& recipe) {
    if (offline_ && (recipe.launcher.kind == "slurm" || recipe.launcher.kind == "ssh")) {
      return NotAsked(recipe);
    }
    const Result<std::string> folder = wire_.StateFolder();
    const auto take = [&](std::vector<CheckRow> rows) {
      for (CheckRow& row : rows) rows_.push_back(std::move(row));
    };
    take(AskLauncher(recipe, folder ? *folder : "", recipe.launcher.time, wire_.clock()));
    if (recipe.launcher.kind == "slurm" && folder && code() == kExitDone) {
      take(AskNode(recipe, *folder, job_, wire_.clock()));
    }
  }

  Wire& wire_;
  LlmSpec llm_;  // of the recipe, when there is one
  bool job_ = false, offline_ = false;
  std::vector<CheckRow> rows_;
  int model_code_ = kExitDone;
};

class Doctor final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RECIPE", path_, "a recipe, and what it needs", false);
    options.Flag("--job", job_, "slurm: submit a job of a minute to look at a compute node");
    options.Texts("--set", set_, "KEY=VALUE", "a value of the recipe; KEY= removes it");
    options.Flag("--llm", llm_, "ask the model a tiny question and a long one");
    options.Text("--model", llm_flags_.model, "NAME", "which model, with --llm");
    options.Text("--llm-key-file", llm_flags_.key_file, "FILE",
                 "file of mode 0600 that holds the key");
    options.Flag("--offline", offline_, "ask nothing beyond this machine");
    options.Flag("--fix-hints", fix_hints_, "with a command to paste for what is not in order");
  }

  Result<int> Run(Wire& wire) override {
    if (offline_ && (llm_ || job_)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("--offline asks nothing, --{} does", llm_ ? "llm" : "job"),
                  "leave one of them out");
    }
    Examination examination(wire, job_, offline_);
    examination.Attune();
    examination.State();
    if (!path_.empty()) {
      examination.Recipe(path_, set_);
    }
    if (llm_) examination.Models(llm_flags_);
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
      if (fix_hints_ && !row.fix.empty()) {
        text += fmt::format("      fix:  {}\n", EscapeForDisplay(row.fix, 600));
      }
      checks.push_back(JsonOf(row));
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
  bool llm_ = false;
  LlmFlags llm_flags_;
  bool job_ = false, offline_ = false, fix_hints_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace attune::cli
