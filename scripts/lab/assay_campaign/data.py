"""Hostile data sets and configs: refused within 1 GB and 10 s of processor time."""

from __future__ import annotations

import gzip
import json
import os
import struct
import sys
import zipfile
import zlib
from pathlib import Path

from assay_campaign.bench import ROOT, Bench, Case, Done, Place, remove, run_all

REFUSED, UNAVAILABLE = 2, 4
MAX_MEMORY = 1 << 30
MAX_SECONDS = 10.0  # of the processor
TERABYTE = 1 << 40
LIMIT = 600.0

MNIST = {
    "train-images-idx3-ubyte": (60_000, 28, 28),
    "train-labels-idx1-ubyte": (60_000,),
    "t10k-images-idx3-ubyte": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte": (10_000,),
}
CIFAR10 = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin", "batches.meta.txt"]


def fresh(bench: Bench) -> Place:
    place = bench.place("data")
    for old in [*place.out.iterdir(), *place.tmp.iterdir()]:
        remove(old)
    return place


def read_dataset(place: Place, dataset: str) -> Done:
    command = ["run", "--workload", "mlp", "--dataset", dataset, "--data", place.out, "--backend", "fault"]
    command += ["--mode", "good", "--threads", "1", "--blocks", "3", "--forks", "1", "--check=false"]
    return place.assay(*command, "--out", place.tmp / "report.json", limit=LIMIT)


def check(case: Case, place: Place, done: Done, codes: tuple[int, ...] = (REFUSED, UNAVAILABLE)) -> None:
    case.counts[f"exit code {done.code}"] += 1
    case.expect(done.code in codes, f"wanted {' or '.join(map(str, codes))}, got {done.told}")
    case.expect(bool((done.out + done.err).strip()), "no message")
    case.expect("fault of the program" not in done.err and "Traceback" not in done.err, done.told)
    case.expect(done.max_rss <= MAX_MEMORY, f"took {done.max_rss >> 20} MB")
    case.expect(done.cpu_seconds <= MAX_SECONDS, f"took {done.cpu_seconds:.1f} s of processor time")
    remove(place.tmp / "report.json")
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")


def idx(extents: tuple[int, ...], content: bytes = b"") -> bytes:
    return struct.pack(f">BBBB{len(extents)}I", 0, 0, 8, len(extents), *extents) + content


def write_mnist(folder: Path) -> Path:
    """Write files of the sizes that the set has, all zeros."""
    folder.mkdir(parents=True)
    for name, extents in MNIST.items():
        with (folder / name).open("wb") as file:
            file.write(idx(extents))
            elements = 1
            for extent in extents:
                elements *= extent
            file.truncate(file.tell() + elements)
    return folder


