"""Counts the parts of an ONNX file without making them: a small file can have more than memory holds.

The fields are those of onnx.proto. A part that it does not name counts as if it were full of smallest parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

from . import limits
from .errors import Refused

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
TEXT, NUMBERS = "text", "numbers"

# What a field with a length is: a message of this table, text or bytes, or whole numbers one after the other.
# fmt: off
FIELDS: dict[str, dict[int, str]] = {
    "model": {2: TEXT, 3: TEXT, 4: TEXT, 6: TEXT, 7: "graph", 8: "pair", 14: "pair", 20: "training",
              25: "function"},
    "graph": {1: "node", 2: TEXT, 5: "tensor", 10: TEXT, 11: "value", 12: "value", 13: "value",
              14: "annotation", 15: "sparse", 16: "pair"},
    "node": {1: TEXT, 2: TEXT, 3: TEXT, 4: TEXT, 5: "attribute", 6: TEXT, 7: TEXT, 8: TEXT, 9: "pair"},
    "attribute": {1: TEXT, 4: TEXT, 5: "tensor", 6: "graph", 7: TEXT, 8: NUMBERS, 9: TEXT, 10: "tensor",
                  11: "graph", 13: TEXT, 14: "type", 15: "type", 21: TEXT, 22: "sparse", 23: "sparse"},
    "tensor": {1: NUMBERS, 3: "pair", 4: TEXT, 5: NUMBERS, 6: TEXT, 7: NUMBERS, 8: TEXT, 9: TEXT, 10: TEXT,
               11: NUMBERS, 12: TEXT, 13: "pair", 16: "pair"},
    "sparse": {1: "tensor", 2: "tensor", 3: NUMBERS},
    "value": {1: TEXT, 2: "type", 3: TEXT, 4: "pair"},
    "type": {1: "of_tensor", 4: "of_type", 5: "of_type", 6: TEXT, 8: "of_tensor", 9: "of_type"},
    "of_tensor": {2: "shape"},
    "of_type": {1: "type", 2: "type"},
    "shape": {1: "extent"},
    "extent": {2: TEXT, 3: TEXT},
    "annotation": {1: TEXT, 2: "pair"},
    "pair": {1: TEXT, 2: TEXT},
    "training": {1: "graph", 2: "graph", 3: "pair", 4: "pair"},
    "function": {1: TEXT, 4: TEXT, 5: TEXT, 6: TEXT, 7: "node", 8: TEXT, 9: "pair", 10: TEXT, 11: "attribute",
                 12: "value", 13: TEXT, 14: "pair"},
}
# fmt: on


@dataclass(frozen=True)
class Field:
    number: int
    wire: int
    begin: int
    end: int


def varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return a number and the place after it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise Refused("the file is not an ONNX file or is truncated: a number in it does not end")


def fields(data: memoryview, at: int, end: int) -> Iterator[Field]:
    while at < end:
        key, at = varint(data, at, end)
        wire = key & 7
        if wire == VARINT:
            _, after = varint(data, at, end)
        elif wire == LENGTH:
            length, at = varint(data, at, end)
            after = at + length
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            after = at + (8 if wire == EIGHT_BYTES else 4)
        else:
            raise Refused("the file is not an ONNX file: it is not in the form of protobuf")
        if after > end:
            raise Refused("the file is not an ONNX file or is truncated: a part of it ends after the file")
        yield Field(key >> 3, wire, at, after)
        at = after


def check(data: mmap | bytes) -> None:
    """Refuse a file with too many parts, or with graphs in graphs too deep."""
    with memoryview(data) as view:
        count(view)


def count(view: memoryview) -> None:
    messages = numbers = 0
    stack = [("model", 0, len(view), 0)]
    while stack:
        kind, begin, end, depth = stack.pop()
        if depth > limits.DEPTH:
            raise Refused(f"the file has parts within parts, more than {limits.DEPTH} graphs or types deep")
        known = FIELDS[kind]
        for each in fields(view, begin, end):
            messages += 1
            if each.wire == LENGTH:
                inner = known.get(each.number)
                if inner == NUMBERS:
                    numbers += each.end - each.begin
                elif inner is None:
                    messages += (each.end - each.begin) // 2
                elif inner is not TEXT:
                    nests = inner in ("graph", "of_type")
                    stack.append((inner, each.begin, each.end, depth + nests))
            if messages > limits.MESSAGES:
                raise Refused(f"the file has more than {limits.MESSAGES} parts (nodes, attributes, names)")
            if numbers > limits.WHOLE_NUMBER_BYTES:
                raise Refused(
                    f"the file has more than {limits.WHOLE_NUMBER_BYTES} bytes of packed whole numbers"
                )
