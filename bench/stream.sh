#!/usr/bin/env bash
# How fast a worker gets activations: a synthetic bf16 set (512 sequences of 256 positions, d_model
# 576: 302 MB, in the page cache after the first pass), a real lorsad, and a client in another
# process that streams the set over loopback with the generated classes. Last line: "MB/s X", the
# median of the passes (10^6 bytes of sequences per second).
#
# Usage: bench/stream.sh [--passes N] [--reader-threads N]
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsa lorsad stream_bench > /dev/null

work=$(mktemp -d)
server_pid=
clean_up() {
  if [[ -n $server_pid ]]; then kill "$server_pid" && wait "$server_pid" || true; fi
  rm -rf "$work"
}
trap clean_up EXIT

"$build/bin/stream_bench" make-set "$work/sets/bench"
# No job runs here, so any program does as a worker.
"$build/bin/lorsad" --data-dir "$work/data" --listen 127.0.0.1:0 --activation-root "$work/sets" \
  --worker-binary "$(type -P true)" --log-level warn &
server_pid=$!
until [[ -s $work/data/endpoint ]]; do
  kill -0 "$server_pid"
  sleep 0.1
done
server=$(< "$work/data/endpoint")
"$build/bin/lorsa" --server "$server" set register bench "$work/sets/bench" > /dev/null
"$build/bin/stream_bench" stream --server "$server" "$@"
