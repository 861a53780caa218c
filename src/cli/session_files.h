// What a session writes beside the database: its events as lines, and figures for a node exporter.
// The database is the truth; a file that cannot be written is said once and stops nothing.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "attune/base/result.h"
#include "attune/model/campaign.h"
#include "attune/store/store.h"

namespace attune::cli {

class SessionFiles {
 public:
  // Either name may be empty. The event file is written anew, from the campaign's first event on.
  // Error: a file cannot be made.
  static Result<std::unique_ptr<SessionFiles>> Open(Store& store, const CampaignId& campaign,
                                                    const std::string& events,
                                                    const std::string& metrics);
  ~SessionFiles();
  SessionFiles(const SessionFiles&) = delete;
  SessionFiles& operator=(const SessionFiles&) = delete;

  void OnEvent(const CampaignState& state, const Event& event);

 private:
  SessionFiles(Store& store, CampaignId campaign, std::string metrics)
      : store_(store), campaign_(std::move(campaign)), metrics_(std::move(metrics)) {}
  Status Catch(std::int64_t up_to);

  Store& store_;
  CampaignId campaign_;
  std::string metrics_;
  std::FILE* events_ = nullptr;
  std::int64_t written_ = 0;  // seq of the last event in the file
  bool failed_ = false;
};

// Prometheus' text form, without times (cli.md section 3.9). Pure.
std::string MetricsText(const CampaignState& state);

}  // namespace attune::cli
