"""The worker half of Assay in Python: an adapter translates, this package does the rest.

The contract is docs/reference/protocol.md; harness/worker/backend.hpp is the same contract in C++.
"""

from .adapter import Adapter, InferenceAdapter, TrainingAdapter
from .cell import Cell, Info
from .channels_last import (
    BROADCASTING_OPS,
    ChannelsLast,
    held_operands,
    images_to_ours,
    images_to_theirs,
    values_of_heads,
)
from .device_times import DeviceTimes
from .environment import variables
from .errors import Unavailable, Unsupported
from .exchange import Exchange
from .libraries import Library, loaded_libraries
from .loop import Loop
from .memory import memory_share, total_gpu_memory
from .op_adapter import OpAdapter
from .program import (
    CAST,
    CLIP_EPSILON,
    Decoding,
    Graph,
    Node,
    Optimizer,
    Program,
    Value,
    last_reads,
    names_read,
    required,
    with_casts,
)
from .refusals import refuse
from .samples import Samples
from .serve import worker_main
from .windows import Numbers, Sides, elements_inside, even, pair, sides, windows

__all__ = [
    "BROADCASTING_OPS",
    "CAST",
    "CLIP_EPSILON",
    "Adapter",
    "Cell",
    "ChannelsLast",
    "Decoding",
    "DeviceTimes",
    "Exchange",
    "Graph",
    "InferenceAdapter",
    "Info",
    "Library",
    "Loop",
    "Node",
    "Numbers",
    "OpAdapter",
    "Optimizer",
    "Program",
    "Samples",
    "Sides",
    "TrainingAdapter",
    "Unavailable",
    "Unsupported",
    "Value",
    "elements_inside",
    "even",
    "held_operands",
    "images_to_ours",
    "images_to_theirs",
    "last_reads",
    "loaded_libraries",
    "memory_share",
    "names_read",
    "pair",
    "refuse",
    "required",
    "sides",
    "total_gpu_memory",
    "values_of_heads",
    "variables",
    "windows",
    "with_casts",
    "worker_main",
]
