"""Keras's own loop, model.fit, with the batch library's block clock in a callback."""

from __future__ import annotations

import sys
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from assay_worker import Loop, images_to_theirs

Prepare = Callable[[float, int], None]
Tell = Callable[[tf.Tensor], None]
Fetch = Callable[[], None]


class BlockClock(keras.callbacks.Callback):
    """Sets what each step reads, ends blocks and evaluates between them, and stops when all is done.

    Keras calls it in the thread that trains: in another, as with `async_safe`, a block would end too late.
    """

    def __init__(self, loop: Loop, fetch: Fetch | None, prepare: Prepare, tell: Tell) -> None:
        super().__init__()
        self._loop, self._fetch, self._prepare, self._tell = loop, fetch, prepare, tell
        self._row = (
            loop.begin_step()
        )  # the clock runs: what fit does before the first step is the user's, too

    def on_train_batch_begin(self, batch: int, logs: dict[str, tf.Tensor] | None = None) -> None:
        if self._row is not None:
            self._prepare(*self._row)
            if self._fetch is not None:
                self._fetch()
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


def fit_all(
    model: keras.Model,
    loop: Loop,
    data: tf.data.Dataset,
    fetch: Fetch | None,
    prepare: Prepare,
    tell: Tell,
) -> None:
    """Fit until the loop has no further step, on data without an end; `fetch` is called before each step."""
    clock = BlockClock(loop, fetch, prepare, tell)
    model.fit(data, steps_per_epoch=sys.maxsize, verbose=0, callbacks=[clock])


def resident(slots: list[tuple[tf.Tensor, tf.Tensor]]) -> tf.data.Dataset:
    """Give the staged batches in turn."""
    stacked = tuple(tf.stack(parts) for parts in zip(*slots, strict=True))
    return tf.data.Dataset.from_tensor_slices(stacked).repeat()


def loaded(loop: Loop) -> tuple[tf.data.Dataset, Fetch]:
    """Give data that is what was fetched last, and what fetches the next batch of the library.

    A generator of Python (`from_generator`) would be called for each batch in a thread of tf.data.
    """
    session = loop.session
    inputs = tf.Variable(images_to_theirs(session.inputs), trainable=False)
    labels = tf.Variable(session.labels, trainable=False)

    def fetch() -> None:
        session.next_batch()
        inputs.assign(np.ascontiguousarray(images_to_theirs(session.inputs)))
        labels.assign(session.labels)

    # Nothing is made ahead of time: each step reads what was fetched for it.
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    data = tf.data.Dataset.range(1).repeat().map(lambda _: (inputs.read_value(), labels.read_value()))
    return data.with_options(options), fetch
