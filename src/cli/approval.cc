#include "approval.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "attune/base/text.h"
#include "attune/model/lever.h"

namespace attune::cli {

std::string ApprovalQuestion(const CampaignState& s, const ProposalRecord& proposal,
                             const LaunchIntended& launch) {
  const double price = s.recipe.price_gpu_hour_usd;
  const std::string change =
      proposal.candidate ? DescribeDifference(s.leader.user, *proposal.candidate) : std::string();
  std::string text = fmt::format(
      "launch {} ({})? It holds at most {} GPU-h{}", proposal.id.value,
      EscapeForDisplay(change, 300), ShowGpuHours(launch.hold),
      price > 0 ? fmt::format(" (${:.2f})", launch.hold.Hours() * price) : std::string());
  if (s.budget) {
    const GpuMillis left = *s.budget - s.ledger.Charged() - s.ledger.held;
    text += fmt::format("; {} of {} are left", ShowGpuHours(left), ShowGpuHours(*s.budget));
  }
  if (proposal.proposal && !proposal.proposal->hypothesis.empty()) {
    text += "; why: " + EscapeForDisplay(proposal.proposal->hypothesis, 300);
  }
  return text;
}

Approval AskWhile(int in, std::FILE* out, const std::string& question, const Pulse& pulse) {
  constexpr int kPulseMs = 500;
  constexpr std::size_t kLongestAnswer = 16;
  std::fputs((question + " [y/N/q] ").c_str(), out);
  std::fflush(out);
  std::string line;
  for (;;) {
    if (!pulse()) return Approval::kLeave;
    pollfd input{in, POLLIN, 0};
    if (poll(&input, 1, kPulseMs) <= 0) continue;  // nothing, or a signal: the pulse knows which
    char c = 0;
    const ssize_t n = read(in, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Approval::kLeave;
    if (c != '\n') {
      if (line.size() < kLongestAnswer) line += c;
      continue;
    }
    if (line == "q" || line == "quit") return Approval::kLeave;
    return line == "y" || line == "Y" || line == "yes" ? Approval::kYes : Approval::kNo;
  }
}

Approver AskAtTerminal(std::function<void()> before) {
  return [before = std::move(before)](const CampaignState& s, const ProposalRecord& proposal,
                                      const LaunchIntended& launch,
                                      const Pulse& pulse) -> Result<Approval> {
    before();
    return AskWhile(STDIN_FILENO, stderr, ApprovalQuestion(s, proposal, launch), pulse);
  };
}

}  // namespace attune::cli
