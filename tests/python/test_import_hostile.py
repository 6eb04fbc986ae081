"""Files that are made to break the importer: each is refused in a line, soon, and in little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import model, node, onnx_or_skip, packages_with_onnx, random, saved
from pt2_archive import archive, document, tensor_meta
from worker_under_test import ROOT

onnx = onnx_or_skip()

SECONDS = 2  # of processor time
BYTES = 1 << 30
BASE = 450 << 20  # of addresses that Python, numpy and onnx take before they read a file


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES + BASE, BYTES + BASE))
    resource.setrlimit(
        resource.RLIMIT_CPU, (SECONDS + 2, SECONDS + 2)
    )  # two for the imports, next to other tests


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder = packages_with_onnx()
    assert folder is not None
    return subprocess.run(
        [folder.parents[2] / "bin/python", "-m", "assay_import", path, "--dry-run", *arguments],
        env={
            "PYTHONPATH": str(ROOT / "backends/python"),
            "OPENBLAS_NUM_THREADS": "1",
            "PATH": os.environ["PATH"],
        },
        preexec_fn=limited,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def within(graph: bytes) -> bytes:
    """Return the bytes of a model with this graph."""
    return varint(8) + b"\x08" + part(7, graph) + part(8, varint(16) + b"\x14")


def nested(depth: int) -> bytes:
    graph = b""
    for _ in range(depth):
        graph = part(1, part(4, b"If") + part(5, part(1, b"then_branch") + part(6, graph)))
    return within(graph)


def nested_types(depth: int) -> bytes:
    kind = part(1, b"")
    for _ in range(depth):
        kind = part(4, part(1, kind))
    return within(part(11, part(1, b"x") + part(2, kind)))


def cyclic() -> Any:
    return model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Tanh", "b", "y")])


def with_tensor(change: Callable[[Any], None]) -> Any:
    made = model([node("MatMul", "x w", "y")], w=random(8, 3))
    change(made.graph.initializer[0])
    return made


def located(location: str, offset: str = "0", length: str = "96") -> Any:
    def change(tensor: Any) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=value)

    return with_tensor(change)


def resized(dims: list[int], kind: int = 1, data: bytes | None = None) -> Any:
    def change(tensor: Any) -> None:
        del tensor.dims[:]
        tensor.dims.extend(dims)
        tensor.data_type = kind
        if data is not None:
            tensor.raw_data = data

    return with_tensor(change)


def twice() -> Any:
    made = model([node("MatMul", "x w", "y")], w=random(8, 3))
    made.graph.initializer.append(made.graph.initializer[0])
    return made


ONNX: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"this is no model\n" * 100,
    "a web page": lambda: b"<!DOCTYPE html><html><body>404</body></html>",
    "an empty tensor with an extent beyond memory": lambda: resized([0, 1 << 62]).SerializeToString(),
    "half a file": lambda: model([node("MatMul", "x w", "y")], w=random(8, 300)).SerializeToString()[:4000],
    "a length beyond the end": lambda: part(7, b"")[:1] + varint(1 << 40),
    "millions of empty nodes": lambda: within(part(1, b"") * 5_000_000),
    "millions of names": lambda: within(part(1, part(1, b"") * 5_000_000)),
    "millions of numbers in an attribute": lambda: within(part(1, part(5, part(8, b"\1" * 60_000_000)))),
    "millions of extents": lambda: within(part(11, part(2, part(1, part(2, part(1, b"") * 10_000_000))))),
    "millions of unknown parts": lambda: within(part(99, part(1, b"") * 10_000_000)),
    "graphs in graphs": lambda: nested(60),
    "types in types": lambda: nested_types(60),
    "a cycle": lambda: cyclic().SerializeToString(),
    "one name for two nodes": lambda: model(
        [node("Relu", "x", "a"), node("Tanh", "x", "a"), node("Add", "a a", "y")]
    ).SerializeToString(),
    "one name for two tensors": lambda: twice().SerializeToString(),
    "a weight of 2^62 elements": lambda: resized([1 << 31, 1 << 31]).SerializeToString(),
    "a weight of fewer than no elements": lambda: resized([-8, 3]).SerializeToString(),
    "a weight of a thousand dimensions": lambda: resized([1] * 1000).SerializeToString(),
    "a weight with too few bytes": lambda: resized([8, 3], data=b"1234").SerializeToString(),
    "a weight of no known type": lambda: resized([8, 3], kind=99).SerializeToString(),
    "a weight of texts": lambda: resized([8, 3], kind=8).SerializeToString(),
    "a weight of doubles": lambda: resized([4, 3], kind=11).SerializeToString(),
    "a weight with a NaN": lambda: resized([8, 3], data=b"\xff" * 96).SerializeToString(),
    "weights of the password file": lambda: located("/etc/passwd").SerializeToString(),
    "weights above the folder": lambda: located("../../../etc/passwd").SerializeToString(),
    "weights behind a link": lambda: located("link").SerializeToString(),
    "weights behind a linked folder": lambda: located("folder/passwd").SerializeToString(),
    "weights in a device": lambda: located("pipe").SerializeToString(),
    "weights beyond their file": lambda: located("short").SerializeToString(),
    "weights at no number": lambda: located("short", offset="x").SerializeToString(),
    "weights before their file": lambda: located("short", offset="-96").SerializeToString(),
    "weights in a name with a zero byte": lambda: located("a\0b").SerializeToString(),
    "a huge input": lambda: model([node("Relu", "x", "y")], ("N", 1 << 40)).SerializeToString(),
    "a huge constant": lambda: model(
        [node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], s=np.array([1 << 20, 1 << 20])
    ).SerializeToString(),
    "a range without end": lambda: model(
        [node("Range", "a b c", "r"), node("Cast", "r", "f", to=1), node("Mul", "x f", "y")],
        a=0, b=1 << 60, c=1,
    ).SerializeToString(),
    "a power of constants": lambda: model(
        [node("Tile", "w r", "w0"), *[node("Tile", f"w{i} r", f"w{i + 1}") for i in range(60)],
         node("MatMul", "x w60", "y")],
        w=random(8, 3), r=np.array([1, 2]),
    ).SerializeToString(),
    "a split into millions": lambda: model(
        [node("SplitToSequence", "x one", "s", axis=1), node("SequenceAt", "s zero", "y")],
        ("N", 4_000_000), one=1, zero=0,
    ).SerializeToString(),
    "a version from the future": lambda: model([node("Relu", "x", "y")], opset=999).SerializeToString(),
    "a function of its own": lambda: model([node("Relu", "x", "y")]).SerializeToString()
    + part(25, part(1, b"f") + part(7, part(4, b"f"))),
    "attributes of other types": lambda: model(
        [node("Conv", "x w", "c", strides="ab", pads=1.5), node("Flatten", "c", "y", axis="z")],
        ("N", 3, 6, 6), w=random(4, 3, 3, 3),
    ).SerializeToString(),
    "operands that are not there": lambda: model(
        [node("Conv", "x", "a"), node("Gemm", "a", "b"), node("Reshape", "b", "y")], ("N", 3, 6, 6)
    ).SerializeToString(),
    "axes beyond the dimensions": lambda: model(
        [node("Concat", "x x", "a", axis=7), node("Softmax", "a", "b", axis=-9),
         node("Transpose", "b", "y", perm=[5, 5])],
    ).SerializeToString(),
    "kernels and strides of zero": lambda: model(
        [node("MaxPool", "x", "a", kernel_shape=[0, 0], strides=[0, 0]), node("Flatten", "a", "y")],
        ("N", 3, 6, 6),
    ).SerializeToString(),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX)
def test_a_hostile_onnx_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    (tmp_path / "short").write_bytes(b"\0" * 50)
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "model.onnx"
    path.write_bytes(ONNX[name]())
    refused(run(path))


def refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2, (done.returncode, done.stdout[-300:], done.stderr[-600:])
    assert done.stderr.startswith("error: "), done.stderr[-600:]
    assert done.stderr.count("\n") == 1, done.stderr[-600:]
    assert "Traceback" not in done.stderr


def rezipped(change: Callable[[dict[str, bytes]], None]) -> bytes:
    """Return an archive of torch.export whose files were changed."""
    with zipfile.ZipFile(io.BytesIO(archive())) as given:
        files = {name: given.read(name) for name in given.namelist()}
    change(files)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return out.getvalue()


def changed(edit: Callable[[dict[str, Any]], None], file: str = "m/models/model.json") -> bytes:
    def change(files: dict[str, bytes]) -> None:
        found = json.loads(files[file])
        edit(found)
        files[file] = json.dumps(found).encode()

    return rezipped(change)


WEIGHTS = "m/data/weights/model_weights_config.json"


def weight(**changes: Any) -> bytes:
    def edit(config: dict[str, Any]) -> None:
        entry = config["config"]["fc.weight"]
        entry.update({key: value for key, value in changes.items() if key in entry})
        entry["tensor_meta"].update({key: value for key, value in changes.items() if key not in entry})

    return changed(edit, WEIGHTS)


def compressed() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("m/models/model.json", b" " * (64 << 20) + b"{}")
    return out.getvalue()


def overlapping() -> bytes:
    """Return a zip in which a thousand entries are the same bytes."""
    data = b"\0" * (1 << 20)
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 10, 0, 0, 0, 0, 0, len(data), len(data), 1, 0) + b"m" + data
    directory = b""
    for i in range(1000):
        name = f"m/{i}".encode()
        directory += (
            struct.pack(
                "<4s6H3I5H2I",
                b"PK\1\2",
                10,
                10,
                0,
                0,
                0,
                0,
                0,
                len(data),
                len(data),
                len(name),
                0,
                0,
                0,
                0,
                0,
                0,
            )
            + name
        )
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1000, 1000, len(directory), len(local), 0)
    return local + directory + end


def large_directory() -> bytes:
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 10, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry * 2_000_000
    return directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(directory), 0, 0)


def first_node(edit: Callable[[dict[str, Any]], None]) -> bytes:
    return changed(lambda found: edit(found["graph_module"]["graph"]["nodes"][0]))


def sized(value: list[int]) -> list[dict[str, int]]:
    return [{"as_int": each} for each in value]


PT2: dict[str, Callable[[], bytes]] = {
    "half a file": lambda: archive()[:1500],
    "the begin of a zip": lambda: b"PK\3\4" + b"\0" * 100,
    "a bomb": compressed,
    "files that overlap": overlapping,
    "millions of files": large_directory,
    "another program": lambda: rezipped(lambda files: files.pop("m/models/model.json") and None),
    "two programs": lambda: rezipped(lambda files: files.update({"m/models/other.json": b"{}"})),
    "no JSON": lambda: rezipped(lambda files: files.update({"m/models/model.json": b"{" * 100})),
    "JSON that is deep": lambda: rezipped(
        lambda files: files.update({"m/models/model.json": b"[" * 1_000_000})
    ),
    "JSON that is long": lambda: rezipped(
        lambda files: files.update({"m/models/model.json": b" " * (40 << 20)})
    ),
    "JSON that is a list": lambda: rezipped(lambda files: files.update({"m/models/model.json": b"[]"})),
    "JSON without anything": lambda: rezipped(
        lambda files: files.update({"m/models/model.json": b'{"schema_version": {"major": 8, "minor": 20}}'})
    ),
    "another schema": lambda: changed(lambda found: found.update(schema_version={"major": 9, "minor": 0})),
    "no schema": lambda: changed(lambda found: found.pop("schema_version") and None),
    "weights in a list": lambda: rezipped(lambda files: files.update({WEIGHTS: b'{"config": []}'})),
    "weights that are texts": lambda: rezipped(
        lambda files: files.update({WEIGHTS: b'{"config": {"a": "b"}}'})
    ),
    "a pickled weight": lambda: weight(use_pickle=True),
    "a weight that is not there": lambda: weight(path_name="weight_99"),
    "a weight above the archive": lambda: weight(path_name="../../../../etc/passwd"),
    "a weight of 2^62 elements": lambda: weight(sizes=sized([1 << 31, 1 << 31])),
    "a weight that repeats": lambda: weight(sizes=sized([1 << 30, 8]), strides=sized([0, 1])),
    "a weight before its file": lambda: weight(storage_offset={"as_int": -4}),
    "a weight with steps back": lambda: weight(strides=sized([-8, 1])),
    "a weight of half floats": lambda: weight(dtype=6),
    "a weight of no known type": lambda: weight(dtype=99),
    "a weight without sizes": lambda: weight(sizes=None),
    "big-endian numbers": lambda: rezipped(lambda files: files.update({"m/byteorder": b"big"})),
    "a node that reads itself": lambda: first_node(
        lambda found: found["inputs"][0].update(arg={"as_tensor": {"name": "relu"}})
    ),
    "a node without inputs": lambda: first_node(lambda found: found.update(inputs=[])),
    "a node without arguments": lambda: first_node(lambda found: found["inputs"][0].update(arg={})),
    "a node with two results of one name": lambda: changed(
        lambda found: found["graph_module"]["graph"]["nodes"].append(
            found["graph_module"]["graph"]["nodes"][0]
        )
    ),
    "a node that is a text": lambda: changed(
        lambda found: found["graph_module"]["graph"]["nodes"].append("aten.relu")
    ),
    "an op of nobody": lambda: first_node(lambda found: found.update(target="torch.ops.acme.steal.default")),
    "a reshape of nothing": lambda: first_node(
        lambda found: found.update(
            target="torch.ops.aten.view.default",
            inputs=[found["inputs"][0], {"name": "size", "arg": {"as_ints": [0, -1, -1]}, "kind": 1}],
        )
    ),
    "a range without end": lambda: first_node(
        lambda found: found.update(
            target="torch.ops.aten.arange.default",
            inputs=[{"name": "end", "arg": {"as_int": 1 << 60}, "kind": 1}],
        )
    ),
    "ones without end": lambda: first_node(
        lambda found: found.update(
            target="torch.ops.aten.ones.default",
            inputs=[{"name": "size", "arg": {"as_ints": [1 << 20, 1 << 20]}, "kind": 1}],
        )
    ),
    "no output": lambda: changed(lambda found: found["graph_module"]["signature"].update(output_specs=[])),
    "no input": lambda: changed(lambda found: found["graph_module"]["signature"].update(input_specs=[])),
}


@pytest.mark.parametrize("name", PT2)
def test_a_hostile_pt2_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(PT2[name]())
    refused(run(path))


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {os.environ.get('TRAP', '/nowhere')}",))


def test_the_pickles_of_an_archive_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sprung = tmp_path / "sprung"
    monkeypatch.setenv("TRAP", str(sprung))
    trap = pickle.dumps(Trap())
    path = tmp_path / "model.pt2"
    path.write_bytes(rezipped(lambda files: files.update({"m/data/sample_inputs/model.pt": trap})))
    assert run(path).returncode == 0
    assert not sprung.exists()
    path.write_bytes(weight(use_pickle=True))
    refused(run(path))
    assert not sprung.exists()


@pytest.mark.parametrize("kind", ["a folder", "a device", "nothing"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = {"a folder": tmp_path, "a device": Path("/dev/null"), "nothing": tmp_path / "none"}[kind]
    refused(run(path))


def test_a_file_above_the_limit_of_protobuf_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.truncate((2 << 30) + 1)  # a hole: it takes no room
    done = run(path)
    refused(done)
    assert "the limit is" in done.stderr


def test_bytes_that_were_changed_anywhere_give_no_trace(tmp_path: Path) -> None:
    """Change bytes of a good file of each kind; the importer reads it or refuses it."""
    from assay_import.__main__ import main

    good = model(
        [node("Conv", "x w", "c", pads=[1] * 4), node("Flatten", "c", "f"), node("Gemm", "f v", "y")],
        ("N", 1, 4, 4), w=random(2, 1, 3, 3), v=random(32, 3),
    )  # fmt: skip
    path = saved(tmp_path, good)
    files = {"model.onnx": path.read_bytes(), "model.pt2": archive()}
    for name, data in files.items():
        drawn = np.random.default_rng(5)
        for _ in range(150):
            edited = bytearray(data)
            for place in drawn.integers(0, len(data), drawn.integers(1, 4)):
                edited[place] = drawn.integers(0, 256)
            (tmp_path / name).write_bytes(bytes(edited))
            assert main([str(tmp_path / name), "--dry-run"]) in (0, 2), bytes(edited)


def test_the_archive_of_these_tests_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(archive())
    done = run(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert document()["schema_version"]["major"] == 8
    assert tensor_meta((3, 8))["dtype"] == 7
    assert sys.version_info >= (3, 11)
