"""Prints the coverage of each room: coverage.py SUMMARY.json SOURCE

Fails below the bounds, and for a file with more unreached lines than scripts/uncovered.txt allows,
which has one line for each such file, `LINES FILE: reason`.
"""
import collections
import json
import pathlib
import sys

from sizes import exceptions_in

bounds = {"lines": 95.0, "branches": 85.0}
UNLISTED = 10  # lines of a file that need no reason


def room_of(path):
    parts = path.parts[:-1]
    return "/".join(parts[:2]) if parts else "."


def problems_of(files, source, exceptions):
    """Lines about files whose unreached lines differ from those that `exceptions` allows."""
    allowed = exceptions_in(exceptions, UNLISTED)
    for file in files:
        name = str(pathlib.Path(file["filename"]).relative_to(source))
        found = file["summary"]["lines"]["count"] - file["summary"]["lines"]["covered"]
        most = allowed.pop(name, UNLISTED)
        if found > most:
            yield f"{name}: no test reaches {found} lines, expected at most {most}"
        elif most > UNLISTED and most - found > UNLISTED:
            yield f"{name}: {exceptions} allows {most} lines, no test reaches {found}"
    for name in allowed:
        # Libraries that need MPI or ONNX may be left out of a build.
        if not pathlib.Path(source, name).exists():
            yield f"{name}: is in {exceptions}, but does not exist"


def main(summary, source):
    files = json.loads(pathlib.Path(summary).read_text())["data"][0]["files"]
    rooms = collections.defaultdict(lambda: {kind: [0, 0] for kind in bounds})
    for file in files:
        room = room_of(pathlib.Path(file["filename"]).relative_to(source))
        for kind in bounds:
            found = file["summary"][kind]
            for name in (room, "all"):
                rooms[name][kind][0] += found["covered"]
                rooms[name][kind][1] += found["count"]
    print(f"{'':24}" + "".join(f"{kind:>22}" for kind in bounds))
    for name in sorted(rooms, key=lambda name: (name == "all", name)):
        cells = [(covered, count, 100 * covered / max(1, count)) for covered, count in rooms[name].values()]
        print(f"{name:24}" + "".join(f"{c:>8} of {n:>6} {p:4.1f}" for c, n, p in cells))
    problems = list(problems_of(files, source, pathlib.Path(source, "scripts/uncovered.txt")))
    for problem in problems:
        print(problem, file=sys.stderr)
    failed = bool(problems)
    for kind, bound in bounds.items():
        covered, count = rooms["all"][kind]
        if 100 * covered < bound * count:
            print(f"{kind}: expected at least {bound:g} %, got {100 * covered / count:.1f} %", file=sys.stderr)
            failed = True
    return failed


sys.exit(main(sys.argv[1], sys.argv[2]))
