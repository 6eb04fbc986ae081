// The loops of the LSTM: compiled once per instruction set like those of loops.hpp, single-threaded. A caller
// computes all steps of some samples; callers share only the packed weights.
#pragma once

#include <cstdint>

namespace assay::onednn {

// The sizes of a layer and how its parts are padded. Units are in groups of `lanes`. The four gates of a
// group are next to each other, [i, f, g, o] with `lanes` each: a "gate row" is all groups of one sample and
// step. Columns of the products are in panels of 4 lanes.
struct LstmShape {
  std::int64_t samples, steps, features, units;
  bool last;
  bool narrow;  // x, dy, y and dx are bf16; so are h and the gates' gradients as operands of products

  std::int64_t lanes;  // of the instruction set
  std::int64_t pair;   // numbers of a product's operand in the space of a float: 1, or 2 of bf16
  std::int64_t group_units() const { return (units + lanes - 1) / lanes * lanes; }
  std::int64_t gates() const { return 4 * group_units(); }  // floats of a gate row
  std::int64_t panel() const { return 4 * lanes; }
  std::int64_t padded(std::int64_t columns) const { return (columns + panel() - 1) / panel() * panel(); }
};

// Values that a training pass keeps for its gradient: gates after sigmoid or tanh (T, N, gates), then c and h
// (T + 1, N, group_units), slot t + 1 for step t and slot 0 for zeros. Without a reserve, c and h rotate
// through a few slots and the gates are not stored.
struct LstmReserve {
  float *gates, *c, *h;  // gates may be null; h is an operand: pairs
  std::int64_t c_slots, h_slots;
};

struct LstmForward {
  LstmShape shape;
  const float *x_weight, *h_weight, *bias;  // packed by pack_forward
  const void* x;                            // (N, T, I)
  void* y;
  LstmReserve reserve;
};

struct LstmBackward {
  LstmShape shape;
  const float *x_weight, *h_weight;  // packed by pack_backward
  const void *x, *dy;
  LstmReserve reserve;
  void* dx;                              // may be null
  float *dx_weight, *dh_weight, *dbias;  // sums over the caller's samples: (gates, padded(I)), (gates,
                                         // padded(H)), (gates); set to zero by the caller
};

struct LstmLoops {
  std::int64_t lanes, pair;  // with pairs of bf16, only for shapes that are narrow
  // Number of floats of scratch for one caller.
  std::int64_t (*forward_scratch)(const LstmShape&);
  std::int64_t (*backward_scratch)(const LstmShape&);
  // A weight (4H, columns) of the contract, bf16 where `narrow`, into panels (gates / panel, columns, panel),
  // groups [begin, end) of units. A bias is one column.
  void (*pack_forward)(const LstmShape&, const void* weight, bool narrow, std::int64_t columns,
                       std::int64_t begin, std::int64_t end, float* packed);
  // The same into (padded(columns) / panel, gates, panel), panels [begin, end).
  void (*pack_backward)(const LstmShape&, const void* weight, bool narrow, std::int64_t columns,
                        std::int64_t begin, std::int64_t end, float* packed);
  void (*forward)(const LstmForward&, std::int64_t begin, std::int64_t end, float* scratch);
  void (*backward)(const LstmBackward&, std::int64_t begin, std::int64_t end, float* scratch);
};

const LstmLoops& lstm_loops(bool narrow);

extern const LstmLoops lstm_x86_64;
extern const LstmLoops lstm_avx2;
extern const LstmLoops lstm_avx512;
extern const LstmLoops lstm_avx512_bf16;

}  // namespace assay::onednn
