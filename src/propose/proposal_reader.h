// The reader of a proposal's tree, for whoever holds one (a reply, a question about a candidate).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/model/proposal.h"
#include "strict_json.h"

namespace attune {

class ProposalReader : public strict::Reader {
 public:
  std::optional<Proposal> ReadProposal(const strict::Node& root,
                                       std::span<const std::string_view> demanded = {});
  std::optional<StopWish> ReadStop(const strict::Node& root);
  bool Changes(const strict::Node& node, std::vector<Edit>& out);

 private:
  template <class T>
  std::optional<T> Missed(std::string why) {
    No(std::move(why));
    return std::nullopt;
  }
  bool Gain(const strict::Node* node, std::optional<std::pair<double, double>>& out);
  bool Scalar(const strict::Node& node, std::string& out);
  bool SetValue(const strict::Node& value, Edit& edit);
  bool OneEdit(const strict::Node& node, Edit& edit);
};

}  // namespace attune
