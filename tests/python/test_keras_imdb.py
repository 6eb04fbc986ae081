"""scripts/keras_imdb.py: Keras's imdb.npz becomes tokens; a hostile or damaged archive is refused."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_campaign.data import overlapping
from keras_imdb import (
    ConversionError,
    convert,
    parse_npy,
    read_labels,
    read_members,
    tokens_of,
    unpickle_lists,
)

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/fetch-data"

# pickle.dumps of np.array([[1, 14, 300, 70000], []], dtype=object): by protocol 2 under the names of numpy 1,
# as the published file has it, and by protocols 3, 4 and 5 of numpy 2.
PICKLED = [
    bytes.fromhex(digits)
    for digits in (
        "8002636e756d70792e636f72652e6d756c746961727261790a5f7265636f6e7374727563740a7100636e756d70790a6e"
        "6461727261790a71014b00857102635f636f646563730a656e636f64650a7103580100000062710458060000006c6174"
        "696e317105867106527107877108527109284b014b0285710a636e756d70790a64747970650a710b58020000004f3871"
        "0c898887710d52710e284b0358010000007c710f4e4e4e4affffffff4affffffff4b3f74711062895d7111285d711228"
        "4b014b0e4d2c014a70110100655d711365747114622e",
        "8003636e756d70792e5f636f72652e6d756c746961727261790a5f7265636f6e7374727563740a7100636e756d70790a"
        "6e6461727261790a71014b008571024301627103877104527105284b014b02857106636e756d70790a64747970650a71"
        "0758020000004f387108898887710952710a284b0358010000007c710b4e4e4e4affffffff4affffffff4b3f74710c62"
        "895d710d285d710e284b014b0e4d2c014a70110100655d710f65747110622e",
        "8004959c000000000000008c166e756d70792e5f636f72652e6d756c74696172726179948c0c5f7265636f6e73747275"
        "63749493948c056e756d7079948c076e6461727261799493944b0085944301629487945294284b014b02859468038c05"
        "64747970659493948c024f3894898887945294284b038c017c944e4e4e4affffffff4affffffff4b3f749462895d9428"
        "5d94284b014b0e4d2c014a70110100655d94657494622e",
        "8005959c000000000000008c166e756d70792e5f636f72652e6d756c74696172726179948c0c5f7265636f6e73747275"
        "63749493948c056e756d7079948c076e6461727261799493944b0085944301629487945294284b014b02859468038c05"
        "64747970659493948c024f3894898887945294284b038c017c944e4e4e4affffffff4affffffff4b3f749462895d9428"
        "5d94284b014b0e4d2c014a70110100655d94657494622e",
    )
]

# np.savez_compressed(x_train=[[1, 14, 300, 70000], []], y_train=[1, 0], x_test=[[2], [3]], y_test=[0, 1])
PUBLISHED = bytes.fromhex(
    "504b0304140000000800000021001420a2ccd2000000270100000b001400785f747261696e2e6e707901001000270100"
    "0000000000d2000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05ee3afaea3a09e965f5452949817"
    "9f5f94920a12764bcc294e058a17672416a402f91a463a9a3a0ab50a9400ae0696a9731820a0472caf34b7a0522f3e39"
    "bf28552fb734a72433b1a828b1724a0f4f7c516a727e5e7149516972c994c9537a58c12aa7f4b0e7a540944c9ee2cdd0"
    "3ac59931694afb94a0291ade8cde4cad5332987b58534a2a0b52415a98fc2da674764064997b186ba6f8f9f979fd0702"
    "30e16d5f3225a933768a462c58339faf0ea357812023436aec9454a08c1e00504b03041400000008000000210071fb39"
    "ab48000000900000000b001400795f747261696e2e6e707901001000900000000000000048000000000000009bec17ea"
    "1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a176724"
    "16a402f91a463a9a3a0ab50a14002e4606540000504b030414000000080000002100d625415ec80000001f0100000a00"
    "1400785f746573742e6e7079010010001f01000000000000c800000000000000a58bbb0ac2401045f35004b1b64eb711"
    "420a2bb1b1102c5c8c2258584858931585bc986c84a0828da8b05dc6efd5d57c82a7b830e7dea9bcd56cb1d6b5a37622"
    "21cf0320438b9ce7c4b1c82e05012cf15308f9574f589473e5f33dcbb8baedbed373ac8bf50fed6be3855a8dec26459c"
    "95ae1fa4c0ddb888c48101b01265c7071ea4492ea0080456289bbf25ca5612d6930aa976c3b1bec53b2ed1a63a356eb8"
    "3765331465c6bf2fc67c80cf47dd9a523fa3e779d3b7e217742470fbdca0bd416a301526e3cab81f504b030414000000"
    "0800000021007e6afbc949000000900000000a001400795f746573742e6e707901001000900000000000000049000000"
    "000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774b"
    "cc294e058a17672416a402f91a463a9a3a0ab50a14002e06286084d200504b01021403140000000800000021001420a2"
    "ccd2000000270100000b0000000000000000000000800100000000785f747261696e2e6e7079504b0102140314000000"
    "08000000210071fb39ab48000000900000000b000000000000000000000080010f010000795f747261696e2e6e707950"
    "4b0102140314000000080000002100d625415ec80000001f0100000a0000000000000000000000800194010000785f74"
    "6573742e6e7079504b01021403140000000800000021007e6afbc949000000900000000a000000000000000000000080"
    "0198020000795f746573742e6e7079504b05060000000004000400e20000001d0300000000"
)


def objects(lists: list[list[int]]) -> np.ndarray[Any, Any]:
    """Return the lists as numpy keeps them, also where all have one length."""
    made = np.empty(len(lists), dtype=object)
    for i, one in enumerate(lists):
        made[i] = one
    return made


def unpickled(pickled: bytes) -> list[list[int]]:
    return unpickle_lists(pickled, "x.npy")


def refusal(pickled: bytes) -> str:
    with pytest.raises(ConversionError) as refused:
        unpickled(pickled)
    return str(refused.value)


def converted(
    folder: Path, content: bytes, train: int = 2, test: int = 2
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    folder.mkdir(exist_ok=True)
    archive = folder / "imdb.npz"
    archive.write_bytes(content)
    convert(archive, folder, train, test)
    return np.load(folder / "inputs.npy"), np.load(folder / "labels.npy")


def without_padding(row: np.ndarray[Any, Any]) -> list[int]:
    return row[np.flatnonzero(row)[0] :].tolist()


def test_tokens_are_offset_padded_in_front_and_cut_in_front_as_keras_does() -> None:
    assert tokens_of([1, 7, 4996, 4997, 88_000], 8) == [0, 0, 1, 4, 10, 4999, 2, 2]
    assert tokens_of([], 3) == [0, 0, 1], "an empty text is padding and the start"
    assert tokens_of([5, 6], 3) == [1, 8, 9]
    assert tokens_of([5, 6, 7], 3) == [8, 9, 10], "the start is cut first"
    assert tokens_of([5, 6, 7, 8], 3) == [9, 10, 11]


def test_the_rules_of_tokens_are_those_of_the_text_reader_in_cpp() -> None:
    import keras_imdb

    header = (ROOT / "harness/conductor/data/text_tokens.hpp").read_text()
    given = {name: int(value) for name, value in re.findall(r"token_(\w+) = (\d+)", header)}
    assert given == {
        "padding": keras_imdb.PADDING,
        "start": keras_imdb.START,
        "unknown": keras_imdb.UNKNOWN,
        "first_word": keras_imdb.FIRST_WORD,
        "vocabulary": keras_imdb.VOCABULARY,
        "length": keras_imdb.LENGTH,
    }


def test_pickled_lists_are_read_as_numpy_writes_them() -> None:
    for pickled in PICKLED:
        assert unpickled(pickled) == [[1, 14, 300, 70_000], []]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_long_lists_are_read_in_every_protocol(protocol: int) -> None:
    lists = [list(range(i * 7 % 5000)) for i in range(600)]
    assert unpickled(pickle.dumps(objects(lists), protocol=protocol)) == lists


def test_a_pickle_that_is_truncated_is_refused_wherever_it_ends() -> None:
    for pickled in PICKLED:
        for size in range(len(pickled)):
            assert "pickle" in refusal(pickled[:size])


def test_a_pickle_that_is_damaged_gives_lists_of_ranks_or_is_refused() -> None:
    random = np.random.default_rng(11)
    refused = 0
    for pickled in PICKLED:
        for _ in range(1000):
            bad = bytearray(pickled)
            for at in random.integers(0, len(bad), random.integers(1, 4)):
                bad[at] = random.integers(0, 256)
            try:
                found = unpickled(bytes(bad))
                assert all(type(rank) in (int, bool) and 0 <= rank < 2**31 for text in found for rank in text)
            except ConversionError:
                refused += 1
    assert refused > 2000


class Evil:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    text = refusal(pickle.dumps(Evil(os.system, "touch executed"), protocol=protocol))
    assert "posix.system" in text
    assert "not executed" in text
    within = objects([[1], [2]])
    within[1] = Evil(eval, "open('executed', 'w')")
    assert "eval" in refusal(pickle.dumps(within, protocol=protocol))
    assert not Path("executed").exists()


def test_names_opcodes_and_protocols_that_numpy_does_not_write_are_refused() -> None:
    assert "opcode 0x6f" in refusal(b"\x80\x03(cnumpy\nndarray\nK\x01o.")
    assert "calls 'numpy.ndarray'" in refusal(b"\x80\x03cnumpy\nndarray\nK\x01\x85R.")
    assert "opcode 0x80" in refusal(b"\x80\x01.")
    assert "numpy.array" in refusal(b"\x80\x03cnumpy\narray\n)R.")
    assert "builtins.eval" in refusal(b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.")
    for opcode in b"}d\x8f\x90\x91su\x81\x92iPQ\x82\x83\x84\x8b\x8a\x96\x97\x980FGILSV12":
        assert f"opcode 0x{opcode:02x}" in refusal(b"\x80\x04" + bytes([opcode]) + b"\0" * 16 + b".")


def test_cycles_and_bad_word_lists_are_refused() -> None:
    state = PICKLED[0].index(b"]q\x11")

    def with_items(items: bytes) -> bytes:
        return PICKLED[0][:state] + items + b"tb."

    assert unpickled(with_items(b"](](K\x01ee")) == [[1]]
    assert "element 0 is not a list" in refusal(with_items(b"]q\x01h\x01a")), "a list that holds itself"
    assert "element 0 is not a list" in refusal(with_items(b"]](]ea")), "lists in a list in a list"
    assert "element 0 is not a list" in refusal(with_items(b"](K\x01e")), "an array of numbers"
    assert "element 1 is not a list" in refusal(with_items(b"](](K\x01e](Nee"))
    assert "the number -1" in refusal(with_items(b"](](J\xff\xff\xff\xffee"))
    assert "not an array of lists" in refusal(b"\x80\x02].")
    assert "not an array of lists" in refusal(b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R.")
    assert "state of an array" in refusal(b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R(K\x01tb.")


def test_depths_and_sizes_are_bounded() -> None:
    assert "more tuples" in refusal(b"\x80\x02)" + b"\x85" * 100_000 + b".")
    assert "a text of 5000 bytes" in refusal(b"\x80\x02X" + struct.pack("<I", 5000) + b"x" * 5000 + b".")
    assert "opcode 0x63" in refusal(b"\x80\x02c" + b"x" * 5000 + b"\n.")
    state = PICKLED[0].index(b"]q\x11")
    head = PICKLED[0][:state]
    # 2000 times a list of 2000 numbers: 4 million numbers from 8 kB.
    repeated = head + b"](]q\x50(" + b"K\x01" * 2000 + b"e" + b"h\x50" * 2000 + b"etb."
    assert "beyond its own size" in refusal(repeated)
    # Each list holds the one before it twice: 2^30 empty lists.
    bomb = b"]q\x50" + b"".join(b"](h%ch%ceq%c" % (n - 1, n - 1, n) for n in range(0x51, 0x6F))
    assert "element 0 is not a list" in refusal(head[:2] + bomb + head[2:] + b"h\x6etb.")


def test_a_memo_of_gigabytes_is_not_allocated() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from keras_imdb import ConversionError, unpickle_lists\n"
        "for top in (b'\\x01', b'\\x7f', b'\\xff'):\n"
        "    try: unpickle_lists(b'\\x80\\x02]r\\xff\\xff\\xff' + top + b'.', 'x.npy')\n"
        "    except ConversionError as error: assert 'opcode 0x72' in str(error), error\n"
        "    else: raise SystemExit('read')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=600, check=True)


def test_the_published_archive_becomes_tokens_in_the_order_of_the_splits(tmp_path: Path) -> None:
    inputs, labels = converted(tmp_path, PUBLISHED)
    assert (inputs.dtype, inputs.shape) == (np.dtype("<i4"), (4, 500))
    assert (labels.dtype, labels.tolist()) == (np.dtype("<i4"), [1, 0, 0, 1])
    texts = [without_padding(row) for row in inputs]
    assert texts == [[1, 4, 17, 303, 2], [1], [1, 5], [1, 6]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imdb.npz", "inputs.npy", "labels.npy"]


def test_arrays_are_those_that_keras_would_make(tmp_path: Path) -> None:
    random = np.random.default_rng(5)

    def half(count: int) -> tuple[list[list[int]], list[int]]:
        lengths = [0, 1, 498, 499, 500, 501, 900, 3, 17, 250]
        texts = [np.minimum(random.zipf(1.3, lengths[i % 10]), 88_584).tolist() for i in range(count)]
        return texts, random.integers(0, 2, count).tolist()

    def keras(texts: list[list[int]]) -> np.ndarray[Any, Any]:
        rows = np.zeros((len(texts), 500), np.int32)
        for row, text in zip(rows, texts, strict=True):
            words = np.array([1, *(rank + 3 for rank in text)])[-500:]
            row[500 - len(words) :] = np.where(words < 5000, words, 2)
        return rows

    (train, train_labels), (test, test_labels) = half(21), half(13)
    np.savez(
        tmp_path / "made.npz",
        x_train=objects(train),
        y_train=train_labels,
        x_test=objects(test),
        y_test=test_labels,
    )
    inputs, labels = converted(tmp_path / "to", (tmp_path / "made.npz").read_bytes(), 21, 13)
    held = keras(test)
    assert np.array_equal(inputs, np.concatenate([keras(train), held[0::2], held[1::2]]))
    assert labels.tolist() == train_labels + test_labels[0::2] + test_labels[1::2]


def test_an_archive_that_is_truncated_or_altered_is_refused(tmp_path: Path) -> None:
    for size in range(0, len(PUBLISHED), 7):
        with pytest.raises(ConversionError, match=r"imdb\.npz"):
            converted(tmp_path, PUBLISHED[:size])
    rounds = range(0, len(PUBLISHED), 11)
    refused = 0
    for at in rounds:
        bad = bytearray(PUBLISHED)
        bad[at] ^= 0x10
        try:
            inputs, _ = converted(tmp_path, bytes(bad))
            assert without_padding(inputs[0]) == [1, 4, 17, 303, 2]
        except ConversionError:
            refused += 1
    assert refused > len(rounds) / 2, "dates and modes of members are not checked"


def test_a_refused_archive_leaves_no_arrays(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="has 2 texts and 2 labels to train, wanted 3"):
        converted(tmp_path, PUBLISHED, train=3)
    assert [path.name for path in tmp_path.iterdir()] == ["imdb.npz"]


def members(**changed: Any) -> dict[str, Any]:
    return {
        "x_train": objects([[1, 2], [3]]),
        "y_train": np.array([0, 1]),
        "x_test": objects([[4], [5]]),
        "y_test": np.array([1, 0]),
        **changed,
    }


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"y_train": np.array([0, 2])}, r"y_train\.npy: label 1 is 2: 0 or 1"),
        ({"y_train": np.array([0, -1])}, "label 1 is -1"),
        ({"y_train": np.array([0.0, 1.0])}, "holds '<f8', wanted whole numbers"),
        ({"y_train": np.array([[0], [1]])}, "one dimension"),
        ({"y_test": np.array([0])}, "has 2 texts and 1 labels to test, wanted 2"),
        ({"x_train": np.array([[1, 2], [3, 4]])}, "one dimension"),
        ({"x_train": np.array([1, 2])}, "holds '<i8', wanted objects"),
        ({"x_train": objects([[1], ["a"]])}, "element 1 is not a list of numbers"),  # type: ignore[list-item]
        ({"x_train": objects([[1], [2**31]])}, "opcode 0x8a"),
        ({"x_train": objects([[1], [-1]])}, "element 1 holds the number -1"),
    ],
)
def test_members_of_other_types_and_values_are_refused(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    np.savez(tmp_path / "made.npz", **members(**changed))
    with pytest.raises(ConversionError, match=reason):
        converted(tmp_path / "to", (tmp_path / "made.npz").read_bytes())


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.int32, np.int64])
def test_labels_may_be_of_any_whole_type(tmp_path: Path, kind: type[np.generic]) -> None:
    np.savez(tmp_path / "made.npz", **members(y_train=np.array([0, 1], kind)))
    _, labels = converted(tmp_path / "to", (tmp_path / "made.npz").read_bytes())
    assert labels.tolist() == [0, 1, 1, 0]


def npy(data: bytes, shape: str = "(2,)", kind: str = "|u1", version: bytes = b"\1\0") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return (
        b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(header)) + header + data
    )


def test_headers_of_arrays_are_checked() -> None:
    for version in (b"\1\0", b"\2\0", b"\3\0"):
        assert parse_npy(npy(b"\0\1", version=version), "y") == ("|u1", 2, b"\0\1")
    for damaged in (
        b"",
        npy(b"\0\1")[:30],
        b"x" + npy(b"\0\1")[1:],
        npy(b"\0\1", version=b"\4\0"),
        npy(b"\0\1", "(1, 2)"),
        npy(b"\0\1", "(-2,)"),
        npy(b"\0\1", "()"),
    ):
        with pytest.raises(ConversionError, match=r"not a \.npy file"):
            parse_npy(damaged, "y")
    for length in (1, 3):
        with pytest.raises(ConversionError, match=f"{length} bytes are there"):
            read_labels(npy(b"\0" * length), "y")


def zip_of(path: Path, contents: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path.read_bytes()


def test_members_are_read_as_they_were_stored(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        zip_of(tmp_path / "a.zip", {"a": b"abc" * 99, "b": b"", "c": b"more"}, method)
        assert read_members(tmp_path / "a.zip", ["a", "b"]) == {"a": b"abc" * 99, "b": b""}


def test_an_archive_that_inflates_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    zip_of(tmp_path / "a.zip", {"a": b"\0" * 600_000, "b": b"\0" * 600_000})
    assert len(read_members(tmp_path / "a.zip", ["a"], 1_000_000)["a"]) == 600_000
    with pytest.raises(ConversionError, match="more than 1000000 bytes"):
        read_members(tmp_path / "a.zip", ["a", "b"], 1_000_000)


def test_a_member_that_inflates_beyond_its_length_takes_no_memory(tmp_path: Path) -> None:
    # 192 MiB of zeros that the directory and the local header give as 1000 bytes.
    size = 192 << 20
    bomb = zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with bomb, bomb.open("a", "w") as member:
        for _ in range(size >> 20):
            member.write(b"\0" * (1 << 20))
    content = bytearray((tmp_path / "bomb.zip").read_bytes())
    for magic, length in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        at = content.index(magic) + length
        assert struct.unpack_from("<I", content, at) == (size,)
        struct.pack_into("<I", content, at, 1000)
    (tmp_path / "bomb.zip").write_bytes(content)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (150 << 20, 150 << 20))\n"
        "from pathlib import Path\n"
        "from keras_imdb import ConversionError, read_members\n"
        "try: read_members(Path(sys.argv[1]), ['a'])\n"
        "except ConversionError as error: assert 'CRC' in str(error), error\n"
        "else: raise SystemExit('read')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    command = [sys.executable, "-c", code, str(tmp_path / "bomb.zip")]
    subprocess.run(command, env=environment, timeout=600, check=True)


def test_thousands_of_members_with_the_same_bytes_are_refused(tmp_path: Path) -> None:
    overlapping(tmp_path / "imdb.npz", 60_000)
    command = [
        sys.executable,
        "-S",
        str(SCRIPT),
        "--convert",
        str(tmp_path / "imdb.npz"),
        "--to",
        str(tmp_path / "data"),
    ]
    limit = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
    limit += "resource.setrlimit(resource.RLIMIT_CPU, (10, 10)); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", limit, *command], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "is not a whole zip archive" in done.stderr
    assert not (tmp_path / "data").exists()


def test_bad_members_of_the_archive_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    good = zip_of(path, {"a": b"abc" * 99, "b": b"def"})

    def reason() -> str:
        with pytest.raises(ConversionError) as refused:
            read_members(path, ["a"])
        return str(refused.value)

    path.write_bytes(good.replace(b"b", b"a"))
    assert "has 2 members 'a'" in reason()
    path.write_bytes(good.replace(b"a", b"c"))
    assert "has 0 members 'a'" in reason()
    zip_of(path, {"a": b"abc"}, zipfile.ZIP_LZMA)
    assert "packed by method 14" in reason()
    encrypted = bytearray(good)
    for magic, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        encrypted[encrypted.index(magic) + flags] |= 1
    path.write_bytes(encrypted)
    assert "encrypted" in reason()
    path.write_bytes(b"")
    assert "not a whole zip archive" in reason()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", str(SCRIPT), *arguments]  # -S: without numpy and what else is installed
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_a_file_that_is_not_the_archive_is_refused_unread(tmp_path: Path) -> None:
    archive = tmp_path / "imdb.npz"
    archive.touch()
    os.truncate(archive, 1 << 40)
    done = run("--convert", str(archive), "--to", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "has 1099511627776 bytes, more than" in done.stderr
    archive.unlink()
    os.mkfifo(archive)
    done = run("--convert", str(archive), "--to", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "is not a file" in done.stderr
    assert not (tmp_path / "data").exists()


def table(folder: Path, **entry: Any) -> Path:
    file = {"url": "http://127.0.0.1:9/imdb.npz", "convert": {"train": 2, "test": 2}, **entry}
    path = folder / "table.json"
    path.write_text(json.dumps({"imdb": {"files": [file]}}))
    return path


def test_an_archive_of_ones_own_is_converted(tmp_path: Path) -> None:
    archive = tmp_path / "mine.npz"
    archive.write_bytes(PUBLISHED)
    digest = hashlib.sha256(PUBLISHED).hexdigest()
    more = ("--to", str(tmp_path / "data"), "--table", str(table(tmp_path, sha256="0" * 64)))
    done = run("--convert", str(archive), *more)
    assert done.returncode == 0, done.stderr
    assert digest in done.stdout, "it is not the publisher's"
    home = tmp_path / "data/imdb"
    assert without_padding(np.load(home / "inputs.npy")[0]) == [1, 4, 17, 303, 2]
    source = json.loads((home / "source.json").read_text())
    assert source == {"converted_from": "mine.npz", "bytes": len(PUBLISHED), "sha256": digest}
    assert sorted(path.name for path in home.iterdir()) == ["inputs.npy", "labels.npy", "source.json"]

    before = (home / "inputs.npy").stat().st_mtime_ns
    again = run("--convert", str(archive), *more)
    assert "inputs.npy and labels.npy are there" in again.stdout
    assert (home / "inputs.npy").stat().st_mtime_ns == before

    other = run("imdb", *more, "--attempts", "1")
    assert other.returncode == 1
    assert "come from another archive" in other.stderr
    assert (home / "inputs.npy").stat().st_mtime_ns == before


@pytest.mark.parametrize("source", ["", "[]", "{}", None])
def test_arrays_of_unknown_origin_are_not_overwritten(tmp_path: Path, source: str | None) -> None:
    archive = tmp_path / "imdb.npz"
    archive.write_bytes(PUBLISHED)
    home = tmp_path / "data/imdb"
    home.mkdir(parents=True)
    (home / "labels.npy").write_bytes(b"mine")
    if source is not None:
        (home / "source.json").write_text(source)
    given = table(tmp_path, sha256=hashlib.sha256(PUBLISHED).hexdigest())
    done = run("--convert", str(archive), "--to", str(tmp_path / "data"), "--table", str(given))
    assert done.returncode == 1
    assert "remove inputs.npy, labels.npy" in done.stderr
    assert (home / "labels.npy").read_bytes() == b"mine"


def test_a_hostile_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    evil = objects([[1], [2]])
    evil[1] = Evil(os.system, f"touch {tmp_path}/executed")
    np.savez(tmp_path / "evil.npz", **members(x_test=evil))
    given = table(tmp_path, sha256="0" * 64)
    done = run("--convert", str(tmp_path / "evil.npz"), "--to", str(tmp_path / "data"), "--table", str(given))
    assert done.returncode == 1
    assert "posix.system" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "data/imdb").exists()
    absent = run("--convert", str(tmp_path / "absent.npz"), "--to", str(tmp_path), "--table", str(given))
    assert absent.returncode == 1
    assert "absent.npz" in absent.stderr
