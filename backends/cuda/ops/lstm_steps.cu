// All steps of an LSTM in one launch. A block has eight samples, from the first step to the last, and needs nothing of another
// block; its recurrent weights are in registers, in the fragments of the products (persistent RNNs: Diamos et al. 2016). bf16
// weights and states, with gates, cells and sums in f32.
#include "backends/cuda/kernels/block.hpp"
#include "backends/cuda/lstm_steps.hpp"

namespace assay::cuda {
namespace {

constexpr int block_samples = 8;

// Off by about 1e-7, not relative to small results: in the sums of an LSTM far below the rounding of bf16.
ASSAY_HD inline float fast_sigmoid(float value) {
#if defined(__CUDA_ARCH__)
  return __fdividef(1.0F, 1.0F + __expf(-value));
#else
  return sigmoid(value);
#endif
}
ASSAY_HD inline float fast_tanh(float value) { return 2 * fast_sigmoid(2 * value) - 1; }

// Two neighbours as a product reads them; the first is at a multiple of four bytes.
ASSAY_HD inline std::uint32_t load_pair(const Bf16* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const std::uint32_t*>(from);
#else
  return pair_of(from[0], from[1]);
#endif
}

struct LaneOf {
  int warp, group, pair;
  ASSAY_HD explicit LaneOf(int thread)
      : warp(thread / warp_threads), group(thread % warp_threads / 4), pair(thread % warp_threads % 4 * 2) {}
};

// Each warp has two products of 16 rows: the four gates of four units each, so that two threads of a warp have all four gates of a
// unit of two samples between them.
template <int units>
struct ForwardSteps {
  static constexpr int threads = units * 4, parts = units / 16;
  struct alignas(16) Shared {
    Bf16 h[2][block_samples]
          [units + 8];  // of the step before and of this one; the gap keeps rows in other banks
  };
  struct Registers {
    MatrixA weight[2][parts];
    MatrixD sum[2];
    float bias[2][4], next[2][4], cell[2], given[2];
  };

  LstmSteps s;
  const Bf16* recurrent;
  const float* bias;
  float *gates, *cells;
  Bf16 *h_before, *y;

  struct Place {
    int unit[2];       // of both products
    int sample;        // in the block, of the cells of this thread
    std::int64_t row;  // its first step
    bool is_there;
  };
  ASSAY_TEAM Place place_of(int thread, std::int64_t which) const {
    const LaneOf lane(thread);
    Place place;
    for (int t = 0; t < 2; ++t) place.unit[t] = (lane.warp * 2 + t) * 4 + lane.group % 4;
    place.sample = lane.pair + (lane.group >= 4 ? 1 : 0);
    const std::int64_t sample = which * block_samples + place.sample;
    place.is_there = sample < s.samples;
    place.row = sample * s.steps;
    return place;
  }

  ASSAY_TEAM void load_next(const Place& at, Registers& r, std::int64_t step) const {
    for (int t = 0; t < 2; ++t)
      for (int g = 0; g < 4; ++g)
        r.next[t][g] = at.is_there ? gates[(at.row + step) * 4 * units + g * units + at.unit[t]] : 0.0F;
  }

