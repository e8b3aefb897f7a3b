#!/usr/bin/env python3
"""Imports a folder of dsh logs and compares the stored counts with a count of the lines.

    count_real.py EVERLOG FOLDER

The expected count is made here, from the text alone: each line after the header is one event, or as many as its packed
row has members.
"""
import json
import os
import subprocess
import sys
import tempfile


def events_in(path):
    count = 0
    with open(path, "rb") as lines:
        next(lines)  # the header
        for line in lines.read().split(b"\n"):
            if not line.strip():
                continue
            row = json.loads(line.decode("utf-8", "surrogatepass"))
            packed = str(row.get("type", "")).endswith("-chunks")
            count += len(row["data"].get("texts", row["data"].get("args", []))) if packed else 1
    return count


def main():
    binary, folder = sys.argv[1:]
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jsonl"))
    if not paths:
        sys.exit(f"no logs in {folder}")
    bad = events = 0
    with tempfile.TemporaryDirectory() as temp:
        store = os.path.join(temp, "store")
        subprocess.run([binary, "init", store], check=True, stdout=subprocess.DEVNULL)
        for path in paths:
            run = subprocess.run([binary, "-s", store, "import", path, "-o", "jsonl"], capture_output=True)
            want, got = events_in(path), None
            if run.returncode == 0 and run.stdout:
                got = json.loads(run.stdout.splitlines()[0]).get("stored")
            if got == want:
                events += want
            else:
                bad += 1
                print(f"FAIL {os.path.basename(path)}: stored {got}, expected {want}; {run.stderr[:200]!r}")
        check = subprocess.run([binary, "-s", store, "check", "-o", "json"], capture_output=True)
        if check.returncode or not json.loads(check.stdout).get("ok"):
            bad += 1
            print(f"FAIL check: exit {check.returncode}, {check.stdout[:200]!r}")
    print(f"{len(paths)} real logs, {events} events, {bad} wrong")
    sys.exit(1 if bad else 0)


main()
