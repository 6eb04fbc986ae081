// The loops of attention: compiled once per instruction set like those of loops.hpp, single-threaded. The
// scores exist only in blocks of queries and keys that stay in the cache (Dao, FlashAttention-2, 2023): the
// forward pass keeps the largest score and the sum of each row while it goes over the keys, and the backward
// pass computes the probabilities again from logsumexp.
#pragma once

#include <cstdint>

namespace assay::onednn {

// q, y and their gradients are (N, S, H, D), k, v and theirs (N, T, G, D): floats, or bf16 in the loops with
// pairs. Head h reads the keys and values of group h / (H / G).
struct AttentionShape {
  std::int64_t samples, queries, keys, heads, groups, depth;  // N, S, T, H, G, D
  bool causal;                                                // query i sees the keys j <= i + T - S
  float scale;
  // Floats between the mask's samples, heads and queries; 0 where it has only one. Its keys are next to each
  // other.
  std::int64_t mask_sample, mask_head, mask_query;
};

struct AttentionForward {
  AttentionShape shape;
  const void *q, *k, *v;
  const float* mask;  // may be null
  void* y;
  float* logsumexp;  // (N, H, S); may be null
};

struct AttentionBackward {
  AttentionShape shape;
  const void *q, *k, *v;
  const float* mask;  // may be null
  const void* y;
  const float* logsumexp;
  const void* dy;
  void *dq, *dk, *dv;
};

struct AttentionLoops {
  std::int64_t pair;  // 2: the tensors are bf16
  // Number of floats of scratch for one caller.
  std::int64_t (*forward_scratch)(const AttentionShape&);
  std::int64_t (*backward_scratch)(const AttentionShape&);
  // A task of the forward pass is a block of queries of one head, sample by sample and head by head.
  std::int64_t (*forward_tasks)(const AttentionShape&);
  void (*forward)(const AttentionForward&, std::int64_t begin, std::int64_t end, float* scratch);
  // A task of the backward pass is a group of a sample, with all its heads: task i is group i % G.
  void (*backward)(const AttentionBackward&, std::int64_t begin, std::int64_t end, float* scratch);
};

// `narrow`: for bf16.
const AttentionLoops& attention_loops(bool narrow);

extern const AttentionLoops attention_x86_64;
extern const AttentionLoops attention_avx2;
extern const AttentionLoops attention_avx512;
extern const AttentionLoops attention_x86_64_bf16;  // the products in floats
extern const AttentionLoops attention_avx512_bf16;

}  // namespace assay::onednn
