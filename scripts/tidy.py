#!/usr/bin/env python3
"""Runs clang-tidy over the sources that a change touches: tidy.py BUILD BASE

BUILD has compile_commands.json. Touched are the files that differ from the commit BASE, and every
source that includes one of them, directly or not.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^#include "qtape/([^"]+)"', re.M)


def touched(base):
    lines = subprocess.run(["git", "diff", "--name-only", base], check=True, capture_output=True,
                           text=True).stdout.split()
    return {name for name in lines if name.endswith((".h", ".cpp")) and os.path.exists(name)}


def with_includers(files):
    """The files and all that include them."""
    known = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], check=True, capture_output=True,
                           text=True).stdout.split()
    includes = {name: set(INCLUDE.findall(pathlib.Path(name).read_text())) for name in known}
    found, more = set(), set(files)
    while more:
        found |= more
        more = {name for name in known if name not in found and includes[name] & found}
    return found


def main(build, base):
    wanted = {str(pathlib.Path(name).resolve()) for name in with_includers(touched(base))}
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    sources = sorted({entry["file"] for entry in commands} & wanted)
    print(f"clang-tidy over {len(sources)} sources")

    def run(source):
        return subprocess.run(["clang-tidy", "-p", build, "--quiet", "--warnings-as-errors=*",
                               source], capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, done in zip(sources, pool.map(run, sources)):
            if done.returncode != 0:
                failed += 1
                print(f"{source}\n{done.stdout}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
