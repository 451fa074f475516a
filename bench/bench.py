#!/usr/bin/python3
# Runs every benchmark program in turn under each allocator and prints the tables of medians.
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Benchmarks of Gleaner against glibc, mimalloc, jemalloc, tcmalloc, and heaptrack.

For each program, every allocator runs once a round (A B C A B C ...), so that a busy machine falls
on all alike; figures are medians over the rounds. Time is CPU time, user and system (--time wall for
elapsed). Ratios below 1 are better."""
import argparse
import glob
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import workloads

PEERS = ["glibc", "mimalloc", "jemalloc", "tcmalloc"]
OURS = ["gleaner-off", "gleaner", "gleaner-all"]
PROFILERS = ["jemalloc-prof", "heaptrack-lib", "heaptrack"]
LIBRARIES = {"mimalloc": "libmimalloc.so.2", "jemalloc": "libjemalloc.so.2",
             "tcmalloc": "libtcmalloc_minimal.so.4"}
HEAPTRACK_LIBRARY = "/usr/lib/heaptrack/libheaptrack_preload.so"


class Allocator:
    """A way to run a program: additions to its environment and a command in front of it."""

    def __init__(self, name, environment=(), prefix=()):
        self.name = name
        self.environment = list(environment)
        self.prefix = list(prefix)


def find_library(soname):
    """The path of a shared library as the loader would find it, or None."""
    folders = ["/usr/local/lib", "/usr/lib", "/lib", f"/usr/lib/{os.uname().machine}-linux-gnu"]
    for folder in folders:
        path = os.path.join(folder, soname)
        if os.path.exists(path):
            return path
    return None


def find_allocators(gleaner, folder):
    """({name: Allocator}, {name: why it is missing})."""
    found, missing = {"glibc": Allocator("glibc")}, {}
    for name, soname in LIBRARIES.items():
        path = find_library(soname)
        if path:
            found[name] = Allocator(name, ["LD_PRELOAD=" + path])
        else:
            missing[name] = soname + " is not installed"
    if os.path.exists(gleaner):
        profile = "exit:profile,output:" + os.path.join(folder, "gleaner.%p.%n.pb.gz")
        for name, conf in (("gleaner-off", "sample:0"), ("gleaner", ""),
                           ("gleaner-all", "sample:all," + profile)):
            found[name] = Allocator(name, ["LD_PRELOAD=" + gleaner, "GLEANER_CONF=" + conf])
    else:
        for name in OURS:
            missing[name] = gleaner + " is not built"
    jemalloc = find_library(LIBRARIES["jemalloc"])
    if jemalloc and profiles(jemalloc):
        found["jemalloc-prof"] = Allocator("jemalloc-prof", [
            "LD_PRELOAD=" + jemalloc, "MALLOC_CONF=prof:true,lg_prof_sample:19,prof_final:true,"
            "prof_prefix:" + os.path.join(folder, "jeprof")])
    else:
        missing["jemalloc-prof"] = "no libjemalloc with its profiler enabled"
    if os.path.exists(HEAPTRACK_LIBRARY):
        found["heaptrack-lib"] = Allocator("heaptrack-lib", [
            "LD_PRELOAD=" + HEAPTRACK_LIBRARY,
            "DUMP_HEAPTRACK_OUTPUT=" + os.path.join(folder, "heaptrack.raw")])
    else:
        missing["heaptrack-lib"] = HEAPTRACK_LIBRARY + " is not installed"
    if shutil.which("heaptrack"):
        found["heaptrack"] = Allocator("heaptrack", [], [
            "heaptrack", "-o", os.path.join(folder, "heaptrack.data")])
    else:
        missing["heaptrack"] = "heaptrack is not installed"
    return found, missing


def profiles(jemalloc):
    """Whether this jemalloc has its profiler: one without complains about the key."""
    environment = dict(os.environ, LD_PRELOAD=jemalloc, MALLOC_CONF="prof:false")
    run = subprocess.run(["true"], env=environment, stderr=subprocess.PIPE, check=False)
    return b"nvalid conf" not in run.stderr


def run_once(options, load, allocator, folder):
    """One run: {"cpu", "wall", "peak"} (seconds, bytes), or a string that says what went wrong."""
    result = os.path.join(folder, "result")
    limit = options.limit
    launcher = [os.path.join(options.build, "bench", "measure"),
                *(["--small-pages"] if options.small_pages else []), result, str(limit)]
    if os.path.exists(result):
        os.unlink(result)
    complaint = load.run(launcher, allocator.environment, allocator.prefix)
    for pattern in ("heaptrack.*", "jeprof.*", "gleaner.*"):
        for path in glob.glob(os.path.join(folder, pattern)):
            os.unlink(path)
    if complaint:
        return complaint.splitlines()[0]
    with open(result, encoding="ascii") as text:
        status, user, system, wall, peak = text.read().split()
    if status != "0":
        return f"stopped after {limit} s" if status == "124" else f"exit status {status}"
    return {"cpu": float(user) + float(system), "wall": float(wall), "peak": int(peak) * 1024}


def run_all(options, loads, allocators, folder):
    """{program: {allocator: {"cpu": [...], ...} or a complaint}}."""
    table = {}
    for load in loads:
        if load.missing:
            print(f"{load.name}: left out, {load.missing} is not installed", file=sys.stderr)
            continue
        cells = {}
        for turn in range(options.rounds):
            for name, allocator in allocators.items():
                if isinstance(cells.get(name), str):
                    continue
                if name in PROFILERS and turn >= options.profiler_rounds:
                    continue
                if sys.stderr.isatty():
                    print(f"\r\033[K{load.name} {turn + 1}/{options.rounds} {name}", end="",
                          file=sys.stderr, flush=True)
                outcome = run_once(options, load, allocator, folder)
                if isinstance(outcome, str):
                    cells[name] = outcome
                else:
                    for what, value in outcome.items():
                        cells.setdefault(name, {}).setdefault(what, []).append(value)
        table[load.name] = cells
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return table


class Results:
    """The medians of a table of runs, and the means that the goals speak of."""

    def __init__(self, table, time):
        self.table = table
        self.time = time

    def median(self, program, name, what):
        cell = self.table[program].get(name)
        return statistics.median(cell[what]) if isinstance(cell, dict) else None

    def programs(self, names, what):
        """Programs for which all of `names` have a figure: means compare only the same ones."""
        return [p for p in self.table
                if all(self.median(p, name, what) is not None for name in names)]

    def mean(self, name, base, what, names=()):
        """Geometric mean of name/base over the programs that all of them and `names` ran."""
        programs = self.programs({name, base, *names}, what)
        if not programs:
            return None
        ratios = [self.median(p, name, what) / self.median(p, base, what) for p in programs]
        return math.exp(sum(map(math.log, ratios)) / len(ratios))


def print_table(results, names, base, what, title, scale):
    """A line a program: the base's own figure, and the others as ratios to it."""
    others = [name for name in names if name != base]
    width = max(10, max(map(len, names)) + 1)
    print(f"\n{title}\n{'program':<18}{base:>12}" + "".join(f"{name:>{width + 2}}" for name in others))
    for program in results.table:
        reference = results.median(program, base, what)
        line = f"{program:<18}" + (f"{scale(reference):>12}" if reference else f"{'failed':>12}")
        for name in others:
            value = results.median(program, name, what)
            if value is None or not reference:
                line += f"{'failed' if name in results.table[program] else '-':>{width + 2}}"
            else:
                line += f"{value / reference:>{width + 2}.2f}"
        print(line)
    line = f"{'geometric mean':<18}{'':>12}"
    for name in others:
        mean = results.mean(name, base, what)
        line += f"{'-' if mean is None else format(mean, '.3f'):>{width + 2}}"
    print(line)


