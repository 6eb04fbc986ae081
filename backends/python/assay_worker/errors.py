"""Exceptions that the protocol reports as an answer and not as a failure."""

from __future__ import annotations


class Unsupported(Exception):
    """The backend cannot do it, which is not a failure: "[convolution] stride 3 has no kernel here"."""


class Unavailable(Exception):
    """This machine lacks something that the backend needs: "PyTorch finds no CUDA device"."""
