"""The networks as PyTorch's tutorials, torchvision and, where they are installed, transformers write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from networks import (
    GOOGLENET,
    LONGEST,
    MINILM,
    NANOGPT,
    PATCH,
    POOL,
    RESNET50,
    RESNET56,
    TOKEN_TYPES,
    VGG_A,
    VIT_TINY,
    Inception,
    Network,
)
from torch import Tensor, nn

try:
    from transformers import BertConfig, BertModel
except ImportError:
    BertModel = None


def mlp(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, classes))


class LeNet5(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 3)
        self.pool = nn.AvgPool2d(2)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def cnn(classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 32, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 24 * 24, classes)),
    )


class BasicBlock(nn.Module):
    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        stride = 1 if before == channels else 2
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1)
        self.bn2 = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Identity() if stride == 1 else nn.Conv2d(before, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return self.relu(y)


def resnet56(classes: int) -> nn.Module:
    before = 16
    layers: list[nn.Module] = [nn.Conv2d(3, before, 3, 1, 1)]
    layers += [nn.BatchNorm2d(before, eps=1e-3, momentum=0.01), nn.ReLU(inplace=True)]
    for blocks, channels in RESNET56:
        for _ in range(blocks):
            layers.append(BasicBlock(before, channels))
            before = channels
    return nn.Sequential(*layers, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(before, classes))


class Bottleneck(nn.Module):
    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        after = 4 * channels
        self.conv1 = nn.Conv2d(before, channels, 1, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if before != after:
            shortcut = nn.Conv2d(before, after, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return self.relu(y)


def resnet50(classes: int) -> nn.Module:
    before = 64
    layers: list[nn.Module] = [nn.Conv2d(3, before, 7, 2, 3, bias=False), nn.BatchNorm2d(before)]
    layers += [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for stage, (blocks, channels) in enumerate(RESNET50):
        for i in range(blocks):
            layers.append(Bottleneck(before, channels, 2 if stage and i == 0 else 1))
            before = 4 * channels
    return nn.Sequential(*layers, nn.AvgPool2d(7), nn.Flatten(), nn.Linear(before, classes))


class TextClassifier(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5000, 128)
        self.lstm = nn.LSTM(128, 128, batch_first=True)
        # PyTorch has two biases that are only added; the published network has one.
        nn.init.zeros_(self.lstm.bias_hh_l0).requires_grad_(False)
        self.fc = nn.Linear(128, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.fc(outputs[:, -1])


def cifar10_cnn(classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Flatten(), nn.Linear(64 * 6 * 6, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, classes)),
    )


def alexnet(classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Flatten(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True)),
        *(nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, classes)),
    )


def overfeat(classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 96, 11, 4), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(96, 256, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(256, 512, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(512, 1024, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(1024, 1024, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024 * 6 * 6, 3072), nn.ReLU(inplace=True)),
        *(nn.Linear(3072, 4096), nn.ReLU(inplace=True), nn.Linear(4096, classes)),
    )


def vgg_a(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for channels in VGG_A:
        if channels == POOL:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
            before = channels
    return nn.Sequential(
        *layers,
        *(nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True)),
        *(nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, classes)),
    )


def convolved(before: int, channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, channels, kernel, stride, kernel // 2), nn.ReLU(inplace=True))


class InceptionBlock(nn.Module):
    def __init__(self, before: int, of: Inception) -> None:
        super().__init__()
        self.branch1 = convolved(before, of.ones, 1)
        self.branch2 = nn.Sequential(
            convolved(before, of.before_threes, 1), convolved(of.before_threes, of.threes, 3)
        )
        self.branch3 = nn.Sequential(
            convolved(before, of.before_fives, 1), convolved(of.before_fives, of.fives, 5)
        )
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), convolved(before, of.pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


def googlenet(classes: int) -> nn.Module:
    layers: list[nn.Module] = [convolved(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    layers += [convolved(64, 64, 1), convolved(64, 192, 3), nn.MaxPool2d(3, 2, 1)]
    before = 192
    for block in GOOGLENET:
        if block is None:
            layers.append(nn.MaxPool2d(3, 2, 1))
        else:
            layers.append(InceptionBlock(before, block))
            before = block.ones + block.threes + block.fives + block.pooled
    return nn.Sequential(*layers, nn.AvgPool2d(7), nn.Flatten(), nn.Linear(before, classes), nn.ReLU())


class EncoderBlock(nn.Module):
    """As in torchvision's VisionTransformer."""

    def __init__(self) -> None:
        super().__init__()
        width, epsilon = VIT_TINY.width, VIT_TINY.epsilon
        self.ln_1 = nn.LayerNorm(width, epsilon)
        self.self_attention = nn.MultiheadAttention(width, VIT_TINY.heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, epsilon)
        self.mlp = nn.Sequential(
            nn.Linear(width, VIT_TINY.hidden), nn.GELU(), nn.Linear(VIT_TINY.hidden, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        width = VIT_TINY.width
        self.conv_proj = nn.Conv2d(3, width, PATCH, PATCH)
        self.pos_embedding = nn.Parameter(torch.empty(1, (32 // PATCH) ** 2, width).normal_(std=0.02))
        self.layers = nn.Sequential(*(EncoderBlock() for _ in range(VIT_TINY.layers)))
        self.ln = nn.LayerNorm(width, VIT_TINY.epsilon)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = self.ln(self.layers(x + self.pos_embedding))
        return self.head(x.mean(1))


class BertLayer(nn.Module):
    """As in the BertModel of Hugging Face, with its attention by scaled_dot_product_attention."""

    def __init__(self) -> None:
        super().__init__()
        width = MINILM.width
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, MINILM.epsilon)
        self.intermediate = nn.Linear(width, MINILM.hidden)
        self.output = nn.Linear(MINILM.hidden, width)
        self.output_norm = nn.LayerNorm(width, MINILM.epsilon)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, MINILM.heads, width // MINILM.heads)
        q, k, v = (layer(x).view(split).transpose(1, 2) for layer in (self.query, self.key, self.value))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        context = context.transpose(1, 2).reshape(batch, length, width)
        x = self.attention_norm(x + self.attention_output(context))
        return self.output_norm(x + self.output(F.gelu(self.intermediate(x))))


def mean_of_words(x: Tensor, words: Tensor) -> Tensor:
    """The mean pooling of sentence-transformers."""
    weights = words.unsqueeze(-1).float()
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


class PublishedMiniLM(nn.Module):
    """The BertModel of transformers, with its own choice of attention."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=30522,
            hidden_size=MINILM.width,
            num_hidden_layers=MINILM.layers,
            num_attention_heads=MINILM.heads,
            intermediate_size=MINILM.hidden,
            max_position_embeddings=LONGEST,
            type_vocab_size=TOKEN_TYPES,
            layer_norm_eps=MINILM.epsilon,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        self.classifier = nn.Linear(MINILM.width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        words = tokens != 0
        x = self.bert(input_ids=tokens, attention_mask=words.long()).last_hidden_state
        return self.classifier(mean_of_words(x, words))


class MiniLM(nn.Module):
    """The same by hand, for an environment without transformers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        width = MINILM.width
        self.word_embeddings = nn.Embedding(30522, width)
        self.position_embeddings = nn.Embedding(LONGEST, width)
        self.token_type_embeddings = nn.Embedding(TOKEN_TYPES, width)
        self.norm = nn.LayerNorm(width, MINILM.epsilon)
        self.layers = nn.ModuleList(BertLayer() for _ in range(MINILM.layers))
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        attended = tokens != 0
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.word_embeddings(tokens) + self.token_type_embeddings(torch.zeros_like(tokens))
        x = self.norm(x + self.position_embeddings(places))
        for layer in self.layers:
            x = layer(x, attended[:, None, None, :])
        return self.classifier(mean_of_words(x, attended))


class Block(nn.Module):
    """As in nanoGPT, but for the bias of its layer norms."""

    def __init__(self) -> None:
        super().__init__()
        width, hidden = NANOGPT.width, NANOGPT.hidden
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden, bias=False), nn.GELU(), nn.Linear(hidden, width, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, NANOGPT.heads, width // NANOGPT.heads)
        q, k, v = (y.view(split).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(classes, NANOGPT.width)
        self.wpe = nn.Embedding(64, NANOGPT.width)
        self.h = nn.Sequential(*(Block() for _ in range(NANOGPT.layers)))
        self.ln_f = nn.LayerNorm(NANOGPT.width)
        self.lm_head = nn.Linear(NANOGPT.width, classes, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.lm_head(self.ln_f(self.h(x)))


MODELS = {
    "mlp": mlp,
    "lenet5": LeNet5,
    "cnn": cnn,
    "resnet56": resnet56,
    "lstm": TextClassifier,
    "cifar10-cnn": cifar10_cnn,
    "resnet50": resnet50,
    "alexnet": alexnet,
    "overfeat": overfeat,
    "vgg_a": vgg_a,
    "googlenet": googlenet,
    "vit-tiny": VisionTransformer,
    "minilm": MiniLM if BertModel is None else PublishedMiniLM,
    "nanogpt": NanoGPT,
}


def build(name: str, network: Network) -> nn.Module:
    return MODELS[name](network.classes)
