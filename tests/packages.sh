# What attune needs on Debian 12, in one place: sourced by tests/run.sh and examples/quickstart.sh.
#
#   attune_packages GROUP...   prints the names
#   attune_install GROUP...    installs what is missing, says what and why; no network if nothing is
#
# Groups: build (the program), test (its tests), torch (the real training job of examples/gpt),
# slurm (the daemons that tests/real/slurm brings up), ssh (a real sshd for the tests of jobs on
# other hosts).

attune_package_table() {
  cat <<'EOF'
build g++ compiler (C++20)
build cmake build files
build ninja-build runs the build
build ccache makes a second build fast
build pkg-config finds libraries for CMake
build libexpected-dev Result<T>, tl::expected
build libfmt-dev text formatting
build libspdlog-dev attune's own log
build libcli11-dev command-line flags
build nlohmann-json3-dev JSON
build libyaml-cpp-dev recipes and the catalog
build libre2-dev the user's own log patterns, matched in linear time
build libsqlite3-dev the campaign store
build libcurl4-openssl-dev talking to a model
build zlib1g-dev compressed traces
build libisal-dev compressed traces, faster
build libsimdjson-dev reading traces
test libgtest-dev unit tests
test libgmock-dev unit tests
test libbenchmark-dev benchmarks
test python3 checks that read what a user would read
torch python3 runs the training job
torch python3-torch the training job
torch python3-numpy the training job's data
torch libopenblas0-pthread fast matrix products on the CPU
slurm slurmctld a real Slurm on loopback
slurm slurmd its virtual nodes
slurm slurm-client sbatch, squeue, scancel
slurm munge Slurm's authentication
slurm slurmdbd accounting: what sacct says
slurm slurm-wlm-mysql-plugin accounting
slurm mariadb-server accounting
ssh openssh-server a real sshd on the loopback
ssh openssh-client ssh itself
EOF
}

attune_packages() {
  local group
  for group in "$@"; do
    attune_package_table | awk -v group="$group" '$1 == group { print $2 }'
  done | awk '!seen[$0]++'
}

attune_is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

attune_install() {
  local name missing=() total=0 as_root=()
  if ! command -v dpkg-query >/dev/null; then
    echo "  this is no Debian: nothing is installed; needed are"
    attune_packages "$@" | sed 's/^/    /'
    return 0
  fi
  for name in $(attune_packages "$@"); do
    total=$((total + 1))
    attune_is_installed "$name" || missing+=("$name")
  done
  if [ "${#missing[@]}" -eq 0 ]; then
    echo "  all $total packages are there ($*)"
    return 0
  fi
  echo "  ${#missing[@]} of $total packages are missing and will be installed:"
  for name in "${missing[@]}"; do
    attune_package_table | awk -v name="$name" '
      $2 == name { $1 = ""; $2 = ""; sub(/^ +/, ""); printf "    %-24s %s\n", name, $0; exit }'
  done
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "error: this needs root, and there is no sudo" >&2
      echo "  help: as root, run: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  # Fresh images have no package lists. A mirror that is down now may not matter: the lists that are
  # there can still do.
  ${as_root[@]+"${as_root[@]}"} apt-get update -q ||
    echo "  the package lists could not be refreshed; trying with those that are there"
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}
