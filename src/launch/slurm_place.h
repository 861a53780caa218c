// Where the run folders of a Slurm launcher lie and Slurm's programs run: on this machine, or
// behind a login node that is reached over ssh (slurm_login.cc).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/slurm.h"
#include "host_side.h"

namespace attune::launch {

class SlurmPlace {
 public:
  explicit SlurmPlace(const SlurmOptions& options) : o_(options) {}
  virtual ~SlurmPlace() = default;

  virtual os::ProcessRunner& programs() = 0;
  // A launch's folder as the nodes name it, and the one on this machine that is read: the same, or
  // a mirror of it.
  std::string OnNodes(const Token& token) const { return o_.run_root + "/" + token.value; }
  virtual std::string Here(const Token& token) const { return OnNodes(token); }
  // attune-wrapper as the nodes find it, once a launch was placed.
  Result<std::string> Wrapper();

  // Nothing of a launch is there yet: an error is certain.
  virtual Status Ready() = 0;
  // host_side.h: PlaceBatch. kUnavailable: it may have been placed.
  virtual Result<bool> Place(const BatchFiles& files) = 0;
  // May sbatch have been called for it? Then its plan can be read in Here() from now on.
  virtual Result<bool> WasPlaced(const Token& token) = 0;
  // Brings here what these launches wrote since the last time; with `now` in any case, else when a
  // while has passed. An Error: what is here may be old.
  virtual Status Bring(const std::vector<const Plan*>& launches, bool now) = 0;
  virtual Status AskToStop(const Plan& plan, const std::optional<RunId>& run) = 0;
  virtual Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                                    std::int64_t offset, std::int64_t size) = 0;
  virtual Result<std::string> BringHere(const LaunchHandle& handle, const std::string& path,
                                        std::int64_t max_bytes) = 0;

 protected:
  Result<std::string_view> WrapperBytes();  // of this build's
  const SlurmOptions& o_;

 private:
  std::string wrapper_bytes_;
};

// By options.login. `options` must outlive it.
std::unique_ptr<SlurmPlace> MakeSlurmPlace(const SlurmOptions& options);
std::unique_ptr<SlurmPlace> MakeLoginPlace(const SlurmOptions& options);

}  // namespace attune::launch
