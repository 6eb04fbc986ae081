"""The training samples through tf.data."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from assay_worker import Cell, Samples

Sample = tuple[tf.Tensor, tf.Tensor]


def make_loader(samples: Samples, batch: int, cell: Cell) -> tf.data.Dataset:
    """Shuffle the whole; with workers so many samples are made at once, and batches ahead of time."""
    raw, labels = tf.constant(np.asarray(samples.raw)), tf.constant(np.asarray(samples.labels, np.int32))
    rows = np.array(samples.rows)
    margin = int(np.abs(rows[:, 1:3]).max(initial=0))

    def load(row: tf.Tensor) -> Sample:
        inputs, label = tf.gather(raw, row[0]), tf.gather(labels, row[0])
        if samples.tokens:
            return inputs, label
        if margin:
            inputs = tf.pad(inputs, ((0, 0), (margin, margin), (margin, margin)))
            begin = tf.stack([0, margin + row[2], margin + row[1]])
            inputs = tf.slice(inputs, begin, raw.shape[1:])
        if samples.moved:
            inputs = tf.cond(row[3] > 0, lambda: tf.reverse(inputs, (2,)), lambda: inputs)
        inputs = tf.cast(inputs, tf.float32) * samples.scale + samples.shift
        # Keras trains on images that lie as (H, W, C).
        return tf.transpose(inputs, (1, 2, 0)) if inputs.shape.rank == 3 else inputs, label

    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(len(rows), seed=cell.seed)
    if not cell.loader_workers:
        return data.map(load).batch(batch, drop_remainder=True)
    data = data.map(load, num_parallel_calls=cell.loader_workers, deterministic=True)
    return data.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
