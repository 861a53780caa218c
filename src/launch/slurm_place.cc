#include "slurm_place.h"

#include "attune/launch/local.h"
#include "attune/os/files.h"

namespace attune::launch {
namespace {

// The nodes share the run folders with this machine.
class PlaceHere final : public SlurmPlace {
 public:
  using SlurmPlace::SlurmPlace;

  os::ProcessRunner& programs() override { return o_.runner == nullptr ? own_ : *o_.runner; }
  Status Ready() override {
    ATTUNE_TRY(const std::string_view bytes, WrapperBytes());
    return PlaceWrapper(o_.run_root, bytes);
  }
  Result<bool> Place(const BatchFiles& files) override {
    return PlaceBatch(o_.run_root, files, *o_.clock);
  }
  Result<bool> WasPlaced(const Token& token) override {
    // A start record without the mark: an earlier session started it inside its allocation.
    return os::Exists(OnNodes(token) + "/" + kSubmitMark) ||
           os::Exists(AttemptFolder(OnNodes(token), 0) + "/start");
  }
  Status Bring(const std::vector<const Plan*>& /*launches*/, bool /*now*/) override { return {}; }
  Status AskToStop(const Plan& plan, const std::optional<RunId>& run) override {
    return launch::AskToStop(AttemptFolder(OnNodes(plan.spec.token), 0), plan, run, *o_.clock);
  }
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override {
    return FetchBelow(OnNodes(handle.token), handle, path, offset, size);
  }
  Result<std::string> BringHere(const LaunchHandle& handle, const std::string& /*path*/,
                                std::int64_t /*max_bytes*/) override {
    return handle.folder;
  }

 private:
  os::PosixProcessRunner own_;
};

}  // namespace

Result<std::string_view> SlurmPlace::WrapperBytes() {
  if (wrapper_bytes_.empty()) {
    std::string path = o_.wrapper;
    if (path.empty()) {
      ATTUNE_TRY(path, FindWrapper());
    }
    ATTUNE_TRY(wrapper_bytes_, os::ReadFileBounded(path, kMaxWrapperBytes));
  }
  return std::string_view(wrapper_bytes_);
}

Result<std::string> SlurmPlace::Wrapper() {
  ATTUNE_TRY(const std::string_view bytes, WrapperBytes());
  return PlacedWrapper(o_.run_root, bytes);
}

std::unique_ptr<SlurmPlace> MakeSlurmPlace(const SlurmOptions& options) {
  if (!options.login.empty()) {
    return MakeLoginPlace(options);
  }
  return std::make_unique<PlaceHere>(options);
}

}  // namespace attune::launch
