"""Exceptions that end an import, or refuse a node."""

from __future__ import annotations


class Refused(Exception):
    """The file or the options cannot be imported. The text is for the user: what, where, and the remedy."""


class Missing(Exception):
    """No op of Assay computes a node. The text names the op and its feature: "convolution: 3-d"."""
