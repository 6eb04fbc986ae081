"""The worker half of Assay in Python: an adapter translates, this package does the rest.

The contract is docs/protocol.md; harness/worker/backend.hpp is the same contract in C++.
"""

from .adapter import Adapter, Cell, Info, Library, Unavailable, Unsupported
from .libraries import loaded_libraries
from .op_adapter import OpAdapter
from .program import Graph, Node, Optimizer, Program, Value
from .serve import worker_main

__all__ = [
    "Adapter",
    "Cell",
    "Graph",
    "Info",
    "Library",
    "Node",
    "OpAdapter",
    "Optimizer",
    "Program",
    "Unavailable",
    "Unsupported",
    "Value",
    "loaded_libraries",
    "worker_main",
]
