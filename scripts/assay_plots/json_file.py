"""Reads a report's JSON one cell at a time, so that a large one never stands in memory as objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import JSONDecodeError
from pathlib import Path
from typing import Any, NoReturn

SPACE = re.compile(r"[ \t\n\r]*")


class ReportError(Exception):
    """What is wrong with a report, for a person: file, place, and what to do."""


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON: a number that is not finite is null in a report")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def _skip(text: str, position: int) -> int:
    match = SPACE.match(text, position)
    return match.end() if match else position


def _expect(text: str, position: int, characters: str) -> str:
    if position >= len(text) or text[position] not in characters:
        raise JSONDecodeError(f"expected one of {characters}", text, position)
    return text[position]


def _separated(text: str, position: int, end: str, item: Callable[[int], int]) -> int:
    """Walk a list or an object: `item` reads what starts at a position and says where it ends."""
    position = _skip(text, position + 1)
    if text[position : position + 1] == end:
        return position + 1
    while True:
        position = _skip(text, item(position))
        if _expect(text, position, "," + end) == end:
            return position + 1
        position = _skip(text, position + 1)


def _walk(text: str, take_cell: Callable[[Any], None]) -> dict[str, Any]:
    head: dict[str, Any] = {}

    def cell(position: int) -> int:
        value, end = _decoder.raw_decode(text, position)
        take_cell(value)
        return end

    def field(position: int) -> int:
        _expect(text, position, '"')
        name, position = _decoder.raw_decode(text, position)
        position = _skip(text, position)
        _expect(text, position, ":")
        position = _skip(text, position + 1)
        if name in head:
            raise JSONDecodeError(f"the field {name!r} is there twice", text, position)
        if name == "cells" and text[position : position + 1] == "[":
            head[name] = True
            return _separated(text, position, "]", cell)
        head[name], position = _decoder.raw_decode(text, position)
        return position

    start = _skip(text, 0)
    _expect(text, start, "{")
    end = _skip(text, _separated(text, start, "}", field))
    if end != len(text):
        raise JSONDecodeError("something stands behind the report", text, end)
    return head


def read_json(path: Path, take_cell: Callable[[Any], None]) -> dict[str, Any]:
    """Give every element of `cells` to `take_cell`, in their order, and return the other fields."""
    try:
        return _walk(path.read_text(encoding="utf-8"), take_cell)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: byte {error.start} is not UTF-8: this is no report") from error
    except RecursionError as error:
        raise ReportError(f"{path}: nested too deeply for a report") from error
    except JSONDecodeError as error:
        raise ReportError(
            f"{path}:{error.lineno}:{error.colno}: {error.msg}; `assay validate {path}` says more"
        ) from error
    except ValueError as error:  # NaN, or a whole number of thousands of digits
        raise ReportError(f"{path}: {error}") from error
