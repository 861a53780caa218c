#include <fmt/core.h>

#include <fstream>

#include "attune/base/text.h"
#include "attune/propose/proposer.h"

namespace attune {
namespace {

constexpr std::size_t kMaxScriptBytes = 16u << 20;

class ScriptedProposer final : public Proposer {
 public:
  explicit ScriptedProposer(std::vector<std::string> replies) : replies_(std::move(replies)) {}

  std::string Name() const override { return "scripted"; }

  // The n-th reply answers the n-th question of the campaign, so a restart goes on where it was.
  Result<ProposerReply> Propose(const CampaignState& s, const Vet&) override {
    const std::size_t n = s.proposals.size();
    if (n >= replies_.size()) return StopWish{"the script is over", {}};
    return ParseProposal(replies_[n]);
  }

 private:
  std::vector<std::string> replies_;
};

}  // namespace

Result<std::unique_ptr<Proposer>> MakeScriptedProposer(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: the proposals file can't be read", path),
                "give a file with one proposal a line (docs/formats/proposals.md)");
  }
  std::string text(kMaxScriptBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxScriptBytes) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{}: larger than 16 MiB", path));
  }
  std::vector<std::string> replies;
  for (const std::string_view line : SplitLines(text)) {
    if (!Trim(line).empty()) replies.emplace_back(line);
  }
  return std::unique_ptr<Proposer>(std::make_unique<ScriptedProposer>(std::move(replies)));
}

}  // namespace attune
