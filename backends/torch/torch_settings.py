"""Settings of the whole process, as a cell requests them and as observed."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path

import numpy as np
import torch
from assay_worker import Cell, Program, Unavailable, refuse, variables
from torch import Tensor


def refuse_cell(cell: Cell, program: Program) -> None:
    """Raise Unsupported if PyTorch can never run the cell, Unavailable if the device is missing here."""
    refuse(cell, program, Path(__file__).parent)
    if cell.device == "cuda" and not torch.cuda.is_available():
        raise Unavailable(f"PyTorch {torch.__version__} finds no CUDA device")


def configure(cell: Cell) -> None:
    """Apply the settings of the whole process."""
    torch.set_num_threads(cell.threads)
    torch.set_num_interop_threads(1)
    tf32 = cell.precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    # In fp32 the fastest engine can be one whose gradients are 1e-4 off, so PyTorch's default stays.
    torch.backends.cudnn.benchmark = cell.precision != "fp32" and not cell.deterministic
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
        "denormals": "kept" if float(torch.tensor(1e-40) * 1) else "flushed",
        "python": platform.python_version(),
        **variables("TORCH", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD"),
        **variables("CUBLAS_"),
    }
    if cell.device == "cuda":
        found["cudnn_benchmark"] = str(torch.backends.cudnn.benchmark)
    if cell.mode in ("compile", "freeze"):
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
