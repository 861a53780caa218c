// What a running campaign tells on stderr: one line a state change, and on a terminal three live
// lines below them (cli.md section 3.1).
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"

namespace attune::cli {

struct ProgressStyle {
  bool live = false;    // terminal: redraw the live lines
  bool colour = false;  // meaning is never in colour alone
  bool quiet = false;   // nothing but what ends the campaign
};

// The line for one event, without its time; nullopt when the event is no news for people. Pure.
std::optional<std::string> EventLine(const CampaignState& state, const Event& event);
// The live lines for a state, at most three, each at most `width` columns. Pure.
std::vector<std::string> LiveLines(const CampaignState& state, Instant now, int width);

class Progress {
 public:
  Progress(std::FILE* out, ProgressStyle style) : out_(out), style_(style) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void OnEvent(const CampaignState& state, const Event& event);
  // Between events: live lines go on, and a plain log says now and then that all is well.
  void OnTick(const CampaignState& state, Instant now);
  // Takes the live lines away, so that what follows starts on a clean line.
  void Clear();

 private:
  void Say(const std::string& line, Instant at);
  void Draw(const CampaignState& state, Instant now);

  std::FILE* out_;
  ProgressStyle style_;
  int drawn_ = 0;
  Instant last_draw_, last_line_;
};

}  // namespace attune::cli
