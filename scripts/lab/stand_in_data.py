"""Make a data set in its publisher's format, and with its published statistics, from random numbers.

For times on machines that have no CIFAR-10 or IMDB: shapes, counts, lengths of texts and frequencies of
words are like those of the publisher. Nothing can be learnt from them, so they say nothing of accuracy.
`assay run ... --data DIR` reads them. Equal seeds make equal files.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_imdb import tokens_of

PIXELS, CLASSES = 3 * 32 * 32, 10
IMAGES_OF_FILE = 10_000
TEXTS = 50_000
# Of the reviews in words, and their different words.
MEAN_LENGTH, DEVIATION, WORDS = 234.76, 172.91, 88_584


def image_records(count: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return records of CIFAR-10's binary version: a label and the bytes of a picture; classes are equal."""
    records = random.integers(0, 256, (count, 1 + PIXELS), np.uint8)
    records[:, 0] = random.permutation(np.arange(count) % CLASSES)
    return records


def lengths_of_texts(count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return log-normal lengths with the mean and the standard deviation of the reviews."""
    variance = math.log(1 + (DEVIATION / MEAN_LENGTH) ** 2)
    lengths = random.lognormal(math.log(MEAN_LENGTH) - variance / 2, math.sqrt(variance), count)
    return np.maximum(1, np.rint(lengths)).astype(np.int64)


def texts(count: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Return rows of tokens as Keras makes them; the word of rank r is 1 / r times as frequent (Zipf)."""
    lengths = lengths_of_texts(count, random)
    reached = np.cumsum(1 / np.arange(1, WORDS + 1))
    ranks = 1 + np.searchsorted(reached, random.random(int(lengths.sum())) * reached[-1])
    ends = np.cumsum(lengths)
    rows = [tokens_of(ranks[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    return np.array(rows, np.int32)


def make_cifar10(folder: Path, random: np.random.Generator) -> None:
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (folder / f"{name}.bin").write_bytes(image_records(IMAGES_OF_FILE, random).tobytes())
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (folder / "batches.meta.txt").write_text("\n".join([*names, "", ""]))


def make_imdb(folder: Path, random: np.random.Generator) -> None:
    np.save(folder / "inputs.npy", texts(TEXTS, random))
    np.save(folder / "labels.npy", random.permutation(np.arange(TEXTS) % 2).astype(np.int32))


MAKERS = {"cifar10": make_cifar10, "imdb": make_imdb}


def main() -> None:
    parser = argparse.ArgumentParser(prog="stand-in-data", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("set", choices=MAKERS, help="the set whose format the files have")
    parser.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="makes DIR/SET, which must not exist"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")
    arguments = parser.parse_args()
    folder = arguments.to / arguments.set
    if folder.exists():
        parser.error(f"{folder} exists: a set of its publisher is never overwritten")
    folder.mkdir(parents=True)
    MAKERS[arguments.set](folder, np.random.default_rng(arguments.seed))
    print(f"made {folder} from random numbers; try: assay list datasets --data {arguments.to}")


if __name__ == "__main__":
    main()
