"""Prints the coverage of each room and fails below the bounds: coverage.py SUMMARY.json SOURCE"""
import collections
import json
import pathlib
import sys

bounds = {"lines": 95.0, "branches": 85.0}


def room_of(path):
    parts = path.parts[:-1]
    return "/".join(parts[:2]) if parts else "."


def main(summary, source):
    rooms = collections.defaultdict(lambda: {kind: [0, 0] for kind in bounds})
    for file in json.loads(pathlib.Path(summary).read_text())["data"][0]["files"]:
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
    failed = False
    for kind, bound in bounds.items():
        covered, count = rooms["all"][kind]
        if 100 * covered < bound * count:
            print(f"{kind}: expected at least {bound:g} %, got {100 * covered / count:.1f} %", file=sys.stderr)
            failed = True
    return failed


sys.exit(main(sys.argv[1], sys.argv[2]))
