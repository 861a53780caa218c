// An HTTP server in memory: answers in order, remembers what was asked, and refuses what the test
// did not script.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "attune/os/http.h"
#include "fakes/virtual_clock.h"

namespace attune::fakes {

class FakeHttp final : public os::HttpTransport {
 public:
  explicit FakeHttp(VirtualClock* clock = nullptr) : clock_(clock) {}

  os::HttpOutcome Perform(const os::HttpRequest& request) override {
    requests.push_back(request);
    if (clock_ != nullptr) clock_->Advance(takes);
    if (answers.empty()) {
      return os::HttpFailure{os::HttpTrouble::kUrl, "the test scripted no answer", false};
    }
    os::HttpOutcome answer = answers.front();
    if (answers.size() > 1 || !repeat_last) answers.pop_front();
    return answer;
  }

  void Reply(int status, std::string body,
             std::vector<std::pair<std::string, std::string>> headers = {}) {
    headers.emplace(headers.begin(), "content-type", "application/json");
    answers.push_back(os::HttpReply{status, std::move(headers), std::move(body), Millis{40}});
  }
  void Fail(os::HttpTrouble trouble, bool sent = true) {
    answers.push_back(os::HttpFailure{trouble, "scripted", sent});
  }

  std::deque<os::HttpOutcome> answers;
  bool repeat_last = false;  // the last answer again and again
  Millis takes{0};           // of the virtual clock, each request
  std::vector<os::HttpRequest> requests;

 private:
  VirtualClock* clock_;
};

}  // namespace attune::fakes