  template <typename Threads>
  ASSAY_TEAM void operator()(Threads&& block, Shared& shared, std::int64_t which) const {
    block.each([&](int thread, Registers& r) {
      const LaneOf lane(thread);
      const Place at = place_of(thread, which);
      ASSAY_UNROLL
      for (int t = 0; t < 2; ++t) {
        // Rows 0 to 3 of a product are the input gates of its units, then forget, candidate and output.
        const Bf16* const low = recurrent + (lane.group / 4 * units + at.unit[t]) * units + lane.pair;
        const Bf16* const high = low + 2 * units * units;
        ASSAY_UNROLL
        for (int k = 0; k < parts; ++k)
          r.weight[t][k] = {{load_pair(low + k * 16), load_pair(high + k * 16), load_pair(low + k * 16 + 8),
                             load_pair(high + k * 16 + 8)}};
        r.cell[t] = 0;
        for (int g = 0; g < 4; ++g) r.bias[t][g] = bias[g * units + at.unit[t]];
      }
      for (int i = thread; i < block_samples * (units + 8); i += threads) (&shared.h[0][0][0])[i] = Bf16{0};
      load_next(at, r, 0);
    });
    block.wait();
    for (std::int64_t step = 0; step < s.steps; ++step) {
      const auto& before = shared.h[step % 2];
      auto& after = shared.h[(step + 1) % 2];
      block.each([&](int, Registers& r) { r.sum[0] = r.sum[1] = {{0, 0, 0, 0}}; });
      ASSAY_UNROLL
      for (int k = 0; k < parts; ++k) {
        ASSAY_UNROLL
        for (int t = 0; t < 2; ++t) {
          block.multiply([&](Registers& r) -> MatrixA& { return r.weight[t][k]; },
                         [&](int thread) -> MatrixB {
                           const LaneOf lane(thread);
                           const Bf16* const from = &before[lane.group][k * 16 + lane.pair];
                           return {{load_pair(from), load_pair(from + 8)}};
                         },
                         [&](Registers& r) -> MatrixD& { return r.sum[t]; });
        }
      }
      ASSAY_UNROLL
      for (int t = 0; t < 2; ++t) {
        // The lower groups have input and candidate, the upper ones forget and output, each of two samples: they exchange one sample.
        block.each([&](int thread, Registers& r) {
          const bool low = LaneOf(thread).group < 4;
          r.given[0] = low ? r.sum[t].of[1] : r.sum[t].of[0];
          r.given[1] = low ? r.sum[t].of[3] : r.sum[t].of[2];
        });
        block.exchange(16, [](Registers& r) -> float& { return r.given[0]; });
        block.exchange(16, [](Registers& r) -> float& { return r.given[1]; });
        block.each([&](int thread, Registers& r) {
          const bool low = LaneOf(thread).group < 4;
          const Place at = place_of(thread, which);
          const float kept[] = {low ? r.sum[t].of[0] : r.sum[t].of[1], low ? r.sum[t].of[2] : r.sum[t].of[3]};
          const auto before_curve = [&](int gate, float sum) {
            return sum + r.next[t][gate] + r.bias[t][gate];
          };
          const float input = fast_sigmoid(before_curve(0, low ? kept[0] : r.given[0]));
          const float forget = fast_sigmoid(before_curve(1, low ? r.given[0] : kept[0]));
          const float candidate = fast_tanh(before_curve(2, low ? kept[1] : r.given[1]));
          const float output = fast_sigmoid(before_curve(3, low ? r.given[1] : kept[1]));
          r.cell[t] = input * candidate + forget * r.cell[t];
          const Bf16 h = narrow<Bf16>(output * fast_tanh(r.cell[t]));
          const int unit = at.unit[t];
          after[at.sample][unit] = h;
          if (!at.is_there) return;
          const std::int64_t place = at.row + step;
          float* const gate = gates + place * 4 * units + unit;
          gate[0] = input;
          gate[units] = forget;
          gate[2 * units] = candidate;
          gate[3 * units] = output;
          cells[place * units + unit] = r.cell[t];
          if (step == 0) h_before[place * units + unit] = Bf16{0};
          if (step + 1 < s.steps) h_before[(place + 1) * units + unit] = h;
          if (!s.last) y[place * units + unit] = h;
          if (s.last && step + 1 == s.steps) y[at.row / s.steps * units + unit] = h;
        });
      }
      block.each([&](int thread, Registers& r) {
        if (step + 1 < s.steps) load_next(place_of(thread, which), r, step + 1);
      });
      block.wait();
    }
  }
};

// The gradients of the gates. dh of the step before is the transposed weights times those of this step: each warp has 16 units, and
// one half of the gates.
template <int units>
struct BackwardSteps {
  static constexpr int threads = units * 4, tiles = units / 16, parts = units / 8;
  struct alignas(16) Shared {
    Bf16 dgates[block_samples][4 * units + 8];
    float dh[tiles][16][block_samples];
  };
  struct Kept {  // what a step reads, of both samples
    float gate[2][4], cell[2], cell_before[2], dy[2];
  };
  struct Registers {
    MatrixA weight[parts];
    MatrixD sum[2];
    Kept next;
    float dh[2], dc[2];
  };

  LstmSteps s;
  const Bf16* recurrent;
  const float *gates, *cells;
  const Bf16* dy;
  Bf16* dgates;

  // The cells of a thread: one unit of two samples.
  static ASSAY_TEAM int unit_of(int thread) { return thread / 4; }
  static ASSAY_TEAM int sample_of(int thread, int which) { return thread % 4 * 2 + which; }

  ASSAY_TEAM void load_next(int thread, Registers& r, std::int64_t block, std::int64_t step) const {
    const int u = unit_of(thread);
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int64_t sample = block * block_samples + sample_of(thread, i);
      const bool is_there = sample < s.samples;
      const std::int64_t place = sample * s.steps + step;
      for (int g = 0; g < 4; ++g)
        r.next.gate[i][g] = is_there ? gates[place * 4 * units + g * units + u] : 0.0F;
      r.next.cell[i] = is_there ? cells[place * units + u] : 0.0F;
      r.next.cell_before[i] = is_there && step > 0 ? cells[(place - 1) * units + u] : 0.0F;
      r.next.dy[i] = 0;
      if (is_there && !s.last) r.next.dy[i] = widen(dy[place * units + u]);
      if (is_there && s.last && step + 1 == s.steps) r.next.dy[i] = widen(dy[sample * units + u]);
    }
  }

