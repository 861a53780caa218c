// What the store's tests share: a folder that goes away, a clock that is moved by hand, and whole
// campaigns made from a seed.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/random.h"
#include "attune/model/event.h"

namespace attune::made {

class TempFolder {
 public:
  TempFolder() {
    // In memory where that is possible: these tests are about order and content, and a sync of a
    // busy disk takes longer than all the rest.
    const char* shared = "/dev/shm";
    std::string root = ::access(shared, W_OK) == 0
                           ? std::string(shared)
                           : std::filesystem::temp_directory_path().string();
    std::string name = root + "/attune-store-XXXXXX";
    path_ = ::mkdtemp(name.data()) != nullptr ? name : std::string();
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class HandClock final : public Clock {
 public:
  Instant Now() override { return Instant{1'800'000'000'000} + passed_ + wall_shift; }
  Millis Monotonic() override { return passed_; }
  void SleepUntil(Instant t) override {
    if (interrupted) return;
    if (t > Now()) passed_ += t - Now();
    if (on_sleep) on_sleep();
  }
  void Pass(Millis d) { passed_ += d; }

  std::function<void()> on_sleep;  // what the rest of the world does meanwhile
  bool interrupted = false;
  Millis wall_shift{0};  // somebody set the wall clock

 private:
  Millis passed_{0};
};

inline Opened OpenedOf(const std::string& id) {
  Opened o;
  o.id = CampaignId(id);
  o.recipe_json = R"({"name":"tiny","framework":"custom"})";
  o.recipe_path = "/r/recipe.yaml";
  o.recipe_hash = "hash-of-recipe";
  o.stack_fingerprint = "stack";
  o.run_root = "/r/runs";
  o.budget = GpuMillis{1'000'000'000};
  return o;
}

inline Effective EffectiveOf(const std::string& mbs) {
  return {.args = Arguments({{"--micro-batch-size", {mbs}}, {"--lr", {"3e-4"}}}),
          .env = {{"THREADS", "1"}}};
}

// The facts of one campaign after Opened: calibration, `searches` candidate launches with every
// kind of end, refusals between them, a final stage. The same for the same seed.
std::vector<std::vector<Fact>> CampaignFacts(const std::string& id, int searches,
                                             std::uint64_t seed);

// As another program with SQLite would; the error message, empty when it worked.
std::string RunSql(const std::string& path, const std::string& sql);
std::string AskSql(const std::string& path, const std::string& sql);  // first column, first row

}  // namespace attune::made
