#include "attune/store/store.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "attune/base/text.h"
#include "event_json.h"
#include "file_system.h"
#include "impl.h"
#include "projector.h"

namespace attune {
namespace {

WriterIdentity ThisProcess() {
  WriterIdentity self;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) self.host = host.data();
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    std::array<char, 64> line{};
    if (std::fgets(line.data(), line.size(), file) != nullptr) self.boot_id = Trim(line.data());
    std::fclose(file);
  }
  self.pid = ::getpid();
  return self;
}

}  // namespace

std::string Store::Impl::LockPath(const CampaignId& campaign, std::int64_t epoch) const {
  return fmt::format("{}/locks/{}.{}.lock", folder, campaign.value, epoch);
}

Result<Event> Store::Impl::Write(const CampaignId& campaign, std::int64_t last_seq, Fact fact,
                                 Instant at) {
  Event event{.seq = last_seq + 1, .at = at, .fact = std::move(fact)};
  ATTUNE_TRY(const std::string body, EncodeFact(event.fact));
  Projector projector(database.connection(), campaign);
  ATTUNE_RETURN_IF_ERROR(projector.Project(event));
  ATTUNE_TRY(const int rows,
             database.connection().Run("INSERT INTO event VALUES(?, ?, ?, ?, ?)", campaign,
                                       event.seq, at, FactWord(event.fact), body));
  (void)rows;
  return event;
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const std::string& folder, StoreOptions options) {
  ATTUNE_TRY(Database database, Database::Open(folder, options));
  if (!options.read_only) ATTUNE_RETURN_IF_ERROR(MakeFolder(folder + "/locks"));
  WriterIdentity self = options.identity ? *options.identity : ThisProcess();
  auto impl = std::make_unique<Impl>(folder, std::move(database), std::move(self));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Result<std::unique_ptr<Store>> Store::OpenInMemory() {
  ATTUNE_TRY(Database database, Database::InMemory());
  auto impl = std::make_unique<Impl>("", std::move(database), ThisProcess());
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

const std::string& Store::folder() const { return impl_->folder; }
std::string Store::path() const { return impl_->database.path(); }
const StorePragmas& Store::pragmas() const { return impl_->database.pragmas(); }

Result<Event> Store::Create(const Opened& opened, Instant at) {
  const CampaignId& id = opened.id;
  // The id names files too (the lock of its writer).
  const bool plain =
      !id.empty() && id.value.size() <= 64 && id.value[0] != '-' &&
      id.value.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!plain) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("\"{}\" is no campaign id", EscapeForDisplay(id.value, 80)));
  }
  Event event;
  const auto write = [&]() -> Status {
    ATTUNE_TRY(sql::Rows rows,
               impl_->database.connection().Select("SELECT 1 FROM campaign WHERE id = ?", id));
    ATTUNE_TRY(const bool exists, rows.Next());
    if (exists) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("campaign {} exists", id.value));
    }
    ATTUNE_TRY(event, impl_->Write(id, 0, opened, at));
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(impl_->database.Transact(write));
  return event;
}

Status Store::AddWish(const CampaignId& campaign, const std::string& what, const std::string& by,
                      Instant at) {
  return impl_->database.Transact([&]() -> Status {
    sql::Connection& db = impl_->database.connection();
    ATTUNE_TRY(sql::Rows rows, db.Select("SELECT 1 FROM campaign WHERE id = ?", campaign));
    ATTUNE_TRY(const bool exists, rows.Next());
    if (!exists) {
      return Fail(ErrorCode::kNotFound, fmt::format("there is no campaign {}", campaign.value));
    }
    ATTUNE_TRY(const int added,
               db.Run("INSERT INTO wish(campaign, at_ms, what, asked_by) VALUES(?, ?, ?, ?)",
                      campaign, at, what, by));
    (void)added;
    return {};
  });
}

}  // namespace attune
