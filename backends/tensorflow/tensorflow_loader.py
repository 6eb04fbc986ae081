"""The training samples through tf.data."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from assay_worker import Cell, Samples

Sample = tuple[tf.Tensor, tf.Tensor]


class Loader:
    """One pipeline for all epochs: the samples are in memory, and the plan of the epoch in a variable.

    Each pass shuffles all samples. With workers, that many calls run at the same time, in threads of the
    pipeline, and batches are made ahead of time.
    """

    def __init__(self, samples: Samples, batch: int, cell: Cell) -> None:
        self._samples = samples
        self._raw = tf.constant(np.asarray(samples.raw))
        self._labels = tf.constant(np.asarray(samples.labels, np.int32))
        self._rows = tf.Variable(samples.rows, trainable=False)
        self._margin = int(np.abs(samples.rows[:, 1:3]).max(initial=0))
        workers = cell.loader_workers
        calls = {"num_parallel_calls": workers, "deterministic": True} if workers else {}
        data = tf.data.Dataset.range(len(samples)).shuffle(len(samples), seed=cell.seed)
        if samples.moved:
            # Crops are made per sample.
            data = data.map(self._moved, **calls).batch(batch, drop_remainder=True)
        else:
            data = data.batch(batch, drop_remainder=True).map(self._gathered, **calls)
        if workers:
            options = tf.data.Options()
            options.threading.private_threadpool_size = workers
            data = data.prefetch(tf.data.AUTOTUNE).with_options(options)
        self._data = data

    def epoch(self) -> tf.data.Dataset:
        """Return one pass over the samples of the current plan."""
        self._rows.assign(self._samples.rows)
        return self._data

    def _gathered(self, indices: tf.Tensor) -> Sample:
        chosen = tf.gather(self._rows, indices)[:, 0]
        inputs = self._normalised(tf.gather(self._raw, chosen))
        # Keras trains on images in the layout (H, W, C).
        inputs = tf.transpose(inputs, (0, 2, 3, 1)) if inputs.shape.rank == 4 else inputs
        return inputs, tf.gather(self._labels, chosen)

    def _moved(self, index: tf.Tensor) -> Sample:
        row, margin = tf.gather(self._rows, index), self._margin
        inputs = tf.gather(self._raw, row[0])
        inputs = tf.pad(inputs, ((0, 0), (margin, margin), (margin, margin)))
        begin = tf.stack([0, margin + row[2], margin + row[1]])
        inputs = tf.slice(inputs, begin, self._raw.shape[1:])
        inputs = tf.cond(row[3] > 0, lambda: tf.reverse(inputs, (2,)), lambda: inputs)
        return tf.transpose(self._normalised(inputs), (1, 2, 0)), tf.gather(self._labels, row[0])

    def _normalised(self, raw: tf.Tensor) -> tf.Tensor:
        if self._samples.tokens:
            return raw
        return tf.cast(raw, tf.float32) * self._samples.scale + self._samples.shift
