"""Exceptions that the protocol reports as an answer and not as a failure."""

from __future__ import annotations


class Unsupported(Exception):
    """The backend cannot, as opposed to failed: "[convolution] stride 3 has no kernel here"."""


class Unavailable(Exception):
    """What the backend needs is not on this machine: "PyTorch finds no CUDA device"."""
