// The LSTM without a vendor's: the products over all steps at once where they can be, one product and one
// kernel of the gates a step where they cannot. What the host runs for the tests, and what a GPU runs where
// cuDNN has no LSTM for a type. And the order of the parameters in cuDNN's one buffer, which is only known
// where it is.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "backends/cuda/device.hpp"

namespace assay::cuda {

// Borrows the device, for its products and its stream.
std::unique_ptr<Lstm> make_own_lstm(const LstmSpec& spec, Device& device, std::string name = "own:lstm");

// Where each gate's rows begin in a packed buffer, in elements: the matrices that x is multiplied with, those
// of the state, and the biases.
struct LstmPacking {
  std::int64_t units = 0, features = 0;
  std::array<std::int64_t, 4> weight{}, recurrent{}, bias{};
  std::int64_t parameters() const { return 4 * units * (features + units + 1); }
};

// Everything into `packed`, of type `dtype`: the bias is narrowed.
void pack_lstm(Stream stream, DType dtype, const LstmPacking& packing, const LstmOperands& from,
               void* packed);
// And back, as f32: of gradients.
void unpack_lstm(Stream stream, DType dtype, const LstmPacking& packing, const void* packed,
                 const LstmGradients& to);

}  // namespace assay::cuda