def goals(results, peers):
    """Rows (what, figure, goal, verdict) of the goals."""
    time, rows = results.time, []

    def row(what, figure, goal, met, detail=""):
        verdict = "no figure" if figure is None else "met" if met(figure) else "NOT MET"
        shown = "-" if figure is None else f"{figure:.3f}"
        rows.append((what, shown, goal, verdict, detail))

    means = {p: results.mean(p, "glibc", time, [*peers, "gleaner"]) for p in peers}
    means = {p: m for p, m in means.items() if m is not None}
    ours = results.mean("gleaner", "glibc", time, peers)
    best = min(means, key=means.get) if means else None
    row("throughput: time, geometric mean, to the best peer's",
        ours / means[best] if ours and best else None, "<= 1.000", lambda x: x <= 1.0,
        f"best peer: {best}" if best else "")
    worst = None
    for program in results.programs(["gleaner", *peers], time):
        fastest = min(results.median(program, peer, time) for peer in peers)
        ratio = results.median(program, "gleaner", time) / fastest
        if worst is None or ratio > worst[0]:
            worst = (ratio, program)
    row("slowest program, to its best peer", worst[0] if worst else None, "<= 1.150",
        lambda x: x <= 1.15, worst[1] if worst else "")
    row("peak memory, geometric mean, to jemalloc's", results.mean("gleaner", "jemalloc", "peak"),
        "<= 1.100", lambda x: x <= 1.1)
    row("default sampling, to sampling off", results.mean("gleaner", "gleaner-off", time),
        "<= 1.010", lambda x: x <= 1.01)
    row("every block sampled, to sampling off",
        results.mean("gleaner-all", "gleaner-off", time), "<= 1.500", lambda x: x <= 1.5)
    for kind in dict.fromkeys((time, "wall")):
        row(f"every block sampled: heaptrack (the command, {kind} time), to ours",
            results.mean("heaptrack", "gleaner-all", kind), ">= 5.000", lambda x: x >= 5)
    row("every block sampled: heaptrack (its library alone), to ours",
        results.mean("heaptrack-lib", "gleaner-all", time), ">= 5.000", lambda x: x >= 5)
    own = results.mean("gleaner", "gleaner-off", time, ["jemalloc-prof", "jemalloc"])
    theirs = results.mean("jemalloc-prof", "jemalloc", time, ["gleaner", "gleaner-off"])
    row("sampling's factor, to jemalloc's profiler's", own / theirs if own and theirs else None,
        "<= 1.000", lambda x: x <= 1.0)
    return rows


