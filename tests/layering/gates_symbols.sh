#!/bin/sh
# gates_symbols.sh NM PROGRAM: what the whole gates archive pulled into PROGRAM reaches no clock,
# file, log, random number, environment, network, thread or process, directly or through another
# part.
set -eu
nm=$1
program=$2

ours=' [Tt] attune::(log::|Clock|SystemClock|Random)'
# What the program itself calls in the C library; what libstdc++ does inside is not in its list.
libc='(secure_)?getenv|setenv|putenv|open(at)?(64)?|f(re)?open(64)?|creat|unlink|rename|mkdir'
libc="$libc|socket|connect|bind|getaddrinfo|clock_gettime|clock_nanosleep|nanosleep|gettimeofday"
libc="$libc|time|getrandom|s?rand(om)?|pthread_create|v?fork|execv?[ep]*|posix_spawnp?|system|popen"

found=$({
  "$nm" -C --defined-only "$program" | grep -E "$ours"
  "$nm" -D --undefined-only "$program" | sed 's/@.*//' | awk '{print $NF}' | grep -xE "$libc"
} || true)
if [ -n "$found" ]; then
  echo "the gates reach the outside world:"
  echo "$found"
  exit 1
fi
