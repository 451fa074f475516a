# The programs that bench.py runs: our own by pattern, and real ones with inputs made here.
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A Workload knows its command line, its environment, and what must be on the machine for it. Inputs
are generated from fixed seeds into the folder that is given, so that every run does the same work."""
import os
import random
import shutil
import subprocess
import time

PATTERNS = ["server_churn", "tiny_blocks", "producer_consumer", "thread_churn", "mixed_lifetime",
            "realloc_growth", "calloc_heavy", "fragmentation", "large_blocks", "false_sharing",
            "list_build", "mix_threads"]


class Workload:
    """A program that runs to its end by itself. `runs` times as its one process."""

    def __init__(self, name, command, needs=None, environment=(), stdin=None):
        self.name = name
        self.command = command
        self.environment = list(environment)
        self.stdin = stdin
        self.missing = needs if needs and not shutil.which(needs) else None

    def run(self, measure, environment, prefix):
        """Runs once: `measure` is the launcher's command up to the environment, `environment` a
        list of NAME=VALUE, `prefix` a profiler's command. Returns what the program said when the
        launcher itself failed, None otherwise."""
        command = measure + self.environment + environment + ["--"] + prefix + self.command
        with open(self.stdin or os.devnull, "rb") as stdin:
            done = subprocess.run(command, stdin=stdin, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, check=False)
        return self.complaint(done.returncode, done.stderr)

    @staticmethod
    def complaint(status, stderr):
        text = stderr.decode(errors="replace").strip()
        if "cannot be preloaded" in text:
            return text.splitlines()[0]
        return text or f"status {status}" if status != 0 else None


class Redis(Workload):
    """redis-server measured while redis-benchmark, outside of the measurement, keeps it busy."""

    def __init__(self, folder, quick):
        super().__init__("redis", [], "redis-server")
        if self.missing is None and not shutil.which("redis-benchmark"):
            self.missing = "redis-benchmark"
        self.socket = os.path.join(folder, "redis.sock")
        self.command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                        "--appendonly", "no", "--dir", folder, "--loglevel", "warning"]
        count = 20000 if quick else 150000
        self.client = ["redis-benchmark", "-s", self.socket, "-q", "-r", "50000", "-P", "16",
                       "-c", "20", "-d", "120", "-n", str(count), "-t",
                       "set,get,lpush,lpop,sadd,hset,zadd,mset"]

    def run(self, measure, environment, prefix):
        # Debian's redis is linked with libjemalloc: without a preload it would measure jemalloc, so
        # glibc's malloc is put in front by name.
        if not any(item.startswith("LD_PRELOAD=") for item in environment) and not prefix:
            environment = environment + ["LD_PRELOAD=libc.so.6"]
        command = measure + environment + ["--"] + prefix + self.command
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as server:
            try:
                for _ in range(200):  # the server offers no event to wait for but its socket
                    if os.path.exists(self.socket) or server.poll() is not None:
                        break
                    time.sleep(0.02)
                client = subprocess.run(self.client, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, timeout=120, check=False)
                subprocess.run(["redis-cli", "-s", self.socket, "shutdown", "nosave"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20,
                               check=False)
                stderr = server.communicate(timeout=20)[1]
            except subprocess.TimeoutExpired as error:
                server.terminate()
                server.communicate()
                return f"no answer: {error.cmd[0]}"
        if client.returncode != 0:
            return self.complaint(client.returncode, client.stderr + stderr)
        return self.complaint(server.returncode, stderr)


def sqlite_script(path, quick):
    """Inserts, an index, joins, aggregates and text functions on a database in memory."""
    source = random.Random(1)
    rows = 8000 if quick else 60000
    words = ["".join(source.choices("abcdefghijklmnop", k=source.randint(3, 12))) for _ in range(900)]
    with open(path, "w", encoding="ascii") as out:
        out.write("CREATE TABLE item(id INTEGER PRIMARY KEY, owner INT, name TEXT, note TEXT);\n"
                  "CREATE TABLE owner(id INTEGER PRIMARY KEY, name TEXT);\nBEGIN;\n")
        for i in range(rows // 20):
            out.write(f"INSERT INTO owner VALUES({i},'{source.choice(words)}');\n")
        for i in range(rows):
            note = " ".join(source.choices(words, k=source.randint(1, 20)))
            out.write(f"INSERT INTO item VALUES({i},{source.randrange(rows // 20)},"
                      f"'{source.choice(words)}','{note}');\n")
        out.write("COMMIT;\nCREATE INDEX item_name ON item(name);\n")
        for i in range(40):
            out.write("SELECT owner.name, count(*), group_concat(item.name), max(length(note)) "
                      "FROM item JOIN owner ON owner.id = item.owner "
                      f"WHERE item.name > '{words[i]}' GROUP BY owner.name ORDER BY 2 LIMIT 9;\n")
            out.write(f"UPDATE item SET note = upper(note) || ' {words[i]}' WHERE name = "
                      f"'{words[i]}';\n")
            out.write("SELECT replace(note, 'a', 'bb') FROM item "
                      f"WHERE note LIKE '%{words[i]}%' LIMIT 500;\n")


PYTHON_SCRIPT = """
import json, sys
count = int(sys.argv[1])
class Node:
    def __init__(self, key, next):
        self.key, self.next, self.names = key, next, [str(key)] * 3
