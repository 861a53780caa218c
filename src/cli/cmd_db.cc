// db: care for the campaign database: check it, copy it, give disk back, write its events out.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "attune/base/text.h"
#include "attune/store/store.h"
#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

class Db final : public Command {
 public:
  void Declare(Options& options) override {
    options.Sub("check", "", "read every event and table back and say what is wrong", chosen_);
    Options backup = options.Sub("backup", "FILE", "a consistent copy while others write", chosen_);
    backup.Positional("FILE", target_, "must not exist");
    Options gc =
        options.Sub("gc", "[--keep-logs N]", "remove the run folders of old campaigns", chosen_);
    gc.Int("--keep-logs,--keep", keep_, 0,
           "campaigns whose logs and traces stay, newest first (10)");
    Options out = options.Sub("export", "[FILE]", "every event, one JSON object a line", chosen_);
    out.Positional("FILE", target_, "else stdout", false);
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const std::string folder, wire.StateFolder());
    StoreOptions options;
    options.read_only = true;
    ATTUNE_TRY(const std::unique_ptr<Store> store, Store::Open(folder, options));
    if (chosen_ == "check") return Check(wire, *store);
    if (chosen_ == "export") return Export(wire, *store);
    if (chosen_ == "gc") return Collect(wire, folder, *store);
    ATTUNE_RETURN_IF_ERROR(store->Backup(target_));
    Tell(wire, "backup", target_);
    return kExitDone;
  }

 private:
  static void Tell(Wire& wire, std::string_view what, const std::string& path) {
    if (!wire.flags().json) {
      wire.terminal().Out(path + "\n");
      return;
    }
    JsonOut json("attune.db/1");
    json.Text("did", what);
    json.Text("path", path);
    wire.terminal().Out(json.Take() + "\n");
  }

  static Result<int> Check(Wire& wire, Store& store) {
    ATTUNE_TRY(const std::vector<CheckLine> lines, store.Check());
    bool fine = true;
    std::vector<std::string> objects;
    for (const CheckLine& line : lines) {
      fine = fine && line.ok;
      if (wire.flags().json) {
        JsonOut one("");
        one.Bool("ok", line.ok);
        one.Text("what", line.what);
        one.Text("found", line.found);
        objects.push_back(one.Take());
      } else {
        wire.terminal().Out(fmt::format("{:<5} {}: {}\n", line.ok ? "ok" : "FAIL", line.what,
                                        EscapeForDisplay(line.found)));
      }
    }
    if (wire.flags().json) {
      JsonOut json("attune.db-check/1");
      json.Bool("ok", fine);
      json.Objects("checks", objects);
      wire.terminal().Out(json.Take() + "\n");
    }
    return fine ? kExitDone : kExitFailure;
  }

  Result<int> Export(Wire& wire, Store& store) const {
    std::FILE* file = nullptr;
    if (!target_.empty()) {
      file = std::fopen(target_.c_str(), "wxe");
      if (file == nullptr) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("{} can't be made (it must not exist)", EscapeForDisplay(target_)));
      }
    }
    bool whole = true;
    const Status done = store.Export([&](const std::string& line) -> Status {
      if (file == nullptr) {
        wire.terminal().Out(line + "\n");
      } else {
        whole = whole && std::fputs((line + "\n").c_str(), file) >= 0;
      }
      return {};
    });
    if (file != nullptr) {
      whole = std::fflush(file) == 0 && fsync(fileno(file)) == 0 && whole;
      whole = std::fclose(file) == 0 && whole;
    }
    ATTUNE_RETURN_IF_ERROR(done);
    if (!whole) {
      return Fail(ErrorCode::kFull, fmt::format("{} could not be written whole", target_));
    }
    if (!target_.empty()) Tell(wire, "export", target_);
    return kExitDone;
  }

  // Only folders below our own run root, of campaigns that ended; the events stay.
  Result<int> Collect(Wire& wire, const std::string& folder, Store& store) const {
    constexpr int kKeep = 10;
    ATTUNE_TRY(const std::vector<Store::OldRun> old,
               store.OldRuns(static_cast<int>(keep_.value_or(kKeep))));
    const std::string root = folder + "/runs/";
    std::int64_t removed = 0;
    for (const Store::OldRun& run : old) {
      if (!run.folder.starts_with(root)) continue;
      const std::string launch = run.folder.substr(root.size());
      const std::string name = launch.substr(0, launch.find('/'));
      if (name.empty() || name == "." || name == "..") continue;
      std::error_code failed;
      if (std::filesystem::remove_all(root + name, failed) > 0 && !failed) ++removed;
    }
    if (wire.flags().json) {
      JsonOut json("attune.db/1");
      json.Text("did", "gc");
      json.Int("folders", removed);
      wire.terminal().Out(json.Take() + "\n");
    } else {
      wire.terminal().Out(fmt::format("{} run folders removed\n", removed));
    }
    return kExitDone;
  }

  std::string chosen_, target_;
  std::optional<std::int64_t> keep_;
};

}  // namespace

std::unique_ptr<Command> MakeDb() { return std::make_unique<Db>(); }

}  // namespace attune::cli
