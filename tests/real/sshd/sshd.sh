#!/usr/bin/env bash
# A real OpenSSH server for tests, on the loopback: host and client keys, configuration, port and
# cache are its own and lie in one folder, so any number of them can run side by side.
#
#   sshd.sh start DIR    prints the path of a program that takes ssh's place (ATTUNE_SSH): hosts
#                        node, node1 ... node9 are this server
#   sshd.sh drop DIR     ends every connection from the server's side, as a dropped line does; what
#                        was started detached goes on
#   sshd.sh pause DIR    freezes the server and its connections (resume DIR)
#   sshd.sh stop DIR     ends the server and its connections; the folder stays
#
# SSHD_LINES holds further lines of sshd_config, SSHD_ENV further NAME=VALUE of its sessions.
# Exit 77: it can't be had here, and why on stderr.
set -euo pipefail

cannot() {
  echo "no sshd for tests: $*" >&2
  exit 77
}

[ $# -eq 2 ] || { echo "usage: sshd.sh start|drop|pause|resume|stop DIR" >&2; exit 2; }
verb=$1 dir=$2
PATH=$PATH:/usr/sbin:/sbin

# The processes of this server: the listener, and what it forked for connections. A connection is
# two processes, so children of children count; shells and jobs below them do not.
listener() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$dir/sshd_config" && echo "$pid"
}
connections() {
  local of=$1 pid
  for pid in $(cat "/proc/$of"/task/*/children 2>/dev/null); do
    case $(cat "/proc/$pid/comm" 2>/dev/null) in
      sshd*) echo "$pid"; connections "$pid" ;;
    esac
  done
}

free_port() {
  local port
  for _ in $(seq 50); do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
  cannot "no free port"
}

start() {
  local sshd port user n
  sshd=$(type -P sshd) || cannot "openssh-server is not installed (tests/packages.sh, group ssh)"
  type -P ssh-keygen >/dev/null || cannot "openssh-client is not installed"
  umask 077
  mkdir -p "$dir/cache"
  dir=$(cd "$dir" && pwd -P)
  if [ "$(id -u)" = 0 ]; then
    # sshd insists on its privilege separation folder; a package makes it only with its service.
    mkdir -p /run/sshd && chmod 755 /run/sshd
  fi
  for key in host client; do
    [ -s "$dir/$key" ] || ssh-keygen -q -t ed25519 -N '' -C "attune-test-$key" -f "$dir/$key"
  done
  port=$(cat "$dir/port" 2>/dev/null) || { port=$(free_port); echo "$port" >"$dir/port"; }
  user=$(id -un)
  {
    # sshd takes the first of two lines for one thing.
    [ -z "${SSHD_LINES:-}" ] || printf '%s\n' "$SSHD_LINES"
    printf '%s\n' "ListenAddress 127.0.0.1:$port" "HostKey $dir/host" "PidFile $dir/pid" \
      "AuthorizedKeysFile $dir/client.pub" "PermitRootLogin prohibit-password" \
      "PasswordAuthentication no" "KbdInteractiveAuthentication no" "UsePAM no" "StrictModes no" \
      "UseDNS no" "PrintMotd no" "PrintLastLog no" "MaxStartups 100" \
      "SetEnv XDG_CACHE_HOME=$dir/cache ${SSHD_ENV:-}"
  } >"$dir/sshd_config"
  printf '[127.0.0.1]:%s %s\n' "$port" "$(cut -d' ' -f1,2 "$dir/host.pub")" >"$dir/known_hosts"
  printf '%s\n' "Host node node?" "  HostName 127.0.0.1" "  Port $port" "  User $user" \
    "  IdentityFile $dir/client" "  IdentitiesOnly yes" "  StrictHostKeyChecking yes" \
    "  UserKnownHostsFile $dir/known_hosts" >"$dir/ssh_config"
  printf '#!/bin/sh\nexec ssh -F "%s" "$@"\n' "$dir/ssh_config" >"$dir/ssh"
  chmod 700 "$dir/ssh"
  if ! listener >/dev/null; then
    "$sshd" -t -f "$dir/sshd_config" 2>"$dir/check" || cannot "$(tail -n 1 "$dir/check")"
    "$sshd" -f "$dir/sshd_config" -E "$dir/log" || cannot "it did not start: $(tail -n 1 "$dir/log")"
  fi
  n=50
  until "$dir/ssh" -o BatchMode=yes -o ConnectTimeout=5 node true 2>"$dir/check"; do
    n=$((n - 1))
    [ "$n" -gt 0 ] || cannot "nobody can log in: $(tail -n 1 "$dir/check")"
    sleep 0.1
  done
  echo "$dir/ssh"
}

case $verb in
  start) start ;;
  drop)
    # shellcheck disable=SC2046  # a list of numbers
    kill -KILL $(connections "$(listener)") 2>/dev/null || true
    ;;
  pause | resume)
    main=$(listener)
    # shellcheck disable=SC2046
    kill "-$([ "$verb" = pause ] && echo STOP || echo CONT)" "$main" $(connections "$main")
    ;;
  stop)
    if main=$(listener); then
      # shellcheck disable=SC2046
      kill -CONT "$main" $(connections "$main") 2>/dev/null || true
      # shellcheck disable=SC2046
      kill -KILL $(connections "$main") "$main" 2>/dev/null || true
    fi
    rm -f "$dir/pid"
    ;;
  *) echo "sshd.sh: unknown word $verb" >&2; exit 2 ;;
esac
