// A campaign answered from another one's record. Its requests are rendered in the recorded wire
// form, so that equal states give equal bytes, and the k-th answer that is needed is the k-th that
// was kept: a run on real hardware measures other numbers and asks with other bytes.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "exchanges.h"
#include "wire.h"

namespace attune::llm {
namespace {

class Replay final : public Client {
 public:
  Replay(Exchanges recorded, Exchanges own, std::vector<Profile> models)
      : recorded_(std::move(recorded)), own_(std::move(own)), models_(std::move(models)) {}

  std::vector<std::string> Models() const override {
    std::vector<std::string> names;
    for (const Profile& profile : models_) names.push_back(profile.model);
    return names;
  }

  Result<Prepared> Prepare(const Request& request, std::size_t which) const override {
    if (which >= models_.size()) return Fail(ErrorCode::kInternal, "no such model in the list");
    const Profile& profile = models_[which];
    Prepared prepared;
    prepared.model = profile.model;
    prepared.profile = profile.name;
    Request clean = request;
    const Redactor redact;
    clean.system = redact(request.system);
    clean.user = redact(request.user);
    ATTUNE_TRY(prepared.body, RenderBody(profile, clean));
    prepared.body_hash = Sha256Hex(prepared.body);
    prepared.max_tokens = request.max_tokens;
    prepared.prompt_bytes = PromptBytes(profile, clean);
    for (const Tool& tool : request.tools) prepared.tools.push_back(tool.name);
    prepared.bound_usd_micros = 0;  // nothing is sent
    return prepared;
  }

  Status Keep(const std::string& call, const Prepared& prepared) override {
    for (const Profile& profile : models_) {
      if (profile.model != prepared.model || profile.name != prepared.profile) continue;
      return own_.KeepRequest(call, prepared,
                              {profile.api, profile.output, profile.cap_field, profile.strict});
    }
    return Fail(ErrorCode::kInvalidInput, "this model is not in the record");
  }
  Result<Prepared> Kept(const std::string& call) override { return own_.Request(call); }

  Result<Turn> Send(const std::string& call, const Prepared& prepared, const SendLimits&) override {
    ATTUNE_TRY(const std::vector<std::string> kept, recorded_.Calls(true));
    ATTUNE_TRY(const std::size_t next, NextAnswer(prepared));
    Turn turn;
    if (next >= kept.size()) {
      turn.kind = TurnKind::kUnreachable;
      turn.error = fmt::format("the record is over after {} answers", kept.size());
      return turn;
    }
    ATTUNE_TRY(std::optional<Exchange> exchange, recorded_.Reply(kept[next]));
    if (!exchange || !exchange->turn) {
      return Fail(ErrorCode::kCorrupt, fmt::format("{}: no answer in it", kept[next]));
    }
    turn = std::move(*exchange->turn);
    turn.usd_micros = 0;
    ATTUNE_RETURN_IF_ERROR(own_.KeepReply(call, {}, turn));
    return turn;
  }

 private:
  // Which answer of the record is due. One that was kept but lost with its process, before it was
  // committed, is asked for once more with the same bytes: it is given again.
  Result<std::size_t> NextAnswer(const Prepared& prepared) const {
    ATTUNE_TRY(const std::vector<std::string> mine, own_.Calls(true));
    std::size_t next = 0;
    std::string before;
    bool says_something = false;  // after such an answer, only a lost one is asked for alike
    for (const std::string& call : mine) {
      ATTUNE_TRY(const Prepared asked, own_.Request(call));
      if (!says_something || asked.body_hash != before) ++next;
      ATTUNE_TRY(const std::optional<Exchange> exchange, own_.Reply(call));
      before = asked.body_hash;
      says_something = exchange && exchange->turn &&
                       (exchange->turn->kind == TurnKind::kAction ||
                        exchange->turn->kind == TurnKind::kFormatError ||
                        exchange->turn->kind == TurnKind::kTruncated);
    }
    return says_something && before == prepared.body_hash ? next - 1 : next;
  }

  Exchanges recorded_, own_;
  std::vector<Profile> models_;
};

}  // namespace

Result<std::unique_ptr<Client>> MakeReplay(const std::string& recorded, std::string folder) {
  Exchanges record(recorded);
  ATTUNE_TRY(const std::vector<std::string> calls, record.Calls(false));
  std::vector<Profile> models;
  for (const std::string& call : calls) {
    ATTUNE_TRY(const Prepared prepared, record.Request(call));
    const bool known = std::any_of(models.begin(), models.end(), [&](const Profile& profile) {
      return profile.model == prepared.model && profile.name == prepared.profile;
    });
    if (known) continue;
    ATTUNE_TRY(const WireForm form, record.Form(call));
    Profile profile;
    profile.name = prepared.profile;
    profile.model = prepared.model;
    profile.api = form.api;
    profile.output = form.output;
    profile.cap_field = form.cap_field;
    profile.strict = form.strict;
    models.push_back(std::move(profile));
  }
  if (models.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: no request is kept there", recorded),
                "replay a campaign whose tuner was agent");
  }
  return std::unique_ptr<Client>(
      std::make_unique<Replay>(std::move(record), Exchanges(std::move(folder)), std::move(models)));
}

}  // namespace attune::llm