def report(results, allocators):
    names = [n for n in allocators if n not in PROFILERS and n != "gleaner-all"]
    base = "glibc" if "glibc" in names else names[0] if names else None
    if base:
        print_table(results, names, base, results.time,
                    f"{results.time} time: {base} in seconds, the others as ratio to it", "{:.3f}".format)
        print_table(results, names, base, "peak",
                    f"peak memory: {base} in MiB, the others as ratio to it",
                    lambda x: f"{x / (1 << 20):.1f}")
    watched = [n for n in ("glibc", "jemalloc", "gleaner-off", "gleaner", "gleaner-all", *PROFILERS)
               if n in allocators]
    if any(n in allocators for n in (*PROFILERS, "gleaner-all")):
        base = "gleaner-off" if "gleaner-off" in watched else watched[0]
        for kind in dict.fromkeys((results.time, "wall")):
            print_table(results, watched, base, kind,
                        f"profilers, {kind} time: {base} in seconds, the others as ratio to it",
                        "{:.3f}".format)
    peers = [n for n in PEERS if n in allocators]
    if "gleaner" in allocators:
        rows = goals(results, peers)
        print(f"\n{'goal':<62}{'figure':>8}  {'wanted':<10}")
        for what, figure, goal, verdict, detail in rows:
            print(f"{what:<62}{figure:>8}  {goal:<10}{verdict}{'  ' + detail if detail else ''}")
    for program, cells in results.table.items():
        for name, cell in cells.items():
            if isinstance(cell, str):
                print(f"{program} under {name} failed: {cell}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--build", default="build", help="meson's build folder (default %(default)s)")
    parser.add_argument("--gleaner", metavar="LIBRARY",
                        help="default: BUILD/preload/libgleaner.so")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round unless given")
    parser.add_argument("--rounds", type=int, help="default 5")
    parser.add_argument("--profiler-rounds", type=int, default=1,
                        help="rounds of jemalloc-prof and heaptrack (default %(default)s, 0: none)")
    parser.add_argument("--only", action="append", metavar="PROGRAM", help="may be repeated")
    parser.add_argument("--allocators", metavar="A,B",
                        help="of " + ",".join([*PEERS, *OURS, *PROFILERS]))
    parser.add_argument("--time", choices=["cpu", "wall"], default="cpu")
    parser.add_argument("--small-pages", action="store_true",
                        help="as on a system without transparent huge pages")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one run")
    parser.add_argument("--json", metavar="FILE", help="every single figure")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.build = os.path.abspath(options.build)
    gleaner = os.path.abspath(options.gleaner
                              or os.path.join(options.build, "preload", "libgleaner.so"))
    if not os.path.exists(os.path.join(options.build, "bench", "measure")):
        parser.error(f"{options.build} holds no built bench/measure: ninja -C {options.build}")
    for name in ("LD_PRELOAD", "GLEANER_CONF", "MALLOC_CONF"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="gleaner-bench-") as folder:
        found, missing = find_allocators(gleaner, folder)
        wanted = options.allocators.split(",") if options.allocators else [*PEERS, *OURS, *PROFILERS]
        for name in wanted:
            if name not in (*PEERS, *OURS, *PROFILERS):
                parser.error(f"no such allocator: {name}")
            if name in missing:
                print(f"{name}: left out, {missing[name]}", file=sys.stderr)
        if options.profiler_rounds == 0:
            wanted = [name for name in wanted if name not in PROFILERS]
        allocators = {name: found[name] for name in wanted if name in found}
        loads = workloads.all_workloads(options.build, folder, options.quick)
        unknown = set(options.only or []) - {load.name for load in loads}
        if unknown:
            parser.error("no such program: " + ", ".join(sorted(unknown)))
        loads = [load for load in loads if not options.only or load.name in options.only]
        table = run_all(options, loads, allocators, folder)
    report(Results(table, options.time), allocators)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"version": 1, "rounds": options.rounds, "quick": options.quick,
                       "programs": table}, out, indent=1)
            out.write("\n")
    return 1 if any(isinstance(c, str) for cells in table.values() for c in cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