def bomb(start: bytes, megabytes: int) -> bytes:
    """Return gzip members that inflate to `start` and that many megabytes of zeros."""
    member = gzip.compress(bytes(64 << 20))
    return gzip.compress(start) + member * (megabytes // 64)


def one_member_bomb(start: bytes, megabytes: int) -> bytes:
    """Return the same in one member: a flushed block inflates to the same bytes at any position."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (megabytes // 64)


def gzip_bomb(bench: Bench, case: Case) -> None:
    """The header is right, wrong, or that of the largest possible set; gigabytes follow."""
    place, lot = fresh(bench), case.random
    folder = write_mnist(place.out / "mnist")
    name = lot.choice([*MNIST])
    (folder / name).unlink()
    extents = lot.choice([MNIST[name], tuple(65_535 for _ in MNIST[name]), (1, 1, 1, 1), (60_000, 256, 256)])
    pack = lot.choice([bomb, one_member_bomb])
    start = lot.choice([idx(extents), b"", b"\0\0\x08\x03"])
    (folder / f"{name}.gz").write_bytes(pack(start, lot.choice([1024, 16_384])))
    check(case, place, read_dataset(place, "mnist"))


def gzip_bomb_of_bombs(bench: Bench, case: Case) -> None:
    """Many empty members, and a file whose packed size is beyond the set's."""
    place = fresh(bench)
    folder = write_mnist(place.out / "mnist")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    empty = gzip.compress(b"")
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(empty * case.random.choice([3000, 3_000_000]))
    check(case, place, read_dataset(place, "mnist"))


def idx_header(bench: Bench, case: Case) -> None:
    """A header that contradicts the file."""
    place, lot = fresh(bench), case.random
    folder = write_mnist(place.out / "mnist")
    name = lot.choice([*MNIST])
    extents = [lot.choice([0, 1, 28, 65_536, 2**31, 2**32 - 1]) for _ in range(lot.randrange(7))]
    header = bytearray(idx(tuple(extents)))
    if lot.random() < 0.5:
        header[lot.randrange(4)] = lot.randrange(256)
    if lot.random() < 0.3:
        del header[lot.randrange(len(header)) :]
    with (folder / name).open("r+b") as file:
        file.write(header)
        cut = lot.random() < 0.3
        if cut:
            file.truncate(len(header))
    right = idx(MNIST[name])
    unchanged = not cut and right.startswith(header)
    check(case, place, read_dataset(place, "mnist"), (0,) if unchanged else (REFUSED,))


def sparse_idx(bench: Bench, case: Case) -> None:
    place = fresh(bench)
    folder = write_mnist(place.out / "mnist")
    os.truncate(folder / case.random.choice([*MNIST]), case.random.choice([3 << 30, 50 << 30, TERABYTE]))
    check(case, place, read_dataset(place, "mnist"))


def sparse_cifar10(bench: Bench, case: Case) -> None:
    place = fresh(bench)
    folder = place.out / "cifar10"
    folder.mkdir()
    for name in CIFAR10:
        (folder / name).touch()
    os.truncate(folder / case.random.choice(CIFAR10), case.random.choice([3 << 30, 50 << 30, TERABYTE]))
    check(case, place, read_dataset(place, "cifar10"))


def npy(descr: str, shape: str) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def own_arrays(bench: Bench, case: Case) -> None:
    """Arrays too large for any memory, by header, by length or by both."""
    place, lot = fresh(bench), case.random
    folder = place.out / "npy"
    folder.mkdir()
    rows = lot.choice([100, TERABYTE, 2**62, 10**30])
    shape = lot.choice([f"({rows}, 28)", f"({rows},)", f"({rows}, 1, 28, 28)", "(100, 0)", "()", "(100, -1)"])
    for name, header in (
        ("inputs", npy(lot.choice(["|u1", "<f4"]), shape)),
        ("labels", npy("|u1", f"({rows},)")),
    ):
        with (folder / f"{name}.npy").open("wb") as file:
            file.write(header)
            file.truncate(lot.choice([len(header), 3 << 30, TERABYTE]))
    check(case, place, read_dataset(place, "npy"))


def tokens(bench: Bench, case: Case) -> None:
    """The converted reviews, which have a known shape."""
    place, lot = fresh(bench), case.random
    folder = place.out / "imdb"
    folder.mkdir()
    shape = lot.choice(["(50000, 500)", f"({TERABYTE}, 500)", "(50000,)", "(50000, 500, 1)"])
    for name, header in (("inputs", npy("<i4", shape)), ("labels", npy("<i8", "(50000,)"))):
        with (folder / f"{name}.npy").open("wb") as file:
            file.write(header)
            file.truncate(lot.choice([len(header), 3 << 30, TERABYTE]))
    command = ["run", "--workload", "lstm", "--dataset", "imdb", "--data", place.out, "--backend", "fault"]
    command += ["--mode", "good", "--threads", "1", "--blocks", "3", "--forks", "1", "--check=false"]
    check(case, place, place.assay(*command, "--out", place.tmp / "report.json", limit=LIMIT))


def sparse_texts(bench: Bench, case: Case) -> None:
    place = fresh(bench)
    for part in ("train/neg", "train/pos", "test/neg", "test/pos"):
        (place.out / "aclimdb" / part).mkdir(parents=True)
        (place.out / "aclimdb" / part / "0_1.txt").write_text("good")
    text = place.out / "aclimdb" / case.random.choice(["train/neg", "test/pos"]) / "0_1.txt"
    os.truncate(text, case.random.choice([2 << 20, 3 << 30, TERABYTE]))
    command = ["run", "--workload", "lstm", "--dataset", "aclimdb", "--data", place.out, "--backend", "fault"]
    command += ["--mode", "good", "--threads", "1", "--blocks", "3", "--forks", "1", "--check=false"]
    check(case, place, place.assay(*command, "--out", place.tmp / "report.json", limit=LIMIT))


def special_files(bench: Bench, case: Case) -> None:
    """Pipes, devices, folders or loops of links instead of a data set's file."""
    place, lot = fresh(bench), case.random
    folder = write_mnist(place.out / "mnist")
    file = folder / lot.choice([*MNIST])
    file.unlink()
    kind = lot.randrange(5)
    if kind == 0:
        os.mkfifo(file)
    elif kind == 1:
        file.mkdir()
    else:
        file.symlink_to(["/dev/zero", "/proc/self/mem", file.name][kind - 2])
    check(case, place, read_dataset(place, "mnist"))


def zip_bomb(bench: Bench, case: Case) -> None:
    """A file that is not an imdb.npz: scripts/fetch-data --convert refuses it."""
    place, lot = fresh(bench), case.random
    archive = place.out / "imdb.npz"
    kind = lot.randrange(4)
    if kind == 0:  # a sparse file
        with archive.open("wb") as file:
            file.write(b"PK\3\4")
            file.truncate(50 << 30)
    elif kind == 1:  # more than the arrays may have
        with (
            zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed,
            packed.open("x_train.npy", "w") as member,
        ):
            for _ in range(16):
                member.write(bytes(64 << 20))
    elif kind == 2:  # tens of thousands of members with the same bytes
        overlapping(archive, 60_000)
    else:
        with zipfile.ZipFile(archive, "w") as packed:
            for name in ("x_train", "y_train", "x_test", "y_test"):
                packed.writestr(
                    f"{name}.npy", npy("|O" if name[0] == "x" else "<i8", f"({10 ** lot.randrange(3, 12)},)")
                )
    command = [
        sys.executable,
        str(ROOT / "scripts/fetch-data"),
        "--convert",
        str(archive),
        "--to",
        str(place.tmp),
    ]
    done = place.run(command, limit=LIMIT)
    remove(place.tmp / "imdb")
    check(case, place, done, (1,))


def overlapping(archive: Path, members: int) -> None:
    """Write a zip archive whose members are all the same stream of 64 MB of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = bytes(64 << 20)
    packed = packer.compress(content) + packer.flush()
    names = [f"{name}.npy" for name in ("x_train", "y_train", "x_test", "y_test")]
    sizes = (zlib.crc32(content), len(packed), len(content))
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, *sizes, 0, 0)
    entries = []
    for number in range(members):
        name = (names[number] if number < 4 else f"{number}.npy").encode()
        entry = struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 0, *sizes, len(name), 0, 0, 0, 0, 0, 0
        )
        entries.append(entry + name)
    directory = b"".join(entries)
    at = len(local) + len(packed)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, members, members, len(directory), at, 0)
    archive.write_bytes(local + packed + directory + end)


def config_with_many_cells(bench: Bench, case: Case) -> None:
    place, lot = fresh(bench), case.random
    length = lot.choice([200, 1000, 4000])
    config = {
        "workload": "mlp",
        "backend": "fault",
        "mode": "good",
        "batch": [*range(1, length + 1)],
        "threads": [*range(1, length + 1)],
        "learning-rate": [i / 1e6 for i in range(1, length + 1)],
    }
    if lot.random() < 0.5:
        rows = [{key: value for key, value in config.items() if key != "learning-rate"} for _ in range(3)]
        config = {"cells": rows}
    check(case, place, run_config(place, json.dumps(config)), (REFUSED,))


def strange_config(bench: Bench, case: Case) -> None:
    """Nested, long, repeated, endless: not a config."""
    place, lot = fresh(bench), case.random
    texts = (
        "[" * 3_000_000,
        '{"workload": "' + "x" * 4_000_000 + '"}',
        '{"a": ' * 100_000,
        "\0" * 1_000_000,
        "{" + ",".join(f'"{i}": 0' for i in range(300_000)) + "}",
        '{"workload": "mlp", "batch": ' + "9" * 1_000_000 + "}",
        '{"workload": ["' + '","'.join(["mlp"] * 300_000) + '"]}',
        '{"workload": "mlp", "batch": 1e999}',
        "",
        "nil",
        json.dumps({"workload": "mlp", "interpreter": ["torch=/bin/true"]}),
        '{"workload": "mlp"}' + " " * 5_000_000,
    )
    check(case, place, run_config(place, lot.choice(texts)), (REFUSED,))


def special_file_as_config(bench: Bench, case: Case) -> None:
    place = fresh(bench)
    os.mkfifo(place.out / "pipe")
    sparse = place.out / "sparse.json"
    sparse.touch()
    os.truncate(sparse, TERABYTE)
    given = case.random.choice(
        [place.out / "pipe", sparse, Path("/dev/zero"), Path("/proc/self/mem"), place.out]
    )
    check(case, place, place.assay("run", given, "--dry-run", limit=LIMIT), (REFUSED,))


def run_config(place: Place, text: str) -> Done:
    config = place.out / "config.json"
    config.write_text(text)
    return place.assay("run", config, "--dry-run", limit=LIMIT)


CASES = [
    gzip_bomb,
    gzip_bomb_of_bombs,
    idx_header,
    sparse_idx,
    sparse_cifar10,
    own_arrays,
    tokens,
    sparse_texts,
    special_files,
    zip_bomb,
    config_with_many_cells,
    strange_config,
    special_file_as_config,
]


def hold(bench: Bench) -> None:
    run_all(bench, CASES)
