// The LSTM without a vendor's library: products over all steps at once if possible, and between them all steps in one launch
// (lstm_steps.hpp) or one product and one kernel of the gates for each. The host runs it in the tests; a GPU runs it if that is
// faster than cuDNN, or if cuDNN has no LSTM for a type.
// Also the order of the parameters in cuDNN's single buffer, which is known only at run time.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "backends/cuda/device.hpp"

namespace assay::cuda {

// Borrows the device for its products and its stream. The name of how it runs stands between both parts of its name.
std::unique_ptr<Lstm> make_own_lstm(const LstmSpec& spec, Device& device, std::string name = "own:lstm",
                                    std::string suffix = {});

// Where each gate's rows begin in a packed buffer, in elements: the matrices for x, the matrices for the
// state, and the biases.
struct LstmPacking {
  std::int64_t units = 0, features = 0;
  std::array<std::int64_t, 4> weight{}, recurrent{}, bias{};
  std::int64_t parameters() const { return 4 * units * (features + units + 1); }
};

// Throws std::runtime_error if a part is not within the buffer's `elements`, or two parts overlap.
void check_packing(const LstmPacking& packing, std::int64_t elements);

// Packs all parameters, weights of `from_type` and the bias of f32, into `packed` of `to_type`.
void pack_lstm(Stream stream, DType from_type, DType to_type, const LstmPacking& packing,
               const LstmOperands& from, void* packed);
// Unpacks gradients, as f32.
void unpack_lstm(Stream stream, DType dtype, const LstmPacking& packing, const void* packed,
                 const LstmGradients& to);

// (outer, inner, row) -> (inner, outer, row), with numbers of one type or another.
void swap_outer(Stream stream, DType from_type, DType to_type, const void* from, void* to, std::int64_t outer,
                std::int64_t inner, std::int64_t row);

}  // namespace assay::cuda
