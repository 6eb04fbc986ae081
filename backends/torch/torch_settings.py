"""What a cell asks of the whole process, and what was observed of it."""

from __future__ import annotations

import contextlib
import platform

import numpy as np
import torch
from assay_worker import Cell, Unavailable, Unsupported
from torch import Tensor


def refuse_cell(cell: Cell) -> None:
    """Raise where PyTorch has no such device, precision or mode here."""
    if cell.device == "cuda" and not torch.cuda.is_available():
        raise Unavailable(f"PyTorch {torch.__version__} finds no CUDA device")
    if cell.device != "cuda" and cell.precision == "tf32":
        raise Unsupported(f"[tf32] the device {cell.device} has no TF32")
    if cell.mode not in ("eager", "compile", "cudagraph"):
        raise Unsupported(f"mode {cell.mode!r}: eager, compile and cudagraph are known")
    if cell.mode == "cudagraph" and cell.device != "cuda":
        raise Unsupported("[cudagraph] a CUDA graph needs a CUDA device: --device cuda")
    if cell.mode == "cudagraph" and cell.task != "train":
        raise Unsupported("[cudagraph] what is captured is a training step: --task train")


def configure(cell: Cell) -> None:
    """Set what holds for the whole process."""
    torch.set_num_threads(cell.threads)
    torch.set_num_interop_threads(1)
    tf32 = cell.precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = not cell.deterministic
    torch.use_deterministic_algorithms(cell.deterministic)


def autocast(cell: Cell) -> contextlib.AbstractContextManager[object]:
    """The precision policy of the cell as PyTorch has it."""
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
        "python": platform.python_version(),
    }
    if cell.mode == "compile":
        from torch._dynamo.utils import counters

        # More than one for each function means that it compiled anew.
        found["compiled_graphs"] = str(counters["stats"]["unique_graphs"])
    return found


def as_array(tensor: Tensor | None) -> np.ndarray:
    if tensor is None:
        raise ValueError("a parameter has no gradient")
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return np.array(dense.float().cpu().contiguous().numpy())
