// Ids are strings on disk and on screen; here each kind is a type of its own.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <utility>

namespace attune {

template <class Tag>
struct Id {
  std::string value;

  Id() = default;
  explicit Id(std::string v) : value(std::move(v)) {}
  bool operator==(const Id&) const = default;
  // Shorter first, so that numbered ids stand in the order of their numbers (r999 before r1000).
  std::strong_ordering operator<=>(const Id& o) const {
    if (value.size() != o.value.size()) return value.size() <=> o.value.size();
    return value.compare(o.value) <=> 0;
  }
  bool empty() const { return value.empty(); }
};

using CampaignId = Id<struct CampaignTag>;  // c-20261130-7f3a
using LaunchId = Id<struct LaunchTag>;      // l007
using RunId = Id<struct RunTag>;            // r007
using ProposalId = Id<struct ProposalTag>;  // p012
// attune-<campaign>-<launch>-<8 hex>, only [a-z0-9-]: the job name, and the claim of a launch.
using Token = Id<struct TokenTag>;

}  // namespace attune

template <class Tag>
struct std::hash<attune::Id<Tag>> {
  std::size_t operator()(const attune::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.value);
  }
};
