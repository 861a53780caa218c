// The launcher of attune/launch/ssh.h: submits and wishes in ssh.cc, looking in ssh_watch.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ask_host.h"
#include "attune/launch/ssh.h"
#include "remote_job.h"
#include "run_folder.h"
#include "ssh_transport.h"
#include "submit_answer.h"

namespace attune::launch {

// The token of one host's share: each has a run folder and a mark of its own, also where two hosts
// are one machine or share their file system.
Token ShareToken(const Token& token, std::size_t node);

class SshLauncher final : public Launcher {
 public:
  explicit SshLauncher(SshOptions options);

  Result<Submitted> Submit(const LaunchSpec& spec) override;
  Result<std::optional<LaunchHandle>> Find(const Token& token) override;
  Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles, Instant until,
                                           int steps) override;
  Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) override;
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override;
  Result<std::string> BringHere(const LaunchHandle& handle, const std::string& path,
                                std::int64_t max_bytes) override;
  Millis ReleaseMargin() const override { return o_.release_margin; }

  Result<HostReport> Probe(const std::string& host, const std::string& workdir,
                           const std::string& program);

 private:
  std::string MirrorOf(const Token& token) const { return o_.mirror_root + "/" + token.value; }
  LaunchHandle HandleOf(const Token& token, const std::string& host,
                        const StartRecord& start) const {
    return {token, host + ":" + std::to_string(start.process.pid), MirrorOf(token)};
  }
  std::vector<std::string> KnownHosts(const Token& token) const;
  Result<std::vector<std::string>> PickHosts(const LaunchSpec& spec, std::size_t nodes) const;
  Result<std::vector<Plan>> Plans(const LaunchSpec& spec, const std::vector<std::string>& hosts);
  Result<SubmitAnswer> SubmitShare(const std::string& host, const Plan& plan);
  Result<std::optional<StartRecord>> FindShare(const std::string& host, const Token& token);
  Status CancelShare(const std::string& host, const Token& token, const std::optional<RunId>& run);
  Result<std::vector<std::string>> HostsThatHave(const Token& token);
  Result<Plan> PlanOf(const Token& token, std::size_t node, const std::string& host);
  Result<RemoteJob*> JobOf(const Token& token);
  Result<std::string> Ask(const std::string& host, const std::string& request, Millis limit,
                          bool interruptible);
  Patience HowPatient() const { return {o_.clock, o_.pause, o_.patience}; }

  std::vector<Share*> Due(std::span<const LaunchHandle> handles, Millis now);
  Result<bool> LookAt(const std::string& host, const std::vector<Share*>& shares, Millis wait);
  Status NoteSilence(const std::vector<Share*>& shares, const Error& error);
  void StopOthers(RemoteJob& job);
  Millis Gap(const Share& share) const;

  SshOptions o_;
  os::PosixProcessRunner own_runner_;
  os::ProcessRunner& runner_;
  SshTransport ssh_;
  std::map<Token, RemoteJob> jobs_;
};

}  // namespace attune::launch
