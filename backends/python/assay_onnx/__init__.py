"""Networks and single ops as ONNX models, and what the backends of runtimes share."""

from .adapter import OnnxAdapter
from .model import model_of
from .original import original_model

__all__ = ["OnnxAdapter", "model_of", "original_model"]
