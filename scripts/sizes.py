#!/usr/bin/env python3
"""Checks sizes of sources: sizes.py EXCEPTIONS FILES...

Functions have at most 40 lines, files at most 400. EXCEPTIONS has one line for each that is
longer, `LINES PLACE: reason`, where PLACE is a file or FILE:FUNCTION. A place that is no longer in
need of its line, or has become shorter than it states, fails as well: exceptions only shrink.
"""

import json
import subprocess
import sys

FUNCTION, FILE = 40, 400


def functions(files):
    """(lines, FILE:FUNCTION) of each function that ctags finds; lambdas belong to theirs."""
    command = ["ctags", "--languages=C++", "--langmap=C++:+.h", "--kinds-C++=f", "--fields=+ne",
               "--output-format=json", "-f", "-", *files]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        tag = json.loads(line)
        if "end" in tag and not tag["name"].startswith("__anon"):
            yield tag["end"] - tag["line"] + 1, f"{tag['path']}:{tag['name']}"


def exceptions_in(path, least=0):
    """The lines that each place in a file of exceptions may have, more than `least` each."""
    allowed = {}
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            lines, entry = line.split(" ", 1)
            place, reason = entry.split(": ", 1)
            assert reason.strip(), f"{place}: no reason"
            assert place not in allowed and int(lines) > least, line
            allowed[place] = int(lines)
    return allowed


def main(exceptions, files):
    allowed = exceptions_in(exceptions)
    found = {}
    for lines, place in functions(files):
        if lines > FUNCTION:
            found[place] = max(found.get(place, 0), lines)
    for name in files:
        lines = sum(1 for _ in open(name, encoding="utf-8"))
        if lines > FILE:
            found[name] = lines
    problems = []
    for place, lines in sorted(found.items()):
        if place not in allowed:
            problems.append(f"{place}: {lines} lines, at most {FUNCTION if ':' in place else FILE}")
        elif lines != allowed[place]:
            change = "grew to" if lines > allowed[place] else "shrank to"
            problems.append(f"{place}: {change} {lines} lines, {exceptions} has {allowed[place]}")
    problems += [f"{place}: no longer needs an exception, {exceptions} has {lines}"
                 for place, lines in sorted(allowed.items()) if place not in found]
    print("\n".join(problems) or f"sizes: {len(files)} files, {len(found)} exceptions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
