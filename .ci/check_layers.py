#!/usr/bin/env python3
"""Checks that imports run down only: between the packages, and between the modules of each.

Packages: the floors below, from the ground up, against the dependencies that `cargo metadata` tells.
Modules: siblings, at every level of a package's tree, import one another without a circle.  What a module takes from
its parent, and a parent from its children, is no matter between siblings.  Paths are read from the sources: `use`
declarations and paths that begin with crate, super or self, outside tests and comments.
"""
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

FLOORS = [
    {"tracebuf"},
    {"tracebuf-std", "tracebuf-embedded", "tracebuf-footprint", "tracebuf-service"},
    {"tracebuf-session", "tracebuf-sockets", "tracebuf-c", "tracebuf-firmware"},
    {"tracebuf-analysis", "tracebuf-daemon", "tracebuf-ipc", "tracebuf-tracing", "tracebuf-testing"},
    {"tracebuf-machine", "tracebuf-service-example"},
    {"tracebuf-conformance"},
    {"tracebuf-cli"},
]


def packages():
    told = subprocess.run(
        ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"], capture_output=True, check=True
    )
    return json.loads(told.stdout)["packages"]


def check_packages(all_packages):
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    for package in all_packages:
        name = package["name"]
        if name not in floor:
            yield f"{name} has no floor: give it one in {Path(__file__).name}"
            continue
        for dependency in package["dependencies"]:
            other = dependency["name"]
            if other in floor and dependency["kind"] is None and other != name and floor[other] >= floor[name]:
                yield f"{name} depends on {other}, which is not below it"


def without_tests(text):
    """The source without comments and without what is compiled for tests only."""
    text = re.sub(r"//[^\n]*", "", text)
    while True:
        match = re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*", text)
        if match is None:
            return text
        depth, end = 0, match.end()
        while end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if (text[end - 1] == "}" and depth == 0) or (text[end - 1] == ";" and depth == 0):
                break
        text = text[: match.start()] + text[end:]


def module_of(file, root):
    """The path of the module that a file holds; the crate itself is the empty path."""
    parts = list(file.relative_to(root).with_suffix("").parts)
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def expanded(tree):
    """The paths in a `use` tree: a::{b, c::{d}} is a::b and a::c::d."""
    match = re.match(r"([^{]*)\{(.*)\}\s*$", tree, re.S)
    if match is None:
        return [tree.strip()]
    parts, depth, start, inner = [], 0, 0, match[2] + ","
    for at, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(inner[start:at].strip())
            start = at + 1
    return [match[1].strip() + path for part in parts if part for path in expanded(part)]


def paths_in(text):
    for tree in re.findall(r"\buse\s+([^;]+);", text):
        yield from expanded(tree)
    yield from re.findall(r"\b(?:crate|super|self)(?:::\w+)+", re.sub(r"\buse\s+[^;]+;", "", text))


def resolved(path, module, modules, exports):
    """The module that a path leads to, seen from `module`; None if it leads out of the crate."""
    names = [name for name in re.split(r"::|\s+as\s+\w+", path.strip()) if name]
    at = module
    if names and names[0] == "crate":
        at, names = (), names[1:]
    elif names and names[0] in ("self", "super"):
        while names and names[0] in ("self", "super"):
            at, names = (at[:-1] if names[0] == "super" else at), names[1:]
    elif not names or (*module, names[0]) not in modules:
        return None
    for name in names:
        if (*at, name) in modules:
            at = (*at, name)
        else:
            return exports.get((at, name), at)
    return at


def sources(root):
    files = {module_of(file, root): file for file in root.rglob("*.rs") if "tests" not in file.parts}
    files = {module: file for module, file in files.items() if module[-1:] != ("tests",)}
    return {module: without_tests(file.read_text()) for module, file in files.items()}


def circles(edges):
    """Sets of modules each of which leads back to itself."""
    reached = {}

    def reach(start):
        if start not in reached:
            seen, todo = set(), [start]
            while todo:
                for following in edges.get(todo.pop(), ()):
                    if following not in seen:
                        seen.add(following)
                        todo.append(following)
            reached[start] = seen
        return reached[start]

    found = {frozenset(other for other in reach(one) if one in reach(other)) for one in list(edges)}
    return [sorted(circle) for circle in found if circle]


def check_modules(package):
    for target in package["targets"]:
        if not {"lib", "bin", "staticlib"} & set(target["kind"]):
            continue
        start = Path(target["src_path"])
        if start.name not in ("lib.rs", "main.rs") or start.parent.name != "src":
            continue
        texts = sources(start.parent)
        modules = set(texts)
        exports = {}
        for module, text in texts.items():
            for tree in re.findall(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", text):
                for path in expanded(tree):
                    leads_to = resolved(path, module, modules, {})
                    if leads_to is not None:
                        exports[(module, re.split(r"::|\s+as\s+", path)[-1])] = leads_to
        edges = defaultdict(lambda: defaultdict(set))
        for module, text in texts.items():
            for path in paths_in(text):
                other = resolved(path, module, modules, exports)
                if other is None:
                    continue
                common = 0
                while common < min(len(module), len(other)) and module[common] == other[common]:
                    common += 1
                if common < len(module) and common < len(other):
                    edges[module[:common]][module[common]].add(other[common])
        for level, siblings in edges.items():
            for circle in circles(siblings):
                where = "::".join((package["name"], *level))
                yield f"{where}: {', '.join(circle)} import one another in a circle"


def main():
    all_packages = packages()
    found = list(check_packages(all_packages))
    for package in all_packages:
        found += check_modules(package)
    print("\n".join(found) or f"{len(all_packages)} packages: imports run down only")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
