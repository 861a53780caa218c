// A language model in memory: answers what the test says, and remembers what it was asked. Its kept
// requests outlive a FakeModel, as files outlive a process.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attune/base/text.h"
#include "attune/llm/client.h"

namespace attune::fakes {

// What the provider's side knows, whatever becomes of attune.
struct ModelWorld {
  // The answer to the nth request that is sent (from 0).
  std::function<llm::Turn(std::size_t nth, const llm::Prepared& asked)> answer;
  std::vector<std::string> models = {"model-a"};
  std::optional<std::int64_t> bound_usd_micros = 1'000;
  std::map<std::string, llm::Prepared> kept;
  std::vector<llm::Request> prepared;     // every request that was rendered
  std::vector<llm::Prepared> sent;        // in order
  std::function<void(const char*)> hook;  // "sent": it is out, nobody has the answer
};

inline llm::Turn Action(std::string tool, std::string arguments) {
  llm::Turn turn;
  turn.kind = llm::TurnKind::kAction;
  turn.tool = std::move(tool);
  turn.arguments = std::move(arguments);
  turn.usage.in = 100;
  turn.usage.out = 10;
  turn.usd_micros = 500;
  turn.tries = 1;
  turn.status = 200;
  return turn;
}
inline llm::Turn Failed(llm::TurnKind kind, std::string error) {
  llm::Turn turn;
  turn.kind = kind;
  turn.error = std::move(error);
  return turn;
}

class FakeModel final : public llm::Client {
 public:
  explicit FakeModel(ModelWorld* world) : world_(world) {}

  std::vector<std::string> Models() const override { return world_->models; }
  Result<llm::Prepared> Prepare(const llm::Request& request, std::size_t which) const override {
    world_->prepared.push_back(request);
    llm::Prepared prepared;
    prepared.model = world_->models.at(which);
    prepared.body = prepared.model + "\n" + request.system + "\n---\n" + request.user;
    for (const llm::Tool& tool : request.tools) prepared.body += "\n" + tool.name + tool.schema;
    prepared.body_hash = Sha256Hex(prepared.body);
    prepared.max_tokens = request.max_tokens;
    prepared.bound_usd_micros = world_->bound_usd_micros;
    return prepared;
  }
  Status Keep(const std::string& call, const llm::Prepared& prepared) override {
    const auto [it, fresh] = world_->kept.emplace(call, prepared);
    if (!fresh && it->second.body != prepared.body) {
      return Fail(ErrorCode::kCorrupt, call + " is kept with other bytes");
    }
    return {};
  }
  Result<llm::Prepared> Kept(const std::string& call) override {
    const auto it = world_->kept.find(call);
    if (it == world_->kept.end()) return Fail(ErrorCode::kNotFound, call + " is not kept");
    return it->second;
  }
  Result<llm::Turn> Send(const std::string&, const llm::Prepared& prepared,
                         const llm::SendLimits& limits) override {
    if (limits.pulse && !limits.pulse()) return Failed(llm::TurnKind::kInterrupted, "stopped");
    world_->sent.push_back(prepared);
    if (world_->hook) world_->hook("sent");
    return world_->answer(world_->sent.size() - 1, prepared);
  }

 private:
  ModelWorld* world_;
};

}  // namespace attune::fakes
