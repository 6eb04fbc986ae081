"""A cell, and the information that a backend gives of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .libraries import Library

SEEDS = 2**31


@dataclass(frozen=True)
class Info:
    """The backend's name and version, its libraries, and its observed settings."""

    name: str
    version: str
    libraries: list[Library] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """request.json: the cell and how to run it."""

    folder: Path
    request: dict[str, Any]

    @property
    def task(self) -> str:
        return str(self.request.get("task", "train"))

    @property
    def mode(self) -> str:
        return str(self.request["mode"])

    @property
    def device(self) -> str:
        return str(self.request.get("device", "cpu"))

    @property
    def precision(self) -> str:
        return str(self.request.get("precision", "fp32"))

    @property
    def layout(self) -> str:
        return str(self.request.get("layout", "native"))

    @property
    def threads(self) -> int:
        return int(self.request.get("threads", 1))

    @property
    def deterministic(self) -> bool:
        return bool(self.request.get("deterministic", False))

    @property
    def running_accuracy(self) -> bool:
        """Whether each step also counts the accuracy of its batch, as loops of users do that print it."""
        return bool(self.request.get("running_accuracy", False))

    @property
    def recompute(self) -> str:
        """The activations that the backward pass computes again: "none", "mirror" or "sqrt"."""
        return str(self.request.get("recompute", "none"))

    @property
    def memory_fraction(self) -> float | None:
        """Share of the device's memory that the backend may use; None: no limit was requested."""
        return self.request.get("memory_fraction")

    @property
    def memory_cap_bytes(self) -> int | None:
        return self.request.get("memory_cap_bytes")

    @property
    def loader(self) -> str:
        return str(self.request.get("loader", {}).get("kind", "resident"))

    @property
    def loader_workers(self) -> int:
        return int(self.request.get("loader", {}).get("workers", 0))

    @property
    def seed(self) -> int:
        """Where random numbers begin, in each rank elsewhere: 31 bits, which every framework takes."""
        return int(self.request.get("seed", 1)) % SEEDS

    @property
    def rank(self) -> int:
        """The number of this worker among those that train one model together, from 0."""
        return int(self.request.get("rank", 0))

    @property
    def world(self) -> int:
        """The number of these workers."""
        return int(self.request.get("world", 1))

    @property
    def rendezvous(self) -> tuple[str, int]:
        """The address and port where they find each other; rank 0 may listen there."""
        host, _, port = str(self.request["rendezvous"]).rpartition(":")
        return host, int(port)

    @property
    def is_timed(self) -> bool:
        return bool(self.request.get("clock"))
