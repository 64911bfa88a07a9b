#!/usr/bin/env python3
"""Tick time and peak memory against the length of the journal, all sizes in one run.

    benches/journal_size.py [LINES ...]        (default 1000 200000)

Each size is a federation of 100 roster rows on refused loopback ports. Rounds go through the sizes
in turn, so that whatever else the machine does hits all of them; medians are compared. Needs GNU
time as /usr/bin/time.
"""
import os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

ROUNDS = 30
top = pathlib.Path(__file__).resolve().parent.parent
sizes = [int(a) for a in sys.argv[1:]] or [1_000, 200_000]
subprocess.run(["cargo", "build", "--release", "--locked", "--bins", "--example", "grow_journal"], cwd=top, check=True)
target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", top / "target")) / "release"
program, grow = target / "crowny-fed", target / "examples" / "grow_journal"


def run(*args):
    """Wall seconds, CPU seconds, peak KiB of one process, through GNU time: a child forked by
    Python itself would be charged for Python's own memory."""
    began = time.perf_counter()
    timed = ["/usr/bin/time", "-q", "-f", "%U %S %M", *map(str, args)]
    done = subprocess.run(timed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall = time.perf_counter() - began
    assert done.returncode in (0, 4), (args, done.returncode, done.stderr)
    user, system, peak = done.stderr.splitlines()[-1].split()
    return wall, float(user) + float(system), int(peak)


def found(folder, lines):
    subprocess.run([program, "init", "-q", "--dir", folder, "--id", "anchor"], check=True)
    config = folder / "crowny-fed.toml"
    config.write_text(config.read_text().replace('interval = "30s"', 'interval = "0"\nsuspicion_ticks = 1000000'))
    subprocess.run([grow, folder, str(lines)], check=True)
    roster(folder, "active")
    run(program, "tick", "--dir", folder)  # every peer is suspect from here on


def roster(folder, state):
    rows = [f"peer-{n:03}|127.0.0.1|1|edge|{state if n == 0 else 'active'}" for n in range(100)]
    (folder / "피어목록.psv").write_text("\n".join(rows) + "\n")


work = pathlib.Path(tempfile.mkdtemp(prefix="journal-size-"))
try:
    folders = {lines: work / str(lines) for lines in sizes}
    for lines, folder in folders.items():
        found(folder, lines)
    seen = {(lines, kind): [] for lines in sizes for kind in ("idle tick", "tick that appends", "proof by hash")}
    for turn in range(ROUNDS):
        for lines, folder in folders.items():
            seen[lines, "idle tick"].append(run(program, "tick", "-q", "--dir", folder))
            roster(folder, "standby" if turn % 2 == 0 else "active")
            seen[lines, "tick that appends"].append(run(program, "tick", "-q", "--dir", folder))
            head = (folder / "head.txt").read_text().split()[1]
            seen[lines, "proof by hash"].append(run(program, "proof", head, "--dir", folder))
    print("| what | lines | wall ms (median) | CPU ms (median) | peak MiB | wall against the first size |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in ("idle tick", "tick that appends", "proof by hash"):
        first = statistics.median(w for w, _, _ in seen[sizes[0], kind])
        for lines in sizes:
            walls, cpus, peaks = zip(*seen[lines, kind])
            wall = statistics.median(walls)
            print(f"| {kind} | {lines:,} | {wall * 1e3:.1f} | {statistics.median(cpus) * 1e3:.1f} "
                  f"| {max(peaks) / 1024:.1f} | {wall / first:.2f} |")
    for lines, folder in folders.items():
        wall, cpu, peak = run(program, "verify", "--full", "--dir", folder)
        print(f"| verify --full | {lines:,} | {wall * 1e3:.0f} | {cpu * 1e3:.0f} | {peak / 1024:.1f} | {lines / wall:,.0f} lines/s |")
finally:
    shutil.rmtree(work)
