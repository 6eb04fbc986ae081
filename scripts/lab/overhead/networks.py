"""The published networks as tables of sizes, as a user would copy them from a paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """The inputs of a step and how it is trained; images are (channels, height, width)."""

    batch: int
    shape: tuple[int, ...]
    classes: int
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.0  # of SGD
    vocabulary: int = 0  # tokens instead of images, if not 0
    beta2: float = 0.999  # of AdamW
    weight_decay: float = 0.0  # of AdamW, for matrices only
    clip_norm: float = 0.0  # the largest norm of all gradients together, if not 0
    padded: bool = False  # texts end with tokens 0, which do not count
    next_token: bool = False  # the class of each position is its next token
    learns_within: int | None = 20  # steps until its loss has fallen; None: not within a short run


NETWORKS = {
    "mlp": Network(32, (1, 28, 28), 10),
    "lenet5": Network(200, (1, 28, 28), 10, learns_within=40),
    "cnn": Network(32, (1, 28, 28), 10),
    "resnet56": Network(32, (3, 32, 32), 10),
    "lstm": Network(32, (500,), 2, vocabulary=5000),
    "cifar10-cnn": Network(256, (3, 32, 32), 10, "rmsprop", 1e-4),
    "resnet50": Network(32, (3, 224, 224), 1000, "sgd", 0.1, momentum=0.9, learns_within=None),
    "alexnet": Network(128, (3, 224, 224), 1000, "sgd", learns_within=None),
    "overfeat": Network(128, (3, 231, 231), 1000, "sgd", learns_within=None),
    "vgg_a": Network(64, (3, 224, 224), 1000, "sgd", learns_within=None),
    "googlenet": Network(128, (3, 224, 224), 1000, learns_within=None),
    "vit-tiny": Network(64, (3, 32, 32), 10, "adamw", weight_decay=0.05, learns_within=None),
    "minilm": Network(
        *(32, (128,), 2, "adamw", 5e-5),
        vocabulary=30522,
        weight_decay=0.01,
        padded=True,
        learns_within=None,
    ),
    "nanogpt": Network(
        *(12, (64,), 65, "adamw"),
        vocabulary=65,
        beta2=0.99,
        weight_decay=0.1,
        clip_norm=1.0,
        next_token=True,
    ),
}

# Channels of the convolutions of AlexNet and its kind; `POOL` is a max pool.
POOL = 0
VGG_A = (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL)

# Stages of the two ResNets: blocks and channels.
RESNET56 = ((9, 16), (9, 32), (9, 64))
RESNET50 = ((3, 64), (4, 128), (6, 256), (3, 512))


@dataclass(frozen=True)
class Transformer:
    """Sizes of its layers: their number, the width of a token, heads, the width inside an MLP."""

    layers: int
    width: int
    heads: int
    hidden: int
    epsilon: float  # of layer norm


VIT_TINY = Transformer(12, 192, 3, 768, 1e-6)
PATCH = 4  # pixels of a side
MINILM = Transformer(6, 384, 12, 1536, 1e-12)
LONGEST, TOKEN_TYPES = 512, 2  # rows of MiniLM's other embeddings
NANOGPT = Transformer(4, 128, 4, 512, 1e-5)


@dataclass(frozen=True)
class Inception:
    """Channels of its branches: 1x1; 1x1 and 3x3; 1x1 and 5x5; 1x1 after the pool."""

    ones: int
    before_threes: int
    threes: int
    before_fives: int
    fives: int
    pooled: int


# GoogLeNet's inceptions; None is a max pool between them.
GOOGLENET = (
    Inception(64, 96, 128, 16, 32, 32),
    Inception(128, 128, 192, 32, 96, 64),
    None,
    Inception(192, 96, 208, 16, 48, 64),
    Inception(160, 112, 224, 24, 64, 64),
    Inception(128, 128, 256, 24, 64, 64),
    Inception(112, 144, 288, 32, 64, 64),
    Inception(256, 160, 320, 32, 128, 128),
    None,
    Inception(256, 160, 320, 32, 128, 128),
    Inception(384, 192, 384, 48, 128, 128),
)
