#!/usr/bin/env python3
"""Add up the JUnit reports of one test run and print its closing line.

Usage: count.py FOLDER RUNNER…

A test that was skipped counts as failed: tests here do not skip themselves. So does a runner that
left no report (FOLDER/RUNNER.xml), and a failed lint (FOLDER/lint_failed).
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcomes(report: pathlib.Path) -> tuple[int, int]:
    """Passed and failed test cases of one report."""
    passed = failed = 0
    for case in ElementTree.parse(report).iter("testcase"):
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        failed += bad
        passed += not bad
    return passed, failed


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    passed = failed = 0
    for runner in sys.argv[2:]:
        report = folder / f"{runner}.xml"
        counts = outcomes(report) if report.exists() else (0, 0)
        if sum(counts) == 0:
            print(f"{runner} ran no test")
            counts = (0, 1)
        passed, failed = passed + counts[0], failed + counts[1]
    if (folder / "lint_failed").exists():
        print("clang-format, ruff or mypy found something")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
