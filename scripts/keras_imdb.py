"""Convert Keras's imdb.npz to inputs.npy and labels.npy, which `assay` reads as the data set `imdb`.

imdb.npz is a zip archive of x_train.npy, y_train.npy, x_test.npy and y_test.npy. x is a pickled array of
lists of word ranks (1 is the most frequent word), one list per text; y is 0 (negative) or 1 (positive).

A pickle is a program. Its opcodes are checked first, and only those that build an array of lists of numbers
are accepted. Names are resolved to classes of this file, so the archive cannot choose the code that runs.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
import sys
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

# The same values as in harness/conductor/data/text_tokens.hpp.
PADDING, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
VOCABULARY = 5000
LENGTH = 500

MAX_BYTES = 128 << 20  # of the four members together; Keras's archive has about 35 MB
MAX_ARCHIVE = 2 * MAX_BYTES
MAX_RANK = 2**31 - 1
MAX_TEXT = 4096  # bytes of a name in a pickle
MAX_STRUCTURE = 64  # opcodes of a pickle that are neither numbers, lists nor the memo: numpy needs about 25


class ConversionError(Exception):
    """The archive cannot be converted: what was found, where, and what is accepted."""


def require_archive(path: Path) -> None:
    """Before reading: refuse a path that is not a file, and a file that is too large to be the archive."""
    if not path.is_file():
        raise ConversionError(f"{path}: is not a file")
    if path.stat().st_size > MAX_ARCHIVE:
        raise ConversionError(f"{path}: has {path.stat().st_size} bytes, more than {MAX_ARCHIVE}")


def read_members(path: Path, names: list[str], limit: int = MAX_BYTES) -> dict[str, bytes]:
    """Return the members' contents. Their checksums are correct and they have at most `limit` bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return dict(_contents(archive, path, names, limit))
    # zipfile raises NotImplementedError for an unknown method, and RuntimeError for encryption.
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, RuntimeError) as error:
        raise ConversionError(f"{path}: is not a whole zip archive: {error}") from error


def _contents(
    archive: zipfile.ZipFile, path: Path, names: list[str], limit: int
) -> Iterator[tuple[str, bytes]]:
    total = 0
    for name in names:
        found = [info for info in archive.infolist() if info.filename == name]
        if len(found) != 1:
            raise ConversionError(f"{path}: has {len(found)} members '{name}', wanted 1")
        info = found[0]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ConversionError(
                f"{path}: '{name}' is packed by method {info.compress_type}; "
                "0 (stored) and 8 (deflated) are read"
            )
        total += info.file_size
        if total > limit:
            raise ConversionError(f"{path}: its arrays have more than {limit} bytes")
        with archive.open(info) as member:
            content = member.read(info.file_size + 1)  # without a limit zlib inflates 2 GiB before the cut
        if len(content) != info.file_size:
            raise ConversionError(f"{path}: '{name}' has {len(content)} of {info.file_size} bytes")
        yield name, content


HEADER = re.compile(
    rb"\{'descr': '([^']{1,8})', 'fortran_order': (?:False|True), 'shape': \((\d{1,12}),\), \} *\n"
)


def parse_npy(content: bytes, where: str) -> tuple[str, int, bytes]:
    """Return the type, the length and the data of a .npy file of one dimension."""
    version = content[6:7]
    size, start = (2, 10) if version == b"\1" else (4, 12)
    end = start + int.from_bytes(content[8 : 8 + size], "little")
    header = HEADER.fullmatch(content[start:end])
    if content[:6] != b"\x93NUMPY" or version not in (b"\1", b"\2", b"\3") or header is None:
        raise ConversionError(f"{where}: is not a .npy file of one dimension, as numpy writes it")
    return header[1].decode("latin-1"), int(header[2]), content[end:]


LABEL_TYPES = {"|b1": "B", "|i1": "b", "|u1": "B", "<i4": "i", "<i8": "q"}


