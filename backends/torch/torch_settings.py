"""Settings of the whole process, as a cell requests them and as observed."""

from __future__ import annotations

import contextlib
import platform

import numpy as np
import torch
from assay_worker import Cell, Program, Unavailable, refuse, variables
from torch import Tensor

# The arguments of torch.compile in each mode that compiles.
COMPILE: dict[str, dict[str, str]] = {
    "compile": {},
    "compile-max-autotune": {"mode": "max-autotune"},
    "compile-reduce-overhead": {"mode": "reduce-overhead"},
    "freeze": {},
}


def format_of(cell: Cell) -> torch.memory_format:
    """The layout of images. `native` is that of users: on a GPU, tensor cores work on channels last."""
    with_tensor_cores = cell.device == "cuda" and cell.precision != "fp32"
    if cell.layout == "channels_last" or (cell.layout == "native" and with_tensor_cores):
        return torch.channels_last
    return torch.contiguous_format


def refuse_cell(cell: Cell, program: Program) -> None:
    """Raise Unsupported if PyTorch can never run the cell, Unavailable if the device is missing here."""
    refuse(program)
    if cell.device == "cuda" and not torch.cuda.is_available():
        raise Unavailable(f"PyTorch {torch.__version__} finds no CUDA device")


def configure(cell: Cell) -> None:
    """Apply the settings of the whole process."""
    torch.set_num_threads(cell.threads)
    torch.set_num_interop_threads(1)
    tf32 = cell.precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    # In fp32 the fastest engine can be one whose gradients are 1e-4 off, so PyTorch's default stays, unless
    # the mode asks for the search.
    searches = cell.precision != "fp32" or cell.mode == "cudnn-benchmark"
    torch.backends.cudnn.benchmark = searches and not cell.deterministic
    torch.use_deterministic_algorithms(cell.deterministic)
    if cell.mode == "freeze":
        from torch._inductor import config

        config.freezing = True  # as TORCHINDUCTOR_FREEZING=1 does


def autocast(cell: Cell) -> contextlib.AbstractContextManager[object]:
    """The cell's precision policy in PyTorch."""
    if cell.precision != "bf16":
        return contextlib.nullcontext()
    policy: contextlib.AbstractContextManager[object] = torch.autocast(cell.device, torch.bfloat16)
    return policy


def observed(cell: Cell) -> dict[str, str]:
    found = {
        "threads": str(torch.get_num_threads()),
        "interop_threads": str(torch.get_num_interop_threads()),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "onednn": str(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "cuda_build": torch.version.cuda or "none",  # such a wheel is larger, also where no GPU is used
        "denormals": "kept" if float(torch.tensor(1e-40) * 1) else "flushed",
        "python": platform.python_version(),
        **variables("TORCH", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD"),
        **variables("CUBLAS_"),
    }
    if cell.device == "cuda":
        found["cudnn_benchmark"] = str(torch.backends.cudnn.benchmark)
        found["memory_format"] = str(format_of(cell)).removeprefix("torch.")
    if cell.mode in COMPILE:
        from torch._dynamo.utils import counters

        # More than one per function means that it compiled again.
        found["compiled_graphs"] = str(counters["stats"]["unique_graphs"])
        found["graph_breaks"] = str(sum(counters["graph_break"].values()))
        if cell.device == "cpu":
            from torch._inductor import config, cpp_builder

            found["compiler"] = cpp_builder.get_cpp_compiler()
            found["freezing"] = str(config.freezing)
    return found


def as_array(tensor: Tensor | None) -> np.ndarray:
    if tensor is None:
        raise ValueError("a parameter has no gradient")
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return np.array(dense.float().cpu().contiguous().numpy())
