"""Keras's own loop, model.fit, with the batch library's block clock in a callback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf
from assay_worker import Loop, images_to_theirs

Prepare = Callable[[float, int], None]
Tell = Callable[[tf.Tensor], None]


class BlockClock(keras.callbacks.Callback):
    """Sets what each step reads, ends blocks and evaluates between them, and stops when all is done."""

    def __init__(self, loop: Loop, prepare: Prepare, tell: Tell) -> None:
        super().__init__()
        self._loop, self._prepare, self._tell = loop, prepare, tell
        self._row = (
            loop.begin_step()
        )  # the clock runs: what fit does before the first step is the user's, too

    def on_train_batch_begin(self, batch: int, logs: dict[str, tf.Tensor] | None = None) -> None:
        if self._row is not None:
            self._prepare(*self._row)
        if self._loop.last_of_block:
            self.model.reset_metrics()  # Keras tells the mean since then

    def on_train_batch_end(self, batch: int, logs: dict[str, tf.Tensor] | None = None) -> None:
        self._tell((logs or {})["loss"])
        self._loop.end_step()
        self._row = self._loop.begin_step()
        if self._row is None:
            self.model.stop_training = True


class OneStep(keras.callbacks.Callback):
    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    def on_train_batch_end(self, batch: int, logs: dict[str, tf.Tensor] | None = None) -> None:
        self._tell((logs or {})["loss"])


def fit_once(model: keras.Model, batch: tuple[tf.Tensor, tf.Tensor], tell: Tell) -> None:
    """One step by the function that fit_all() runs."""
    model.fit(tf.data.Dataset.from_tensors(batch), verbose=0, callbacks=[OneStep(tell)])


def fit_all(model: keras.Model, loop: Loop, data: tf.data.Dataset, prepare: Prepare, tell: Tell) -> None:
    """Fit until the loop has no further step, on data without an end."""
    clock = BlockClock(loop, prepare, tell)
    model.fit(data, steps_per_epoch=sys.maxsize, verbose=0, callbacks=[clock])


def resident(slots: list[tuple[tf.Tensor, tf.Tensor]]) -> tf.data.Dataset:
    """Give the staged batches in turn."""
    stacked = tuple(tf.stack(parts) for parts in zip(*slots, strict=True))
    return tf.data.Dataset.from_tensor_slices(stacked).repeat()


def loaded(loop: Loop) -> tf.data.Dataset:
    """Each step takes the next batch of the library, when it wants it and not before."""
    session = loop.session

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        while True:
            session.next_batch()
            yield np.ascontiguousarray(images_to_theirs(session.inputs)).copy(), session.labels.copy()

    inputs = images_to_theirs(session.inputs)
    signature = (
        tf.TensorSpec(inputs.shape, tf.as_dtype(inputs.dtype)),
        tf.TensorSpec(session.labels.shape, tf.int32),
    )
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return tf.data.Dataset.from_generator(batches, output_signature=signature).with_options(options)
