#!/usr/bin/env python3
"""Lines and regions of core/src that were run, from what cargo-llvm-cov exports.

usage: coverage.py LIMIT REPORT.json REPORT.lcov

A region counts as run if it was in any instance of a generic function.  Modules `tests` at the end of a file are
cut out: running them says nothing about the code.  So are private `const fn`s that no test ran: the compiler runs
them, to make constants, and warns of those that nothing uses.  Files in which much is missing are listed.
"""

import collections
import json
import pathlib
import sys


def code_lines(path):
    """How many lines of a file come before its own tests."""
    lines = pathlib.Path(path).read_text().splitlines()
    for number, line in enumerate(lines):
        if line == "#[cfg(test)]" and lines[number + 1] == "mod tests {":
            return number
    return len(lines)


def main():
    limit, report, lcov = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    data = json.loads(pathlib.Path(report).read_text())["data"][0]
    ends = {file["filename"]: code_lines(file["filename"]) for file in data["files"]}

    text = {path: pathlib.Path(path).read_text().splitlines() for path in ends}
    regions, constants = collections.defaultdict(int), set()
    for function in data["functions"]:
        for first, column, last, end, count, file, _, kind in function["regions"]:
            path = function["filenames"][file]
            if kind == 0 and first <= ends.get(path, 0):
                regions[path, first, column, last, end] += count
        path, first = function["filenames"][0], function["regions"][0][0]
        last = max(region[2] for region in function["regions"])
        if path in text and text[path][first - 1].lstrip().startswith("const fn "):
            constants.add((path, first, last))

    # The first region's count is that of the function.
    called = {key[:2] for key, count in regions.items() if count}
    constants = {(path, line) for path, first, last in constants if (path, first) not in called
                 for line in range(first, last + 1)}
    regions = {key: count for key, count in regions.items() if key[:2] not in constants}

    lines, path = {}, None
    for entry in pathlib.Path(lcov).read_text().splitlines():
        key, _, value = entry.partition(":")
        if key == "SF":
            path = value
        elif key == "DA":
            number, count = (int(part) for part in value.split(",")[:2])
            if number <= ends.get(path, 0) and (path, number) not in constants:
                lines[path, number] = count

    missing = collections.Counter(key[0] for key, count in regions.items() if not count)
    for path, count in missing.most_common(12):
        print(f"{count:4} regions not run in {path[path.rindex('core/src/'):]}")
    ok = True
    for name, counts in (("lines", lines), ("regions", regions)):
        run = sum(1 for count in counts.values() if count)
        share = 100 * run / len(counts)
        ok &= share >= limit
        print(f"coverage of core/src: {run} of {len(counts)} {name}, {share:.2f} % (limit {limit:g} %)")
    sys.exit(not ok)


main()
