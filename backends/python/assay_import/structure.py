"""A digest of a network, whatever its values are called and in which order its nodes stand."""

from __future__ import annotations

import hashlib
import json
from typing import Any

COMMUTATIVE = {"add", "multiply"}


def structure_of(document: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that networks share if only their names and order differ.

    `document` is that of network.json. A node is known by its op, its attributes and its operands, and a
    tensor by its shape and the nodes that read it, so that one is told from two that are alike. What is
    trained, and from which values, is no part of it.
    """
    given = document["input"]
    named = {given["name"]: ["input", given["dtype"], given["shape"]]}
    named |= {each["name"]: ["tensor", each["shape"]] for each in document["tensors"]}
    texts = {name: json.dumps(value) for name, value in named.items()}
    operands: dict[str, list[str | None]] = {}
    for node in document["nodes"]:  # operands first
        inputs = list(node["inputs"])
        while inputs and inputs[-1] is None:
            inputs.pop()
        if node["op"] in COMMUTATIVE:
            inputs.sort(key=lambda name: texts[str(name)])
        operands[node["name"]] = inputs
        written = [node["op"], node.get("attributes", {}), [name and texts[name] for name in inputs]]
        texts[node["name"]] = hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()
    places = _places(document["output"], operands)
    reads = [[places.get(str(name)) for name in operands.get(each, [])] for each in places]
    whole = json.dumps([[texts[each] for each in places], reads])
    return hashlib.sha256(whole.encode()).hexdigest()[:8]


def _places(output: str, operands: dict[str, list[str | None]]) -> dict[str, int]:
    """Number the values that the output needs, from the output on."""
    places: dict[str, int] = {}
    stack = [output]
    while stack:
        name = stack.pop()
        if name not in places:
            places[name] = len(places)
            stack.extend(each for each in reversed(operands.get(name, [])) if each is not None)
    return places
