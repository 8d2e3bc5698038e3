#!/usr/bin/env bash
# Sets up, builds, and runs all tests, C++ and Python. The last line is "N passed, N failed"; the
# exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh || exit 1
deploy/build.sh || exit 1

export LORSA_BIN_DIR=$PWD/build/release/bin
export LORSA_FIXTURES=${LORSA_FIXTURES:-$PWD/tests/data/fixtures}
reports=build/release/reports
rm -rf "$reports"
mkdir -p "$reports"

ctest --preset release --parallel 2 --output-junit "$PWD/$reports/ctest.xml" || echo "ctest: some tests failed"
.venv/bin/python -m pytest -q --junitxml "$reports/pytest.xml" --ignore tests/interop client/python/tests tests ||
  echo "pytest: some tests failed"
tests/interop/run.sh --junitxml "$PWD/$reports/interop.xml" || echo "interop: some tests failed"
tests/fuzz/run.sh --junit "$PWD/$reports/fuzz.xml" || echo "fuzz: some targets failed"
git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror || touch "$reports/lint_failed"
.venv/bin/ruff check client/python tests deploy bench || touch "$reports/lint_failed"
.venv/bin/mypy --config-file client/python/pyproject.toml client/python || touch "$reports/lint_failed"

exec .venv/bin/python tests/count.py "$reports" ctest pytest interop fuzz
