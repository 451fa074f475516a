#!/usr/bin/python3
# Instructions that a malloc and free pair takes, by size and pattern, counted under callgrind.
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instructions per malloc and free pair under any preloaded allocator.

pair_loop runs twice under callgrind, which counts only what happens inside its count_pairs; the
difference of the two counts over the difference of the pairs leaves out whatever both runs do once.
Loop and PLT stubs (some 12 instructions a pair) are in the figure. The count does not depend on load,
so that it can be a test:

    instructions.py --build BUILD --preload LIBRARY --check

exits with 1 and names every figure over its limit: m1 over 55 or m0 over 60 for 16 to 1024 bytes
(DESIGN.md section 10), and a cliff, which is a size up to 32 KiB that costs more than --cliff times
the cheapest size of its mode.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

SIZES = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
MODES = {"m0": "freed at once", "m1": "64 allocated, then 64 freed", "m2": "calloc, freed at once"}
LIMITS = {"m0": 60, "m1": 55}
LIMIT_SIZE = 1024
PAIRS = (6400, 25600)


def collected(build, mode, size, pairs, preload, conf):
    """The instructions inside count_pairs of one run; raises RuntimeError with valgrind's words."""
    environment = dict(os.environ)
    for name in ("LD_PRELOAD", "GLEANER_CONF"):
        environment.pop(name, None)
    if preload:
        environment["LD_PRELOAD"] = preload
    for item in conf:
        name, _, value = item.partition("=")
        environment[name] = value
    # valgrind's replacement of malloc (soname-synonyms) is a matter of memcheck; callgrind has none.
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               "--collect-atstart=no", "--toggle-collect=count_pairs",
               os.path.join(build, "bench", "pair_loop"), mode, str(size), str(pairs)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, errors="replace", check=False)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found or f"ops {pairs}" not in run.stdout:
        raise RuntimeError(" ".join(command) + ": " + run.stderr.strip())
    if "cannot be preloaded" in run.stderr:
        raise RuntimeError(f"{preload}: cannot be preloaded")
    return int(found.group(1))


def per_pair(build, mode, size, preload=None, conf=()):
    """Instructions per pair of `size` bytes in `mode`, as a float."""
    few, many = (collected(build, mode, size, pairs, preload, conf) for pairs in PAIRS)
    return (many - few) / (PAIRS[1] - PAIRS[0])


def measure(build, sizes, modes, preload, conf, jobs):
    """{(mode, size): instructions per pair} for all of `sizes` and `modes`."""
    cells = [(mode, size) for mode in modes for size in sizes]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        values = pool.map(lambda cell: per_pair(build, *cell, preload, conf), cells)
        return dict(zip(cells, values))


def excesses(table, cliff):
    """One line for every figure of `table` over its limit."""
    lines = []
    for mode in sorted({mode for mode, _ in table}):
        row = {size: value for (m, size), value in table.items() if m == mode}
        best = min(row.values())
        for size, value in sorted(row.items()):
            if size <= LIMIT_SIZE and value > LIMITS.get(mode, float("inf")):
                lines.append(f"{mode} of {size} bytes: {value:.1f} instructions, "
                             f"over {LIMITS[mode]}")
            elif mode in LIMITS and value > cliff * best:
                lines.append(f"{mode} of {size} bytes: {value:.1f} instructions, over {cliff:g} "
                             f"times the {best:.1f} of the cheapest size")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--build", default="build", help="meson's build folder")
    parser.add_argument("--preload", metavar="LIBRARY", help="the allocator; glibc's without")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE",
                        help="added to the environment, for instance GLEANER_CONF=sample:0")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--check", action="store_true", help="exit with 1 when over a limit")
    parser.add_argument("--cliff", type=float, default=3.0, metavar="TIMES",
                        help="a size may cost so many times the cheapest (default %(default)s)")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        parser.exit(2, "instructions.py: valgrind is not installed\n")
    if options.preload and "/" in options.preload and not os.path.exists(options.preload):
        parser.exit(2, f"instructions.py: {options.preload}: no such file\n")
    try:
        table = measure(options.build, options.sizes, options.modes, options.preload, options.conf,
                        options.jobs)
    except RuntimeError as error:
        parser.exit(2, f"instructions.py: {error}\n")
    print("bytes " + "".join(f"{size:>8}" for size in options.sizes))
    for mode in options.modes:
        print(f"{mode:<6}" + "".join(f"{table[mode, size]:>8.0f}" for size in options.sizes)
              + f"   {MODES[mode]}")
    if options.check:
        lines = excesses(table, options.cliff)
        for line in lines:
            print(line)
        return 1 if lines else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