def read_labels(content: bytes, where: str) -> list[int]:
    kind, count, data = parse_npy(content, where)
    if kind not in LABEL_TYPES:
        raise ConversionError(f"{where}: holds '{kind}', wanted whole numbers ({', '.join(LABEL_TYPES)})")
    labels = array(LABEL_TYPES[kind])
    if len(data) != count * labels.itemsize:
        raise ConversionError(
            f"{where}: {count} labels of {labels.itemsize} bytes: {len(data)} bytes are there"
        )
    labels.frombytes(data)
    if sys.byteorder == "big":
        labels.byteswap()
    for i, label in enumerate(labels):
        if label not in (0, 1):
            raise ConversionError(f"{where}: label {i} is {label}: 0 or 1")
    return labels.tolist()


# Numbers below 2^31, lists, marks, frames, and the memo up to 2^24 entries: the unpickler allocates its size.
# A run is limited because `re` keeps a record of each repetition.
CONTENT = re.compile(rb"(?:K.|M..|J....|[\](ae\x94]|[qh].|r...\x00|j....|\x95........){1,4096}", re.DOTALL)
# Protocol, tuples, None, booleans, global names, calls and states.
STRUCTURE = re.compile(
    rb"\x80[\x02-\x05]|[)\x85-\x87tN\x88\x89Rb\x93]|c[^\n]{0,256}\n[^\n]{0,256}\n", re.DOTALL
)
# Texts, with their lengths.
TEXT = re.compile(rb"[CU\x8c](.)|[BTX](....)", re.DOTALL)


def check_opcodes(pickled: bytes, where: str) -> None:
    """Refuse a pickle with an opcode, or a number of opcodes, that no array of lists of numbers needs."""
    at = structure = 0
    while pickled[at : at + 1] != b".":
        if content := CONTENT.match(pickled, at):
            at = content.end()
            continue
        if at >= len(pickled):
            raise ConversionError(f"{where}: the pickle is truncated")
        structure += 1
        if structure > MAX_STRUCTURE:
            raise ConversionError(
                f"{where}: byte {at} of the pickle: more tuples, names and calls than an array has"
            )
        if found := STRUCTURE.match(pickled, at):
            at = found.end()
        elif text := TEXT.match(pickled, at):
            size = int.from_bytes(text[1] or text[2], "little")
            if size > MAX_TEXT:
                raise ConversionError(f"{where}: byte {at} of the pickle: a text of {size} bytes")
            at = text.end() + size
        else:
            raise ConversionError(
                f"{where}: byte {at} of the pickle: the opcode 0x{pickled[at]:02x} is truncated or not one "
                "that an array of lists of numbers needs; nothing was executed"
            )


class ObjectArray:
    """A numpy array of objects in the pickle."""

    def __init__(self) -> None:
        self.items: list[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        """Accept (version, shape, dtype, whether in Fortran order, list of the elements)."""
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[4], list):
            raise pickle.UnpicklingError("the state of an array is not as numpy writes it")
        self.items = state[4]


