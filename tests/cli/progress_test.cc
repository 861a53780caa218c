#include "progress.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <memory>
#include <string>

#include "signals.h"

namespace attune::cli {
namespace {

constexpr Instant kStart{1'796'068'800'000};

CampaignState Running() {
  CampaignState s;
  s.id = CampaignId{"c-1"};
  s.phase = Phase::kSearching;
  s.budget = FromGpuHours(30);
  s.ledger.search = FromGpuHours(2);
  LaunchRecord launch;
  launch.intent.id = LaunchId("l007");
  launch.state = LaunchState::kRunning;
  LaunchHandle handle;
  handle.id = "4711";
  launch.handle = handle;
  RunRecord run;
  run.plan.id = RunId("r007");
  run.plan.label = "tp4";
  run.plan.steps_wanted = 20;
  run.launch = launch.intent.id;
  run.started = RunStarted{};
  run.last_news_at = kStart;
  Step step;
  step.printed_ms = 30'000;
  run.steps = {step, step, step, step};
  launch.intent.runs = {run.plan};
  s.launches[launch.intent.id] = launch;
  s.runs[run.plan.id] = run;
  return s;
}

// What a Progress writes.
struct Written {
  explicit Written(ProgressStyle style)
      : file(open_memstream(&text, &size)), owned(std::make_unique<Progress>(file, style)) {}
  ~Written() {
    owned.reset();  // it takes its live lines away
    fclose(file);
    free(text);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  std::string Text() {
    fflush(file);
    return {text, size};
  }
  Progress& progress() { return *owned; }

  char* text = nullptr;
  size_t size = 0;
  FILE* file;
  std::unique_ptr<Progress> owned;
};

TEST(EventLine, TheFirstCtrlCSaysWhatIsFinishedAndWhatTheSecondDoes) {
  const Event drain{9, kStart, UserAsked{"drain"}};
  EXPECT_EQ(EventLine(Running(), drain),
            "finishing r007 (about 8m); Ctrl-C again cancels job 4711 and leaves");
  EXPECT_EQ(EventLine(CampaignState{}, drain), "asked: drain");
  EXPECT_EQ(EventLine(Running(), Event{9, kStart, UserAsked{"cancel"}}), "asked: cancel");
}

TEST(Progress, APlainLogHasALineEveryTenMinutesWithoutAnEvent) {
  Written w({});
  const CampaignState s = Running();
  for (int minute = 0; minute <= 25; ++minute) {
    w.progress().OnTick(s, kStart + Millis{minute * 60'000});
  }
  EXPECT_EQ(w.Text(),
            "2026-11-30T20:10:00Z searching: 1 launches open, 2.00 GPU-h charged, 0 held\n"
            "2026-11-30T20:20:00Z searching: 1 launches open, 2.00 GPU-h charged, 0 held\n");
}

TEST(Progress, QuietSaysNothing) {
  ProgressStyle style;
  style.quiet = true;
  Written w(style);
  w.progress().OnTick(Running(), kStart);
  w.progress().OnTick(Running(), kStart + std::chrono::hours(1));
  EXPECT_EQ(w.Text(), "");
}

TEST(Progress, ATerminalHasTheTimeOnTheWall) {
  setenv("TZ", "UTC-2", 1);  // POSIX: two hours east
  tzset();
  ProgressStyle style;
  style.live = true;
  Written w(style);
  w.progress().OnEvent(CampaignState{}, Event{9, kStart, UserAsked{"drain"}});
  EXPECT_EQ(w.Text(), "22:00:00 asked: drain\n");
  unsetenv("TZ");
  tzset();
}

TEST(Progress, LiveLinesGoOnBetweenEventsAndStayWhereTheShellWroteBelowThem) {
  ProgressStyle style;
  style.live = true;
  const Signals signals(OnInterrupt::kDrain);
  Written w(style);
  w.progress().OnTick(Running(), kStart + Millis{1'000});
  EXPECT_NE(w.Text().find("last news 1s ago"), std::string::npos) << w.Text();
  const std::size_t before = w.Text().size();
  w.progress().OnTick(Running(), kStart + Millis{3'000});
  EXPECT_NE(w.Text().find("\x1b[1A", before), std::string::npos);
  EXPECT_NE(w.Text().find("last news 3s ago", before), std::string::npos);
  // Ctrl-Z, and fg: what stands above the cursor now is not ours.
  raise(SIGCONT);
  const std::size_t continued = w.Text().size();
  w.progress().OnTick(Running(), kStart + Millis{6'000});
  EXPECT_EQ(w.Text().find("\x1b[1A", continued), std::string::npos);
  EXPECT_NE(w.Text().find("last news 6s ago", continued), std::string::npos);
}

}  // namespace
}  // namespace attune::cli
