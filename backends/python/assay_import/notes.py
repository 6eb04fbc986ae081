"""Notes for the user of an import: what the exporter removed, what is trained, what was changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .reading import Reading
from .tensors import Tensor

FEW = 3


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def of(reading: Reading, tensors: list[Tensor], pruned: dict[str, Any], cut: str | None) -> list[str]:
    graph = reading.graph
    ops = Counter(graph.nodes[name].op for name in graph.order())
    notes = list(reading.notes)
    if ops["convolution"] >= FEW and not ops["batch_norm"]:
        notes.append(
            f"no batch norm in a network with {ops['convolution']} convolutions: if the model has some, the "
            "exporter folded them into the convolutions, and training this network trains another one "
            "(export with optimize=False, or as .pt2)"
        )
    if ops["dropout"]:
        notes.append(f"{plural(ops['dropout'], 'dropout')} for training: in inference, it changes nothing")
    elif reading.folded.get("Dropout"):
        notes.append("dropouts of rate 0 were left out")
    if ops["padding_mask"] and ops["attention"]:
        notes.append(
            "padding is hidden by a mask: of a text of nothing but padding attention makes zeros here, and "
            "the file may make a mean over all tokens"
        )
    if cut:
        notes.append(f"the last op, {cut}, was cut off: the loss computes it, and the output is the logits")
    outputs = reading.other_outputs
    if outputs:
        left = f"{pruned['nodes']} nodes, {pruned['share_of_flops']:.1%} of the FLOPs"
        named = f"{', '.join(outputs[:FEW])}{' ...' if outputs[FEW:] else ''}"
        notes.append(f"other outputs of the file are left out: {named} ({left})")
    if reading.freed:
        notes.append(f"{plural(reading.freed, 'reshape')} with the file's batch: it is free now")
    return notes + tensor_notes(tensors)


def tensor_notes(tensors: list[Tensor]) -> list[str]:
    roles = Counter(tensor.role for tensor in tensors)
    notes = []
    if roles["constant"]:
        names = [tensor.name for tensor in tensors if tensor.role == "constant"]
        notes.append(
            f"{plural(roles['constant'], 'constant')} not trained: {', '.join(names[:FEW])}"
            f"{' ...' if names[FEW:] else ''} (--train-constants trains those of a file)"
        )
    drawn = sum(not tensor.is_written for tensor in tensors)
    if drawn:
        notes.append(f"{plural(drawn, 'tensor')} without values in the file (ConstantOfShape), drawn")
    return notes
