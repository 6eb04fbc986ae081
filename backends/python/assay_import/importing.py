"""From a file to a network: reading, lifting, checking."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import coverage, legal, notes
from .contents import begin_of, reject_other
from .coverage import Gap
from .errors import Refused
from .lifts import RULES, Lift, lift
from .network import Network, document_of, one_line, with_free_batch
from .options import Options
from .reading import Reader, Reading
from .structure import structure_of
from .tensors import Tensor, check_values, tensors_of

BATCHES = (3, 5)
OTHER_BATCHES = (7, 11)


@dataclass
class Import:
    """A network, or what is missing for one."""

    network: Network | None
    gaps: list[Gap]
    provenance: dict[str, Any]
    reader: Reader

    @property
    def notes(self) -> list[str]:
        return list(self.provenance["notes"])


@dataclass
class Lifted:
    reading: Reading
    tensors: list[Tensor]
    lifts: list[Lift]
    pruned: dict[str, Any]
    cut: str | None
    logits: str  # the value of the file that has their elements
    gaps: list[Gap]


def open_file(path: Path, options: Options) -> Reader:
    """Look at the first bytes of a file, and open it as what it is."""
    if not str(path).isprintable() and any("\ud800" <= c <= "\udfff" for c in str(path)):
        shown = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise Refused(f"{shown} has a name that is not UTF-8; rename it")
    try:
        begin = begin_of(path)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    reject_other(path, begin)
    if begin[:2] == b"PK":
        from .pt2_reader import Pt2

        return Pt2(path, options)
    try:
        from .onnx_source import OnnxSource
    except ImportError as error:
        raise Refused(
            f"{path} is not a .pt2, and this environment reads no ONNX ({error}): assay setup import"
        ) from None
    return OnnxSource(path, options)


def import_file(path: Path, options: Options) -> Import:
    """Read a file twice, with two batch sizes. Raises Refused."""
    unknown = sorted(set(options.no_lift) - set(RULES))
    if unknown:
        raise Refused(f"--no-lift {unknown[0]}: unknown rule; the rules are {', '.join(RULES)}")
    reader = open_file(path, options)
    batches = BATCHES
    first = lifted(reader, options, batches[0])
    if first.reading.file_batch in batches:
        batches = OTHER_BATCHES  # without the file's own batch
        first = lifted(reader, options, batches[0])
    provenance = provenance_of(path, reader, first)
    if first.gaps:
        return Import(None, first.gaps, provenance, reader)
    second = lifted(reader, options, batches[1])
    if second.gaps:
        raise Refused(f"with a batch of {batches[1]} this is missing: {second.gaps[0].feature}")
    description = one_line(f"{path.name}, imported from {reader.facts['format']}")
    networks = [document_of(each.reading.graph, each.tensors, description) for each in (first, second)]
    network = with_free_batch(networks[0], networks[1], batches)
    check_values(first.tensors)
    provenance["structure"] = structure_of(network.document)
    if reader.facts["format"] == "onnx":
        provenance["original"] = original_of(network, first)
    return Import(network, [], provenance, reader)


def lifted(reader: Reader, options: Options, batch: int) -> Lifted:
    reading = reader.read(batch)
    graph = reading.graph
    every = sum(coverage.flops(graph, node) for node in graph.nodes.values())
    removed = graph.sweep()
    kept = sum(coverage.flops(graph, node) for node in graph.nodes.values())
    pruned = {"nodes": len(removed), "share_of_flops": round(1 - kept / every, 6) if every else 0.0}
    cut = legal.cut_softmax(graph)
    logits = graph.output if cut else reading.output
    graph.sweep()
    lifts = lift(graph, options.no_lift)
    legal.legalise(graph)
    found = coverage.gaps(graph)
    if not found:
        legal.check_logits(graph)
        graph.sweep()
    tensors = [] if found else tensors_of(graph, options.train_constants)
    return Lifted(reading, tensors, lifts, pruned, cut, logits, found)


def provenance_of(path: Path, reader: Reader, found: Lifted) -> dict[str, Any]:
    return {
        "schema": "assay-import/1",
        **reader.facts,
        "tools": {"python": platform.python_version(), "numpy": np.__version__, **reader.facts["tools"]},
        "bound": found.reading.bound,
        "folded": dict(sorted(found.reading.folded.items())),
        "lifts": [{"rule": each.rule, "node": each.node, "took": each.took} for each in found.lifts],
        "pruned": found.pruned,
        "cut": found.cut,
        "coverage": coverage.ops_of(found.reading.graph),
        "structure": None,
        "original": None,
        "notes": notes.of(found.reading, found.tensors, found.pruned, found.cut),
    }


def original_of(network: Network, found: Lifted) -> dict[str, Any]:
    """Say which tensors of the user's file are those of the network."""
    graph = found.reading.graph
    drawn = [
        {"file": tensor.constant.original, "tensor": name, "transpose": tensor.constant.turned}
        for name, tensor in network.tensors.items()
        if not tensor.is_written
    ]
    return {
        "input": next(iter(graph.inputs)),
        "output": found.logits,
        "drawn": drawn,
        "batch": found.reading.file_batch if found.reading.freed else 0,
        "neutral": [{"file": name, "value": value} for name, value in sorted(graph.neutral.items())],
    }
