"""The networks as PyTorch's tutorials and torchvision write them."""

from __future__ import annotations

import torch
from networks import GOOGLENET, POOL, RESNET50, RESNET56, VGG_A, Inception, Network
from torch import Tensor, nn


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
}


def build(name: str, network: Network) -> nn.Module:
    return MODELS[name](network.classes)
