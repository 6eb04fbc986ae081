"""The rules in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..graph import Graph
from .activations import gelu, hard_sigmoid, hard_swish, silu, softsign
from .attention import attention, causal, hidden
from .layers import batch_norm_scale, convolution_bias, linear, linear_bias
from .masks import mean_pool, padding_mask, shown_rows
from .norms import layer_norm
from .tables import embedding_bounds, position_table
from .tidy import identity, inner_transposes, reshapes, transposes

# A rule looks at one node. It returns the nodes that it made superfluous, and None if it does not apply.
Rule = Callable[[Graph, str], list[str] | None]

RULES: dict[str, tuple[Rule, ...]] = {
    "identity": (identity,),
    "transposes": (inner_transposes, transposes),
    "linear": (linear, linear_bias),
    "convolution_bias": (convolution_bias,),
    "batch_norm_scale": (batch_norm_scale,),
    "layer_norm": (layer_norm,),
    "gelu": (gelu,),
    "hard_swish": (hard_swish,),
    "hard_sigmoid": (hard_sigmoid,),
    "silu": (silu,),
    "softsign": (softsign,),
    "position_table": (position_table,),
    "embedding_bounds": (embedding_bounds,),
    "padding_mask": (padding_mask,),
    "attention": (hidden, attention, causal, shown_rows),
    "mean_pool": (mean_pool,),
    "reshapes": (reshapes,),
}
AGAIN = ("transposes", "reshapes")  # after attention


@dataclass(frozen=True)
class Lift:
    rule: str
    node: str
    took: list[str]


def lift(graph: Graph, without: Collection[str]) -> list[Lift]:
    """Apply each rule to each node. Returns what was replaced."""
    found = []
    for name in (*RULES, *AGAIN):
        if name in without:
            continue
        for rule in RULES[name]:
            for node in list(graph.nodes):
                if node in graph.nodes and graph.nodes[node].shape is not None:
                    took = rule(graph, node)
                    if took is not None:
                        found.append(Lift(name, node, sorted(took)))
    return found
