// LSTM over whole sequences, by the vendor's library or by our own kernels. The vendor's persistent kernels wait inside for
// all of their threads, for ever if those of another one have the device: so only one of them runs at a time.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

LstmSpec spec_of(const Request& request, bool training) {
  LstmSpec spec;
  spec.samples = request.in(0)[0];
  spec.steps = request.in(0)[1];
  spec.features = request.in(0)[2];
  spec.units = request.in(2)[1];
  spec.last = request.node.attributes.get<bool>("last");
  spec.training = training;
  spec.operands = request.inputs[0].dtype;
  spec.tf32 = request.context.tf32;
  spec.bare = request.context.bare;
  return spec;
}

LstmOperands operands_of(const Operands& at, const float* bias) {
  return {at.inputs[0], at.inputs[1], at.inputs[2], bias};
}

Lowered lower_lstm(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const bool keep = request.has_output(1);
  std::shared_ptr<Lstm> lstm = request.context.device.lstm(spec_of(request, keep));
  if (keep) lowered.outputs[1] = opaque_format(lstm->reserve_bytes(), Layout::plain);
  Scratch scratch;
  const std::int64_t workspace = scratch.add(lstm->forward_workspace_bytes());
  const std::int64_t own_reserve = scratch.add(keep ? 0 : lstm->reserve_bytes());
  lowered.scratch_bytes = scratch.bytes();
  if (!lstm->is_own()) lowered.alone = &request.context.device;
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        void* const reserve = keep ? at.outputs[1] : at.scratch_at<std::byte>(own_reserve);
        lstm->forward(operands_of(at, at.in<float>(3)), at.outputs[0], reserve,
                      at.scratch_at<std::byte>(workspace));
      },
      lstm->name());
  return lowered;
}

Lowered lower_lstm_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.inputs[3] = request.offer.inputs[3];
  std::shared_ptr<Lstm> lstm = request.context.device.lstm(spec_of(request, true));
  lowered.overwritten = {3};
  if (!lstm->is_own()) lowered.alone = &request.context.device;
  lowered.scratch_bytes = lstm->gradient_workspace_bytes();
  lowered.kernel = make_kernel(
      [lstm, dx = request.has_output(3)](const Operands& at) {
        lstm->gradient(operands_of(at, nullptr), at.inputs[4], at.inputs[3],
                       {dx ? at.outputs[3] : nullptr, at.out<float>(0), at.out<float>(1), at.out<float>(2)},
                       at.scratch);
      },
      lstm->name());
  return lowered;
}

}  // namespace

std::span<const OpEntry> lstm_ops() {
  static constexpr std::array entries{OpEntry{"lstm", lower_lstm},
                                      OpEntry{"lstm_gradient", lower_lstm_gradient}};
  return entries;
}

}  // namespace assay::cuda
