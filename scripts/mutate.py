"""Counts which changes of one token the tests find: python3 scripts/mutate.py BUILD [COUNT [SEED]]

Changes one token of a source in kernels/quantize, integer or ops at a time, builds qtape_tests in
BUILD, which must be configured for this tree with -DQTAPE_UNITY=OFF, and runs the tests of the room.
Prints one line for each change; those that do not compile are replaced. Restores every source.
"""

import pathlib
import random
import re
import subprocess
import sys

ROOMS = {"kernels/quantize": "kernels", "integer": "integer", "ops": "ops"}
SECONDS = 300
CHANGES = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "),
    (r" \* ", " + "), (r" / ", " * "), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
    (r"std::min\b", "std::max"), (r"std::max\b", "std::min"), (r"\b0\b", "1"), (r"\b1\b", "2"),
    (r" << ", " >> "), (r" >> ", " << "),
]  # fmt: skip


def places(path):
    """Yields begin, end and replacement of each change of a file."""
    text = path.read_text()
    skipped = [m.span() for m in re.finditer(r'//[^\n]*|^#[^\n]*|"(?:[^"\\\n]|\\.)*"', text, re.M)]
    for pattern, replacement in CHANGES:
        for match in re.finditer(pattern, text):
            if not any(begin <= match.start() < end for begin, end in skipped):
                yield match.start(), match.end(), replacement


def runs(*command, seconds):
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def room_of(path):
    return next(tests for room, tests in ROOMS.items() if path.is_relative_to(room))


def try_change(build, path, begin, end, replacement):
    """Returns "killed", "survived" or, if it does not compile, None."""
    text = path.read_text()
    path.write_text(text[:begin] + replacement + text[end:])
    try:
        if not runs("ninja", "-C", build, "qtape_tests", seconds=1800):
            return None
        passed = runs(f"{build}/tests/qtape_tests", f"--source-file=*tests/{room_of(path)}/*",
                      "--abort-after=1", seconds=SECONDS)  # fmt: skip
        return "survived" if passed else "killed"
    finally:
        path.write_text(text)


def main():
    build = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    sources = [path for room in ROOMS for path in sorted(pathlib.Path(room).rglob("*.cpp"))]
    if not runs("ninja", "-C", build, "qtape_tests", seconds=7200):
        sys.exit(f"qtape_tests does not build in {build}")
    found = {"killed": 0, "survived": 0}
    while sum(found.values()) < count:
        path = draw.choice(sources)
        options = list(places(path))
        if not options:
            continue
        begin, end, replacement = draw.choice(options)
        text = path.read_text()
        result = try_change(build, path, begin, end, replacement)
        if result is None:
            continue
        found[result] += 1
        line = text.count("\n", 0, begin) + 1
        shown = text.splitlines()[line - 1].strip()
        print(f"{result} {path}:{line}: {text[begin:end]!r} -> {replacement!r}: {shown}", flush=True)
    print(f"{found['killed']} killed, {found['survived']} survived")


main()
