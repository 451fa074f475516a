#!/usr/bin/python3
# Instructions that a malloc and free pair takes, by size and pattern, counted under callgrind.
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instructions per malloc and free pair under any preloaded allocator.

pair_loop warms up and then calls count_pairs twice for each size, with few and with many pairs;
callgrind counts inside that function only. The difference of the two counts over the difference of
the pairs leaves out whatever both do once. Loop and PLT stubs (some 12 instructions a pair) are in the
figure. The count does not depend on load, so that it can be a test:

    instructions.py --build BUILD --preload LIBRARY --modes m0 m1 --check

exits with 1 and names every figure over its limit: m1 over 55 or m0 over 60 for 16 to 1024 bytes,
and a cliff, which is a size up to 32 KiB that costs more than --cliff times
the cheapest size of its mode. Exit status 2: it could not be counted.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

SIZES = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
MODES = {"m0": "freed at once", "m1": "64 allocated, then 64 freed", "m2": "calloc, freed at once"}
LIMITS = {"m0": 60, "m1": 55}
LIMIT_SIZE = 1024
PAIRS = {"m0": 6400, "m1": 6400, "m2": 640}  # MANY - FEW of pair_loop.c


def count(build, mode, sizes, preload=None, conf=()):
    """{(mode, size): instructions per pair} from one process that does `sizes` in turn. Raises
    RuntimeError with valgrind's words."""
    environment = dict(os.environ)
    for name in ("LD_PRELOAD", "GLEANER_CONF"):
        environment.pop(name, None)
    if preload:
        environment["LD_PRELOAD"] = preload
    environment.update(item.split("=", 1) for item in conf)
    with tempfile.TemporaryDirectory(prefix="gleaner-count-") as folder:
        # callgrind does not replace malloc, so that the preload's is what runs; memcheck would need
        # --soname-synonyms=somalloc=nouserintercepts.
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + folder + "/out",
                   "--collect-atstart=no", "--toggle-collect=count_pairs",
                   "--dump-after=count_pairs", os.path.join(build, "bench", "pair_loop"), mode,
                   *map(str, sizes)]
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        if run.returncode != 0:
            raise RuntimeError(" ".join(command) + ": " + run.stderr.strip())
        if "cannot be preloaded" in run.stderr:
            raise RuntimeError(f"{preload}: cannot be preloaded")
        totals = []
        for part in range(1, 2 * len(sizes) + 1):
            with open(f"{folder}/out.{part}", encoding="utf-8", errors="replace") as text:
                totals.append(int(re.search(r"^totals: (\d+)", text.read(), re.M).group(1)))
    return {(mode, size): (totals[2 * i + 1] - totals[2 * i]) / PAIRS[mode]
            for i, size in enumerate(sizes)}


def measure(build, sizes, modes, preload, conf, jobs, apart):
    """{(mode, size): instructions per pair} for all; `apart`: a process for each size."""
    groups = [[size] for size in sizes] if apart else [sizes]
    table = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda job: count(build, *job, preload, conf),
                             [(mode, group) for mode in modes for group in groups]):
            table.update(part)
    return table


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
    parser.add_argument("--apart", action="store_true",
                        help="a process for each size, so that none finds what another one left")
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
                        options.jobs, options.apart)
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
