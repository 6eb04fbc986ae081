"""What is looked at before a file is read: that it is a file, its size, and what else it may be."""

from __future__ import annotations

import stat
from pathlib import Path

from .errors import Refused

BEGIN = 512  # bytes
KINDS = {
    b"\x1f\x8b": "is compressed by gzip; unpack it",
    b"\x89HDF": "is an HDF5 file, such as Keras's .h5: weights of another form",
    b"GGUF": "is a GGUF file, as llama.cpp reads it: weights without a graph",
    b"%PDF-": "is a PDF",
    b"version https://git-lfs.": "is a pointer of Git LFS; get the file itself with git lfs pull",
}
PAGES = (b"<!doctype html", b"<html", b"<head")


def size_of(path: Path, limit: int) -> int:
    """Return the bytes of a regular file."""
    try:
        found = path.stat()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{path} is not a file")
    if found.st_size > limit:
        raise Refused(f"{path} has {found.st_size} bytes; the limit is {limit}")
    return found.st_size


def begin_of(path: Path) -> bytes:
    """Return the first bytes of a file. Raises OSError."""
    with path.open("rb") as file:
        return file.read(BEGIN)


def other_kind(begin: bytes) -> str:
    """Return what a file that begins so is, if that is known and no model: "is a web page"."""
    for start, kind in KINDS.items():
        if begin.startswith(start):
            return kind
    text = begin.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith(PAGES):
        return "is a web page, as a failed download leaves it; download the file again"
    if text[:1] == b"{" and text[1:].lstrip()[:1] in (b'"', b"}"):
        return "is JSON"
    if begin[8:9] == b"{" and not any(begin[5:8]):
        return "is a file of safetensors: weights without a graph"
    return ""


def reject_other(path: Path, begin: bytes) -> None:
    if kind := other_kind(begin):
        raise Refused(f"{path} {kind}")
