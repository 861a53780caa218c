// What a host is like: doctor, plan --ask-scheduler.
#include "attune/base/text.h"
#include "exchange.h"
#include "ssh_launcher.h"

namespace attune::launch {

Result<HostReport> SshLauncher::Probe(const std::string& host, const std::string& workdir,
                                      const std::string& program) {
  ATTUNE_RETURN_IF_ERROR(ssh_.EnsureWrapper(host));
  const Instant asked = o_.clock->Now();
  ATTUNE_TRY(const std::string bytes,
             Ask(host, Encode(ProbeRequest{o_.run_root, workdir, program}), o_.call_limit, true));
  const Instant answered = o_.clock->Now();
  ATTUNE_TRY(const ProbeAnswer a, DecodeProbeAnswer(bytes));
  HostReport r;
  r.host = a.host;
  r.file_system = a.file_system;
  r.program = a.program;
  r.answer_time = answered - asked;
  r.clock_ahead = Instant{a.wall_ms} - (asked + r.answer_time / 2);
  r.free_bytes = a.free_bytes;
  r.cores = a.cores;
  r.jobs = a.jobs;
  r.load = a.load;
  r.root_writable = a.root_writable;
  r.workdir_there = a.workdir_there;
  const auto gpus = ssh_.Call(
      host, {"nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"}, {},
      o_.call_limit);
  if (gpus && gpus->exit_code == 0) {
    r.gpu_processes = static_cast<int>(SplitLines(Trim(gpus->out)).size());
  }
  return r;
}

}  // namespace attune::launch

namespace attune {

Result<HostReport> ProbeHost(const SshOptions& options, const std::string& host,
                             const std::string& workdir, const std::string& program) {
  launch::SshLauncher launcher(options);
  return launcher.Probe(host, workdir, program);
}

}  // namespace attune
