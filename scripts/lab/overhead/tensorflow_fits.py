"""Keras's own loop as users call it: model.compile() and model.fit() on a data set or a generator."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from clock import Loop

FITS = ("fit", "fit-xla", "fit-autocluster", "fit-eager", "fit-generator")
JIT = {"fit-xla": True, "fit-autocluster": False}


class EndOfBlock(keras.callbacks.Callback):
    """Waits at the end of each epoch. It has no method for batches: Keras calls callbacks only if one has."""

    def __init__(self, block: Fit) -> None:
        super().__init__()
        self.block = block

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.block.loss = float((logs or {})["loss"])
        self.block.done.release()
        self.block.go.acquire()
        if self.block.ends:
            self.model.stop_training = True


class Fit(Loop):
    """A block is an epoch of one long call of fit(), which runs in a thread of its own."""

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        mode: str,
        data: tf.data.Dataset | Iterator[Any],
    ) -> None:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        jit = JIT.get(mode, "auto")
        model.compile(optimizer, loss, run_eagerly=mode == "fit-eager", jit_compile=jit)
        self.model, self.data = model, data
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.steps, self.loss, self.ends = 0, float("nan"), False
        self.thread: threading.Thread | None = None
        self.error: Exception | None = None

    def run(self, steps: int) -> float:
        if steps != self.steps:
            self.end()
            self.steps = steps
            self.thread = threading.Thread(target=self.fit, daemon=True)
            self.thread.start()
        else:
            self.go.release()
        self.done.acquire()
        if self.error:
            raise self.error
        return self.loss

    def end(self) -> None:
        """Leave fit() at the end of the epoch."""
        if self.thread:
            self.ends = True
            self.go.release()
            self.thread.join()
            self.ends, self.thread = False, None

    def fit(self) -> None:
        try:
            self.model.fit(
                self.data, steps_per_epoch=self.steps, epochs=10**9, verbose=0, callbacks=[EndOfBlock(self)]
            )
        except Exception as error:
            self.error = error
            self.done.release()

    def parameters(self) -> int:
        return sum(int(np.prod(variable.shape)) for variable in self.model.trainable_variables)

    def settings(self) -> dict[str, str]:
        chosen = tf.config.threading
        threads = chosen.get_intra_op_parallelism_threads() or os.cpu_count()
        between = chosen.get_inter_op_parallelism_threads() or os.cpu_count()
        return {"threads": str(threads), "interop_threads": str(between)}