  template <typename Threads>
  ASSAY_TEAM void operator()(Threads&& block, Shared& shared, std::int64_t which) const {
    block.each([&](int thread, Registers& r) {
      const LaneOf lane(thread);
      const int tile = lane.warp % tiles, half = lane.warp / tiles;
      // Transposed: element (unit, gate) is at (gate, unit).
      const auto pair_at = [&](int row, int column) {
        const Bf16* const from = recurrent + column * units + tile * 16 + row;
        return pair_of(from[0], from[units]);
      };
      ASSAY_UNROLL
      for (int k = 0; k < parts; ++k) {
        const int column = half * 2 * units + k * 16 + lane.pair;
        r.weight[k] = {{pair_at(lane.group, column), pair_at(lane.group + 8, column),
                        pair_at(lane.group, column + 8), pair_at(lane.group + 8, column + 8)}};
      }
      r.dh[0] = r.dh[1] = r.dc[0] = r.dc[1] = 0;
      load_next(thread, r, which, s.steps - 1);
    });
    for (std::int64_t step = s.steps; step-- > 0;) {
      block.each([&](int thread, Registers& r) {
        const int u = unit_of(thread);
        ASSAY_UNROLL
        for (int i = 0; i < 2; ++i) {
          const float* const gate = r.next.gate[i];
          const float through_h = r.dh[i] + r.next.dy[i], squashed = fast_tanh(r.next.cell[i]);
          const float through_c = r.dc[i] + through_h * gate[3] * (1 - squashed * squashed);
          const Bf16 d[] = {narrow<Bf16>(through_c * gate[2] * gate[0] * (1 - gate[0])),
                            narrow<Bf16>(through_c * r.next.cell_before[i] * gate[1] * (1 - gate[1])),
                            narrow<Bf16>(through_c * gate[0] * (1 - gate[2] * gate[2])),
                            narrow<Bf16>(through_h * squashed * gate[3] * (1 - gate[3]))};
          const int in_block = sample_of(thread, i);
          const std::int64_t sample = which * block_samples + in_block;
          ASSAY_UNROLL
          for (int g = 0; g < 4; ++g) {
            shared.dgates[in_block][g * units + u] = d[g];
            if (sample < s.samples) dgates[(sample * s.steps + step) * 4 * units + g * units + u] = d[g];
          }
          r.dc[i] = through_c * gate[1];
        }
        if (step > 0) load_next(thread, r, which, step - 1);
        r.sum[0] = r.sum[1] = {{0, 0, 0, 0}};
      });
      if (step == 0) break;
      block.wait();
      ASSAY_UNROLL
      for (int k = 0; k < parts; ++k) {
        block.multiply([&](Registers& r) -> MatrixA& { return r.weight[k]; },
                       [&](int thread) -> MatrixB {
                         const LaneOf lane(thread);
                         const int half = lane.warp / tiles;
                         const Bf16* const from =
                             &shared.dgates[lane.group][half * 2 * units + k * 16 + lane.pair];
                         return {{load_pair(from), load_pair(from + 8)}};
                       },
                       [&](Registers& r) -> MatrixD& { return r.sum[k % 2]; });
      }
      // The halves are added in one order.
      for (int half = 1; half >= 0; --half) {
        block.each([&](int thread, Registers& r) {
          const LaneOf lane(thread);
          if (lane.warp / tiles != half) return;
          auto& dh = shared.dh[lane.warp % tiles];
          ASSAY_UNROLL
          for (int place = 0; place < 4; ++place) {
            float& sum = dh[lane.group + place / 2 * 8][lane.pair + place % 2];
            const float mine = r.sum[0].of[place] + r.sum[1].of[place];
            sum = half == 1 ? mine : sum + mine;
          }
        });
        block.wait();
      }
      block.each([&](int thread, Registers& r) {
        const int u = unit_of(thread);
        ASSAY_UNROLL
        for (int i = 0; i < 2; ++i) r.dh[i] = shared.dh[u / 16][u % 16][sample_of(thread, i)];
      });
    }
  }
};

template <int units>
void forward(Stream stream, const LstmSteps& steps, const Bf16* recurrent, const float* bias, float* gates,
             float* cells, Bf16* h_before, Bf16* y) {
  for_each_block(stream, ceil_div(steps.samples, block_samples),
                 ForwardSteps<units>{steps, recurrent, bias, gates, cells, h_before, y});
}
template <int units>
void backward(Stream stream, const LstmSteps& steps, const Bf16* recurrent, const float* gates,
              const float* cells, const Bf16* dy, Bf16* dgates) {
  for_each_block(stream, ceil_div(steps.samples, block_samples),
                 BackwardSteps<units>{steps, recurrent, gates, cells, dy, dgates});
}

}  // namespace

bool has_lstm_steps(const LstmSpec& spec) {
  return spec.operands == DType::bf16 && (spec.units == 64 || spec.units == 128);
}

void lstm_steps(Stream stream, const LstmSteps& steps, const Bf16* recurrent, const float* bias, float* gates,
                float* cells, Bf16* h_before, Bf16* y) {
  (steps.units == 64 ? forward<64> : forward<128>)(stream, steps, recurrent, bias, gates, cells, h_before, y);
}

void lstm_steps_gradient(Stream stream, const LstmSteps& steps, const Bf16* recurrent, const float* gates,
                         const float* cells, const Bf16* dy, Bf16* dgates) {
  (steps.units == 64 ? backward<64> : backward<128>)(stream, steps, recurrent, gates, cells, dy, dgates);
}

}  // namespace assay::cuda
