// What `attune status` and `attune runs` ask of a store that holds 100,000 runs: a store is made
// (half of the runs in one campaign, the rest in 500 small ones), then opened and asked as a fresh
// process would.
//   attune_store_bench [runs]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "attune/store/store.h"
#include "unit/store/made.h"

namespace attune {
namespace {

using SteadyClock = std::chrono::steady_clock;

double Milliseconds(SteadyClock::time_point since) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - since).count();
}

void Must(bool ok, const char* what, const std::string& why = {}) {
  if (ok) return;
  fmt::print(stderr, "{}: {}\n", what, why);
  std::exit(1);
}

// One proposal, launched, ended and judged: the rows of a real run, without its step events, which
// `status` does not read.
void OneRun(const std::string& campaign, int n, std::vector<Fact>& facts) {
  Proposed proposed;
  proposed.id = ProposalId(fmt::format("p{:03}", n));
  proposed.proposal.change.lever = "micro_batch";
  proposed.proposal.change.edits = {{Edit::Op::kSet, "--micro-batch-size", {"2"}}};
  proposed.candidate = made::EffectiveOf("2");
  LaunchIntended intended;
  intended.id = LaunchId(fmt::format("l{:03}", n));
  intended.token = Token(fmt::format("attune-{}-{}", campaign, intended.id.value));
  intended.purpose = n <= 3 ? Purpose::kCalibration : Purpose::kCandidate;
  intended.hold = {200'000};
  intended.runs.resize(1);
  RunPlan& plan = intended.runs[0];
  plan.id = RunId(fmt::format("r{:03}", n));
  plan.label = "mbs2";
  plan.proposal = proposed.id;
  plan.user = plan.executed = made::EffectiveOf("2");
  RunEnded ended;
  ended.id = plan.id;
  ended.detail.end = n % 3 == 0 ? RunEnd::kOomGpu : RunEnd::kCompleted;
  Judged judged;
  judged.id = plan.id;
  judged.standing = n % 3 == 0 ? Standing::kFailed : n % 3 == 1 ? Standing::kWin : Standing::kTie;
  judged.measurement = Measurement{};
  judged.leads = judged.standing == Standing::kWin;
  LaunchEnded over;
  over.id = intended.id;
  over.charged = {80'000};
  facts.insert(facts.end(),
               {proposed, intended, LaunchBound{intended.id, {intended.token, "1", ""}}, ended,
                judged, over});
}

std::int64_t Fill(Store& store, const std::string& id, int runs, Clock& clock) {
  const Status created = [&]() -> Status {
    ATTUNE_TRY(const Event event, store.Create(made::OpenedOf(id), clock.Now()));
    (void)event;
    return {};
  }();
  Must(created.has_value(), "create", created ? "" : created.error().message);
  const auto writer = store.Acquire(CampaignId(id), clock);
  Must(writer.has_value(), "acquire");
  std::vector<Fact> batch;
  std::int64_t events = 1;
  const auto write = [&] {
    const auto done = (*writer)->Append(batch, clock.Now());
    Must(done.has_value(), "append", done ? "" : done.error().message);
    events += static_cast<std::int64_t>(batch.size());
    batch.clear();
  };
  for (int n = 1; n <= runs; ++n) {
    OneRun(id, n, batch);
    if (batch.size() > 5'000) write();
  }
  write();
  return events;
}

void Time(const char* what, const std::function<void()>& once) {
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    const auto start = SteadyClock::now();
    once();
    times.push_back(Milliseconds(start));
  }
  std::sort(times.begin(), times.end());
  fmt::print("{:<42} median {:7.2f} ms   worst {:7.2f} ms\n", what, times[times.size() / 2],
             times.back());
}

int Run(int runs) {
  const made::TempFolder folder;
  made::HandClock clock;
  std::int64_t events = 0, all_runs = 0;
  const auto start = SteadyClock::now();
  {
    const auto store = Store::Open(folder / "state").value();
    for (int i = 0; i < 500; ++i) {
      clock.Pass(Millis{1'000});
      events += Fill(*store, fmt::format("c-small-{:03}", i), runs / 2 / 500, clock);
    }
    clock.Pass(Millis{1'000});
    events += Fill(*store, "c-large", runs / 2, clock);
    const auto campaigns = store->Campaigns().value();
    for (const CampaignRow& campaign : campaigns) all_runs += store->Summary(campaign.id)->runs;
  }
  fmt::print("made {} runs, {} events in {:.0f} s ({:.0f} us an event)\n", all_runs, events,
             Milliseconds(start) / 1e3, Milliseconds(start) * 1e3 / static_cast<double>(events));
  const CampaignId large("c-large"), small("c-small-007");
  Time("open and status, campaign of half the runs", [&] {
    const auto store = Store::Open(folder / "state", {.read_only = true}).value();
    Must(store->Summary(large).has_value(), "summary");
  });
  Time("open and status, small campaign", [&] {
    const auto store = Store::Open(folder / "state", {.read_only = true}).value();
    Must(store->Summary(small).has_value(), "summary");
  });
  const auto store = Store::Open(folder / "state", {.read_only = true}).value();
  Time("newest 50 runs of the large campaign",
       [&] { Must(store->Runs(large, {.newest = 50})->size() == 50, "runs"); });
  Time("one run by id", [&] { Must(store->FindRun(large, "r1000").has_value(), "find"); });
  Time("list of campaigns", [&] { Must(store->Campaigns()->size() == 501, "campaigns"); });
  Time("load and decode a small campaign", [&] { Must(store->Load(small).has_value(), "load"); });
  return 0;
}

}  // namespace
}  // namespace attune

int main(int argc, char** argv) { return attune::Run(argc > 1 ? std::atoi(argv[1]) : 100'000); }
