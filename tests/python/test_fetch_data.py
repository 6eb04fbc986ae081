"""scripts/fetch-data against a server on this machine that breaks off, knows no ranges, or sends rubbish."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/fetch-data"
CONTENT = bytes(range(256)) * 20_000


class Publisher(ThreadingHTTPServer):
    """Serve `files`; each response ends after `cut` bytes where that is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[str] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Range", ""))
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        first = 0
        given = self.headers.get("Range")
        if given and self.server.ranges:
            first = int(given.removeprefix("bytes=").rstrip("-"))
            if first >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        end = len(content) if self.server.cut is None else min(len(content), first + self.server.cut)
        self.wfile.write(content[first:end])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def entry(publisher: Publisher, name: str, content: bytes, **more: Any) -> dict[str, Any]:
    publisher.files[name] = content
    return {"url": publisher.url(name), "sha256": hashlib.sha256(content).hexdigest(), **more}


def run(
    folder: Path, table: dict[str, Any], *names: str, attempts: int = 3
) -> subprocess.CompletedProcess[str]:
    path = folder / "table.json"
    path.write_text(json.dumps(table))
    options = [
        "--to",
        str(folder / "data"),
        "--table",
        str(path),
        "--attempts",
        str(attempts),
        "--pause",
        "0",
    ]
    command = [sys.executable, str(SCRIPT), *names, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_a_file_is_fetched_checked_and_not_fetched_again(tmp_path: Path, publisher: Publisher) -> None:
    table = {"set": {"files": [entry(publisher, "a.bin", CONTENT)]}}
    assert run(tmp_path, table, "set").returncode == 0
    assert (tmp_path / "data/set/a.bin").read_bytes() == CONTENT
    assert run(tmp_path, table, "set").returncode == 0
    assert publisher.asked == [""]
    assert [p.name for p in (tmp_path / "data/set").iterdir()] == ["a.bin"]


def test_a_download_that_is_cut_off_goes_on_where_it_stopped(tmp_path: Path, publisher: Publisher) -> None:
    table = {"set": {"files": [entry(publisher, "a.bin", CONTENT)]}}
    publisher.cut = 2_000_000
    done = run(tmp_path, table, "set", attempts=1)
    assert done.returncode == 1
    assert "run the same command to continue" in done.stderr
    assert not (tmp_path / "data/set/a.bin").exists()
    assert (tmp_path / "data/set/a.bin.part").stat().st_size == 2_000_000
    assert run(tmp_path, table, "set").returncode == 0
    assert (tmp_path / "data/set/a.bin").read_bytes() == CONTENT
    assert publisher.asked == ["", "bytes=2000000-", "bytes=4000000-"]


def test_a_server_without_ranges_is_asked_for_all_of_it_again(tmp_path: Path, publisher: Publisher) -> None:
    table = {"set": {"files": [entry(publisher, "a.bin", CONTENT)]}}
    publisher.cut, publisher.ranges = 1000, False
    assert run(tmp_path, table, "set", attempts=1).returncode == 1
    publisher.cut = None
    assert run(tmp_path, table, "set").returncode == 0
    assert (tmp_path / "data/set/a.bin").read_bytes() == CONTENT


def test_a_part_that_is_whole_needs_nothing_but_its_checksum(tmp_path: Path, publisher: Publisher) -> None:
    table = {"set": {"files": [entry(publisher, "a.bin", CONTENT)]}}
    (tmp_path / "data/set").mkdir(parents=True)
    (tmp_path / "data/set/a.bin.part").write_bytes(CONTENT)
    assert run(tmp_path, table, "set").returncode == 0
    assert (tmp_path / "data/set/a.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_file_with_a_wrong_checksum_is_deleted(tmp_path: Path, publisher: Publisher, kind: str) -> None:
    publisher.files["a.bin"] = b"rubbish"
    wanted = hashlib.new(kind, CONTENT).hexdigest()
    table = {"set": {"files": [{"url": publisher.url("a.bin"), kind: wanted}]}}
    done = run(tmp_path, table, "set")
    assert done.returncode == 1
    assert wanted in done.stderr
    assert list((tmp_path / "data/set").iterdir()) == []


def test_a_file_of_another_content_is_not_overwritten(tmp_path: Path, publisher: Publisher) -> None:
    table = {"set": {"files": [entry(publisher, "a.bin", CONTENT)]}}
    (tmp_path / "data/set").mkdir(parents=True)
    (tmp_path / "data/set/a.bin").write_bytes(b"mine")
    done = run(tmp_path, table, "set")
    assert done.returncode == 1
    assert "remove the file" in done.stderr
    assert (tmp_path / "data/set/a.bin").read_bytes() == b"mine"
    assert publisher.asked == []


def tar_of(members: dict[str, bytes], link: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
    return buffer.getvalue()


def test_an_archive_is_unpacked_and_not_kept(tmp_path: Path, publisher: Publisher) -> None:
    archive = tar_of({"top/a.txt": b"a", "top/sub/b.txt": b"b"})
    table = {"set": {"files": [entry(publisher, "x.tar.gz", archive, unpack="top")]}}
    assert run(tmp_path, table, "set").returncode == 0
    assert (tmp_path / "data/set/top/sub/b.txt").read_bytes() == b"b"
    assert [p.name for p in (tmp_path / "data/set").iterdir()] == ["top"]
    assert run(tmp_path, table, "set").returncode == 0
    assert len(publisher.asked) == 1


def reviews(folder: Path) -> bytes:
    """Return an archive as Keras publishes it, with two texts in each half."""
    first, second = np.empty(2, object), np.empty(2, object)
    first[:], second[:] = [[1, 2], [3]], [[4], [5]]
    path = folder / "made.npz"
    np.savez(path, x_train=first, y_train=[0, 1], x_test=second, y_test=[1, 0])
    return path.read_bytes()


def test_an_archive_of_keras_is_converted_and_kept(tmp_path: Path, publisher: Publisher) -> None:
    archive = reviews(tmp_path)
    table = {"imdb": {"files": [entry(publisher, "imdb.npz", archive, convert={"train": 2, "test": 2})]}}
    done = run(tmp_path, table, "imdb")
    assert done.returncode == 0, done.stderr
    home = tmp_path / "data/imdb"
    names = ["imdb.npz", "inputs.npy", "labels.npy", "source.json"]
    assert sorted(path.name for path in home.iterdir()) == names
    assert np.load(home / "inputs.npy")[:, -2:].tolist() == [[4, 5], [1, 6], [1, 7], [1, 8]]
    assert np.load(home / "labels.npy").tolist() == [0, 1, 1, 0]
    source = json.loads((home / "source.json").read_text())
    assert source["sha256"] == hashlib.sha256(archive).hexdigest()
    (home / "imdb.npz").unlink()
    assert run(tmp_path, table, "imdb").returncode == 0
    assert publisher.asked == [""], "the arrays are there"


def test_an_archive_that_is_already_there_is_converted(tmp_path: Path, publisher: Publisher) -> None:
    archive = reviews(tmp_path)
    table = {"imdb": {"files": [entry(publisher, "imdb.npz", archive, convert={"train": 2, "test": 2})]}}
    (tmp_path / "data/imdb").mkdir(parents=True)
    (tmp_path / "data/imdb/imdb.npz").write_bytes(archive)
    assert run(tmp_path, table, "imdb").returncode == 0
    assert np.load(tmp_path / "data/imdb/inputs.npy").shape == (4, 500)
    assert publisher.asked == []


def test_an_archive_with_other_counts_is_refused(tmp_path: Path, publisher: Publisher) -> None:
    archive = reviews(tmp_path)
    table = {"imdb": {"files": [entry(publisher, "imdb.npz", archive, convert={"train": 2, "test": 3})]}}
    done = run(tmp_path, table, "imdb")
    assert done.returncode == 1
    assert "has 2 texts and 2 labels to test, wanted 3" in done.stderr
    assert [path.name for path in (tmp_path / "data/imdb").iterdir()] == ["imdb.npz"]


@pytest.mark.parametrize(
    "archive",
    [tar_of({"../evil": b"x", "top/a": b"a"}), tar_of({"top/a": b"a"}, link="top/link"), tar_of({"b": b"b"})],
    ids=["a path upwards", "a link", "another folder"],  # not its bytes, which hold the time
)
def test_an_archive_that_leaves_its_folder_is_refused(
    tmp_path: Path, publisher: Publisher, archive: bytes
) -> None:
    table = {"set": {"files": [entry(publisher, "x.tar.gz", archive, unpack="top")]}}
    done = run(tmp_path, table, "set")
    assert done.returncode == 1
    assert "x.tar.gz: h" in done.stderr
    assert not (tmp_path / "data/set/top").exists()
    assert not (tmp_path / "data/evil").exists()


def test_a_missing_file_is_reported_in_one_line(tmp_path: Path, publisher: Publisher) -> None:
    table = {
        "set": {"files": [{"url": publisher.url("nothing"), "md5": "0" * 32}]},
        "secret": {"manual": "ask them"},
    }
    for name, reason in (("set", "404"), ("secret", "ask them"), ("other", "not in the table")):
        done = run(tmp_path, table, name)
        assert done.returncode == 1
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
    assert publisher.asked == [""], "an absent file is asked for once"


def test_the_table_has_an_address_and_a_checksum_for_every_file() -> None:
    table = json.loads((ROOT / "scripts/fetch-data.json").read_text())
    assert {"mnist", "fashion-mnist", "cifar10", "imdb", "aclimdb", "imagenet"} <= set(table)
    for name, given in table.items():
        for file in given.get("files", []):
            assert file["url"].startswith("http"), name
            kind, length = ("sha256", 64) if "sha256" in file else ("md5", 32)
            assert len(bytes.fromhex(file[kind])) * 2 == length, name
