#!/usr/bin/env bash
# Installs all that building, testing and running need: Debian packages, and a Python environment in
# .venv. Run it as often as you like: it does what is missing, and takes seconds when nothing is.
# Usage: deploy/setup.sh [programs]    deploy/setup.sh programs leaves out what only tests and benchmarks need.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGES=(
  # build
  ca-certificates ccache cmake g++ git ninja-build pkg-config
  # libraries
  libabsl-dev libcli11-dev libcurl4-openssl-dev libgrpc++-dev libhdf5-dev libisal-dev
  libopenmpi-dev libprotobuf-dev libspdlog-dev libsqlite3-dev libssl-dev libxxhash-dev
  nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc zlib1g-dev
  # ranks of a job that has several
  openmpi-bin
  # Python
  python3 python3-venv
)
TEST_PACKAGES=(
  clang-format clang-tidy libgmock-dev libgtest-dev
  # fuzz targets (tests/fuzz)
  clang-14 libclang-rt-14-dev
  # text of the reference training (bench/quality_vs_peer.sh)
  anarchism debian-handbook
)

die() {
  echo "setup: $*" >&2
  exit 1
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  local missing=() package
  for package in "${PACKAGES[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  echo "setup: installing ${#missing[@]} Debian packages"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Runs install_$1, unless it did so since the files that follow changed.
install_python() {
  local stamp=.venv/.installed_$1 wanted
  wanted=$(cat "${@:2}" | sha256sum)
  [[ $(cat "$stamp" 2>/dev/null) == "$wanted" ]] && return
  echo "setup: installing the Python packages of the $1 in .venv"
  "install_$1"
  echo "$wanted" > "$stamp"
}

install_programs() {
  .venv/bin/pip install -q -r deploy/requirements.txt
  .venv/bin/pip install -q --no-deps -r deploy/requirements-demo.txt
  .venv/bin/pip install -q --no-deps --no-build-isolation -e client/python
}

install_tests() {
  .venv/bin/pip install -q -r deploy/requirements-tests.txt
}

# shellcheck source=/dev/null
[[ -r /etc/os-release ]] && . /etc/os-release
[[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]] || die "needs Debian 12, for its package versions; this is ${PRETTY_NAME:-unknown}."
case ${1:-all} in
  programs) ;;
  all) PACKAGES+=("${TEST_PACKAGES[@]}") ;;
  *) die "unknown set '$1'; pass programs, or nothing for all." ;;
esac
install_packages
# The environment is made anew only if its Python is gone.
[[ -x .venv/bin/python ]] || { rm -f .venv/.installed_*; /usr/bin/python3 -m venv .venv; }
install_python programs deploy/requirements.txt deploy/requirements-demo.txt client/python/pyproject.toml
[[ ${1:-all} == programs ]] || install_python tests deploy/requirements-tests.txt
.venv/bin/python client/python/generate_protos.py
