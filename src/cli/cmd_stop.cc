// stop and retry: wishes to the process that writes the campaign, told through the database, so
// that they work from another shell or host.
#include <fmt/core.h>
#include <unistd.h>

#include "attune/os/process.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"

namespace attune::cli {
namespace {

std::string Self() { return fmt::format("{} pid {}", os::HostName(), getpid()); }

Result<CampaignRow> Find(Wire& wire, Store& store, const std::string& named) {
  const std::string& id = named.empty() ? wire.flags().campaign : named;
  return store.FindCampaign(id.empty() ? "latest" : id);
}

class Stop final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Flag("--after-run", after_run_, "finish the run that is going on (the default)");
    options.Flag("--now", now_, "leave at once; jobs go on and resume adopts them");
    options.Flag("--cancel-jobs", cancel_, "end the campaign's jobs, then leave");
  }

  Result<int> Run(Wire& wire) override {
    if (after_run_ + now_ + cancel_ > 1) {
      return Fail(ErrorCode::kInvalidInput,
                  "--after-run, --now and --cancel-jobs exclude each other");
    }
    ATTUNE_TRY(const std::unique_ptr<Store> store, OpenExisting(wire));
    ATTUNE_TRY(const CampaignRow row, Find(wire, *store, campaign_));
    if (row.Ended()) {
      return Nothing(wire, row, "has ended");
    }
    const std::string what = now_ ? "detach" : (cancel_ ? "cancel" : "drain");
    ATTUNE_TRY(const std::optional<LeaseRow> lease, store->Lease(row.id));
    const WriterSeen seen =
        lease ? store->Seen(row.id, *lease, wire.clock().Now()) : WriterSeen::kNone;
    const bool nobody = seen == WriterSeen::kNone || seen == WriterSeen::kGone;
    if (nobody && !cancel_) {
      return Nothing(wire, row, "no attune works on it");
    }
    if (nobody) {
      wire.terminal().Note(row.id.value + ": no attune works on it; attune resume will do it");
    }
    ATTUNE_RETURN_IF_ERROR(store->AddWish(row.id, what, Self(), wire.clock().Now()));
    if (wire.flags().json) {
      JsonOut json("attune.stop/1");
      json.Text("campaign", row.id.value);
      json.Text("asked", what);
      wire.terminal().Out(json.Take() + "\n");
    } else {
      wire.terminal().Out(
          fmt::format("{}: asked to {}\n", row.id.value,
                      now_ ? "leave now; jobs go on"
                           : (cancel_ ? "cancel its jobs and leave"
                                      : "finish the run that is going on, then leave")));
    }
    return kExitDone;
  }

 private:
  static int Nothing(Wire& wire, const CampaignRow& row, const std::string& why) {
    wire.terminal().Note(fmt::format("{}: {}; nothing to stop", row.id.value, why));
    if (wire.flags().json) {
      JsonOut json("attune.stop/1");
      json.Text("campaign", row.id.value);
      json.Null("asked");
      json.Text("why", why);
      wire.terminal().Out(json.Take() + "\n");
    }
    return kExitNothingToDo;
  }

  std::string campaign_;
  bool after_run_ = false, now_ = false, cancel_ = false;
};

class Retry final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positionals("RUN", runs_, "run ids or labels", 1);
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const std::unique_ptr<Store> store, OpenExisting(wire));
    ATTUNE_TRY(const CampaignRow row, Find(wire, *store, ""));
    if (row.Ended()) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} has ended; its runs stay as they are", row.id.value),
                  "start a new campaign with attune run");
    }
    std::vector<std::string> ids;
    for (const std::string& name : runs_) {
      ATTUNE_TRY(const RunRow run, store->FindRun(row.id, name));
      if (run.purpose != Purpose::kCandidate || run.proposal.empty()) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("{} is no candidate; only those are tried again", run.id.value));
      }
      if (!run.end) {
        return Fail(ErrorCode::kInvalidInput, fmt::format("{} has not ended", run.id.value));
      }
      ids.push_back(run.id.value);
    }
    for (const std::string& id : ids) {
      ATTUNE_RETURN_IF_ERROR(store->AddWish(row.id, "retry:" + id, Self(), wire.clock().Now()));
    }
    if (wire.flags().json) {
      JsonOut json("attune.retry/1");
      json.Text("campaign", row.id.value);
      json.Texts("runs", ids);
      wire.terminal().Out(json.Take() + "\n");
    } else {
      for (const std::string& id : ids) wire.terminal().Out(id + "\n");
    }
    return kExitDone;
  }

 private:
  std::vector<std::string> runs_;
};

}  // namespace

std::unique_ptr<Command> MakeStop() { return std::make_unique<Stop>(); }
std::unique_ptr<Command> MakeRetry() { return std::make_unique<Retry>(); }

}  // namespace attune::cli
