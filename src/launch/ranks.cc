#include "ranks.h"

#include <algorithm>

#include "attune/base/text.h"

namespace attune::launch {
namespace {

constexpr int kFirstPort = 20'000, kPorts = 12'000;

bool IsPython(const std::string& program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

// Of Python's own options: those whose value is the next word.
bool TakesValue(const std::string& option) { return option == "-X" || option == "-W"; }

}  // namespace

int LogsOf(const Stage& stage) {
  return stage.kind == RanksKind::kEnv ? std::max(1, stage.ranks) : 1;
}

int PortFor(const Token& token, std::size_t stage) {
  const std::string hash = Sha256Hex(token.value + "/" + std::to_string(stage));
  int n = 0;
  for (int i = 0; i < 8; ++i) {
    const char c = hash[static_cast<std::size_t>(i)];
    n = (n * 16 + (c <= '9' ? c - '0' : c - 'a' + 10)) % kPorts;
  }
  return kFirstPort + n;
}

std::vector<std::string> UnderTorchrun(const Stage& stage) {
  std::vector<std::string> flags = {"--nproc-per-node", std::to_string(std::max(1, stage.ranks)),
                                    "--max-restarts", "0"};
  if (stage.nodes > 1) {
    for (const std::string& word :
         {std::string("--nnodes"), std::to_string(stage.nodes), std::string("--node-rank"),
          std::to_string(stage.node_rank), std::string("--master-addr"), stage.master_addr,
          std::string("--master-port"), std::to_string(stage.master_port)}) {
      flags.push_back(word);
    }
  } else {
    flags.push_back("--standalone");  // a free port of its own
  }
  std::vector<std::string> out;
  std::size_t at = 0;
  if (!IsPython(stage.argv[0])) {
    out.push_back("torchrun");
    flags.push_back("--no-python");
  } else {
    out.push_back(stage.argv[at++]);
    while (at < stage.argv.size() && stage.argv[at].starts_with('-') && stage.argv[at] != "-m" &&
           stage.argv[at] != "-c") {
      const bool pair = TakesValue(stage.argv[at]) && at + 1 < stage.argv.size();
      out.push_back(stage.argv[at++]);
      if (pair) {
        out.push_back(stage.argv[at++]);
      }
    }
    out.push_back("-m");
    out.push_back("torch.distributed.run");
  }
  out.insert(out.end(), flags.begin(), flags.end());
  out.insert(out.end(), stage.argv.begin() + static_cast<std::ptrdiff_t>(at), stage.argv.end());
  return out;
}

Result<Stage> OnNode(Stage stage, int node_rank, const std::string& master_addr, int master_port) {
  stage.node_rank = node_rank;
  if (stage.nodes > 1) {
    // The user knows best by which name or interface the nodes reach each other.
    const auto addr = stage.env.find("MASTER_ADDR");
    const auto port = stage.env.find("MASTER_PORT");
    stage.master_addr = addr == stage.env.end() ? master_addr : addr->second;
    stage.master_port = port == stage.env.end()
                            ? master_port
                            : static_cast<int>(ParseInt(port->second).value_or(-1));
    if (stage.master_port < 1 || stage.master_port > 65'535) {
      return Fail(ErrorCode::kInvalidInput,
                  "MASTER_PORT=" + EscapeForDisplay(port->second, 40) + " is no port");
    }
  }
  switch (stage.kind) {
    case RanksKind::kNone:
      stage.ranks = 0;
      break;
    case RanksKind::kEnv:
      break;
    case RanksKind::kTorchrun:
      if (!stage.argv.empty()) {
        stage.argv = UnderTorchrun(stage);
      }
      stage.kind = RanksKind::kNone;
      stage.ranks = 0;
      break;
    case RanksKind::kSrun:
      return Fail(ErrorCode::kInvalidInput, "ranks.kind srun needs launcher.kind slurm");
  }
  return stage;
}

}  // namespace attune::launch
