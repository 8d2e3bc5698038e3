#!/usr/bin/env bash
# Builds the fuzz targets and runs each from its corpus, as many at a time as there are processors.
# Usage: tests/fuzz/run.sh [--seconds N] [--junit FILE] [TARGET…]
#
# A target runs its seeds and then N seconds (5 if not given) of new inputs, within 1 GiB, a
# minute an input and 16 KiB of input. What breaks it is kept in build/fuzz/found; to see it again:
#   build/fuzz/bin/fuzz_TARGET build/fuzz/found/TARGET-crash-…
# Fix the code, and put the input into corpus/TARGET as regression-WHAT-BROKE.
# The last line is "N passed, N failed"; the exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

seconds=5 junit=/dev/null targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --junit) junit=$2; shift 2 ;;
    -*) sed -n 's/^# Usage: /usage: /p' "$0" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [[ ${#targets[@]} -eq 0 ]]; then
  mapfile -t targets < <(ls tests/fuzz/corpus)
fi

# Everything goes to the standard error output, so that run_target's results stand alone.
build() {
  cmake --preset fuzz --log-level=WARNING >&2 &&
    cmake --build --preset fuzz --parallel "$(nproc)" >&2
}

# Prints "passed|failed TARGET RUNS" for one target; its output goes to build/fuzz/logs.
run_target() {
  local target=$1 seconds=$2 scratch log=build/fuzz/logs/$1.log outcome=failed
  scratch=$(mktemp -d)
  mkdir "$scratch/new"
  TMPDIR=$scratch build/fuzz/bin/fuzz_"$target" -max_total_time="$seconds" -timeout=60 \
    -rss_limit_mb=1024 -max_len=16384 -artifact_prefix="build/fuzz/found/$target-" \
    -print_final_stats=1 "$scratch/new" "tests/fuzz/corpus/$target" >"$log" 2>&1 && outcome=passed
  rm -rf "$scratch"
  echo "$outcome $target $(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
}
export -f run_target

write_junit() {
  echo '<testsuite name="fuzz">'
  while read -r outcome target _; do
    echo "<testcase classname=\"fuzz\" name=\"$target\">"
    [[ $outcome == passed ]] || echo "<failure message=\"see build/fuzz/logs/$target.log\"/>"
    echo '</testcase>'
  done
  echo '</testsuite>'
}

build || { echo "fuzz: the targets do not build" >&2; echo "0 passed, ${#targets[@]} failed"; exit 1; }
mkdir -p build/fuzz/logs build/fuzz/found
results=$(printf '%s\n' "${targets[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'run_target "$1" "$2"' _ {} "$seconds" | sort -k2)
passed=0 failed=0
while read -r outcome target runs; do
  echo "$target: $outcome, ${runs:-0} inputs"
  if [[ $outcome == passed ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    grep -E -A 12 '^==|ERROR|does not hold|SUMMARY' "build/fuzz/logs/$target.log" | head -40
  fi
done <<<"$results"
write_junit <<<"$results" >"$junit"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
