"""Copies the folder next to the source, or misbehaves as the source says."""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("source", type=Path)
parser.add_argument("--out", type=Path)
parser.add_argument("--dry-run", action="store_true")
given, _ = parser.parse_known_args()
what = given.source.read_text().strip()
if what == "refused":
    print("a table of what is missing")
    print("warning: this is nothing\nerror: LRN is not supported (first node 'norm1')", file=sys.stderr)
    sys.exit(2)
if what == "fault":
    raise RuntimeError("the importer is broken")
if what == "greedy":
    held = [bytearray(1 << 30) for _ in range(64)]
if what == "slow":
    (given.out / "waits").touch()
    time.sleep(1000)
if what == "outside":
    (given.source.parent / "stolen").write_text("it may write here")
if what == "online":
    socket.create_connection(("127.0.0.1", 9), timeout=1)
for file in (given.source.parent / "network").iterdir():
    if not given.dry_run:
        shutil.copyfile(file, given.out / file.name)
print("copied")