class ElementType:
    """A numpy.dtype in the pickle; its content is not needed."""

    def __init__(self, *arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


def make_array(*arguments: Any) -> ObjectArray:
    return ObjectArray()


def encode(*arguments: Any) -> bytes:
    """Protocol 2 writes the bytes b'b' as a call of _codecs.encode; only make_array gets them."""
    return b""


def call_ndarray(*arguments: Any) -> NoReturn:
    raise pickle.UnpicklingError("calls 'numpy.ndarray'; it was not executed")


NAMES = {
    "numpy.core.multiarray._reconstruct": make_array,
    "numpy._core.multiarray._reconstruct": make_array,
    "numpy.ndarray": call_ndarray,
    "numpy.dtype": ElementType,
    "_codecs.encode": encode,
}


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full not in NAMES:
            raise pickle.UnpicklingError(
                f"names {full[:80]!a}, which is not part of an array of lists; it was not executed"
            )
        return NAMES[full]


def unpickle_lists(pickled: bytes, where: str) -> list[list[int]]:
    """Return the lists of a pickled numpy array of lists of numbers from 0 to 2^31 - 1."""
    check_opcodes(pickled, where)
    try:
        found = Unpickler(io.BytesIO(pickled), encoding="latin-1").load()
    # The exceptions for a damaged file are not documented. Only pickle and the classes above run here.
    except Exception as error:
        raise ConversionError(f"{where}: the pickle cannot be read: {error}") from error
    if not isinstance(found, ObjectArray) or found.items is None:
        raise ConversionError(f"{where}: is not an array of lists of numbers")
    numbers = 0
    for i, text in enumerate(found.items):
        if type(text) is not list:
            raise ConversionError(f"{where}: element {i} is not a list of numbers")
        numbers += len(text)
        if numbers > len(pickled):  # each number has an opcode, unless the memo repeats a list
            raise ConversionError(f"{where}: repeats its lists beyond its own size")
        if not set(map(type, text)) <= {int, bool}:
            raise ConversionError(f"{where}: element {i} is not a list of numbers")
        if text and (min(text) < 0 or max(text) > MAX_RANK):
            bad = next(number for number in text if not 0 <= number <= MAX_RANK)
            raise ConversionError(f"{where}: element {i} holds the number {bad}, which is not a rank")
    return found.items


def read_texts(content: bytes, where: str) -> list[list[int]]:
    kind, count, pickled = parse_npy(content, where)
    if kind != "|O":
        raise ConversionError(f"{where}: holds '{kind}', wanted objects '|O': a list of words for each text")
    texts = unpickle_lists(pickled, where)
    if len(texts) != count:
        raise ConversionError(f"{where}: holds {len(texts)} texts, its header says {count}")
    return texts


def tokens_of(ranks: list[int], length: int = LENGTH) -> list[int]:
    """Return the same row as keras.datasets.imdb.load_data(num_words=5000) and pad_sequences(maxlen=500).

    The word of rank r is r + 3. A text that is too long loses its beginning, first the start token. A short
    text is padded at the beginning.
    """
    kept = ranks[-length:]
    row = [PADDING] * (length - len(kept))
    if row:
        row[-1] = START
    row += [rank + FIRST_WORD if rank < VOCABULARY - FIRST_WORD else UNKNOWN for rank in kept]
    return row


def read_half(
    members: dict[str, bytes], half: str, path: Path, samples: int
) -> tuple[array[int], array[int]]:
    """Return the tokens, row after row, and the labels."""
    texts = read_texts(members[f"x_{half}.npy"], f"{path}: x_{half}.npy")
    labels = read_labels(members[f"y_{half}.npy"], f"{path}: y_{half}.npy")
    if not len(texts) == len(labels) == samples:
        raise ConversionError(
            f"{path}: has {len(texts)} texts and {len(labels)} labels to {half}, wanted {samples}"
        )
    tokens = array("i")
    for text in texts:
        tokens.extend(tokens_of(text))
    return tokens, array("i", labels)


def write_npy(path: Path, values: array[int], shape: tuple[int, ...]) -> None:
    """Write i32 in C order, format 1.0, the data at a multiple of 64 bytes."""
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    if sys.byteorder == "big":
        values.byteswap()
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode())
        values.tofile(file)


def convert(archive: Path, folder: Path, train: int, test: int) -> None:
    """Write folder/inputs.npy, i32 (train + test, 500), and folder/labels.npy; both or neither.

    The samples are in the order training, validation, test. The archive's test half is ordered by class, so
    its samples 0, 2, 4, ... are for validation and 1, 3, 5, ... for the test. Raises ConversionError and
    OSError.
    """
    halves = {"train": train, "test": test}
    names = [f"{kind}_{half}.npy" for half in halves for kind in "xy"]
    members = read_members(archive, names)
    inputs, labels = read_half(members, "train", archive, train)
    held_inputs, held_labels = read_half(members, "test", archive, test)
    for first in (0, 1):
        for i in range(first, test, 2):
            inputs.extend(held_inputs[i * LENGTH : (i + 1) * LENGTH])
        labels.extend(held_labels[first::2])
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for name, values, shape in (
        ("inputs.npy", inputs, (train + test, LENGTH)),
        ("labels.npy", labels, (train + test,)),
    ):
        part = folder / f"{name}.part"
        write_npy(part, values, shape)
        parts.append((part, folder / name))
    for part, target in parts:
        part.replace(target)