state = 1
def draw():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return state >> 33
tree, chain, table = {}, None, {}
for i in range(count):
    key = draw() % 50000
    table.setdefault(key % 977, []).append((key, "item-%d" % key, [key] * (key % 7)))
    chain = Node(key, chain if i % 1000 else None)
    tree[str(key)] = {"left": key, "right": str(i), "list": list(range(key % 20))}
    if i % 5000 == 4999:
        text = json.dumps(tree)
        assert json.loads(text) == tree
        tree = {k: v for k, v in tree.items() if v["left"] % 3}
        " ".join(sorted(text.split(" ")[:2000]))
print(sum(len(v) for v in table.values()))
"""


def c_source(path, quick):
    """A C file of many functions with loops, switches and structs for the compiler to chew on."""
    source = random.Random(2)
    with open(path, "w", encoding="ascii") as out:
        out.write("struct s { int a, b; double d; struct s *next; char text[16]; };\n"
                  "extern int g(struct s *, int); extern int table[256];\n")
        for i in range(60 if quick else 400):
            out.write(f"int f{i}(struct s *p, int n)\n{{\n    int r = {source.randrange(99)};\n")
            for k in range(source.randint(4, 12)):
                a, b, c = (source.randrange(1, 1000) for _ in range(3))
                out.write(source.choice([
                    f"    for (int i{k} = 0; i{k} < n + {a}; i{k}++) r += table[(r ^ i{k} * {b}) & 255];\n",
                    f"    switch (r % 7) {{ case 0: r += {a}; break; case 2: r ^= g(p, {b}); break; "
                    f"case 5: r *= {c}; default: p->a += r; }}\n",
                    f"    while (p && p->a < {a}) {{ p->b = p->b * {b} + r; p = p->next; r -= {c}; }}\n",
                    f"    if (p && p->d > {a}.5 && r < {b}) {{ p->text[r & 15] = n; r += f{max(i - 1, 0)}"
                    f"(p->next, n - {c}); }} else r = (r << 3) - (n >> 2);\n"]))
                out.write("    if (!p) return r;\n")
            out.write("    return r + g(p, r);\n}\n")


def compiler_proper():
    """gcc's cc1."""
    if not shutil.which("gcc"):
        return "cc1"
    said = subprocess.run(["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE, check=True)
    return said.stdout.decode().strip()


def all_workloads(build, folder, quick):
    """All workloads; their inputs are written to `folder`."""
    quick_option = ["--quick"] if quick else []
    loads = [Workload(name, [os.path.join(build, "bench", name)] + quick_option)
             for name in PATTERNS]
    script, program = os.path.join(folder, "script.sql"), os.path.join(folder, "program.c")
    python = os.path.join(folder, "objects.py")
    sqlite_script(script, quick)
    c_source(program, quick)
    with open(python, "w", encoding="ascii") as out:
        out.write(PYTHON_SCRIPT)
    interpreter = "/usr/bin/python3"
    loads.append(Redis(folder, quick))
    loads.append(Workload("sqlite3", ["sqlite3", ":memory:"], "sqlite3", stdin=script))
    loads.append(Workload("python3", [interpreter, "-s", "-S", python,
                                      "20000" if quick else "100000"], interpreter,
                          ["PYTHONMALLOC=malloc", "PYTHONHASHSEED=0"]))
    # The compiler itself: profilers that are commands do not follow gcc to its children.
    loads.append(Workload("gcc", [compiler_proper(), "-quiet", "-O1", "-o", os.devnull, program], "gcc"))
    return loads
