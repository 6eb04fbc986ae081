// Batch normalisation, by the vendor's library or by our own kernels; and the update of running statistics.
#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct Statistics {
  const float *mean, *inverse_std, *old_mean, *old_variance;
  float *new_mean, *new_variance;
  std::int64_t first = 0;  // channel, in the order of all norms

  // The new ones may share memory with the old ones.
  ASSAY_HD void update(std::int64_t c, float epsilon, float momentum) const {
    const float inverse = inverse_std[c];
    const float variance = fmaxf(1.0F / (inverse * inverse) - epsilon, 0.0F);
    new_mean[c] = momentum * old_mean[c] + (1.0F - momentum) * mean[c];
    new_variance[c] = momentum * old_variance[c] + (1.0F - momentum) * variance;
  }
};

struct UpdateOne {
  float epsilon, momentum;
  Statistics norm;
  ASSAY_HD void operator()(std::int64_t c) const { norm.update(c, epsilon, momentum); }
};

struct UpdateStatistics {
  float epsilon, momentum;
  TensorTable<Statistics> norms = {};
  ASSAY_HD void operator()(std::int64_t i) const {
    const Statistics& norm = norms.at(i);
    norm.update(i - norm.first, epsilon, momentum);
  }
};

Lowered lower_running_statistics(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  std::vector<std::int64_t> channels;
  for (std::size_t i = 0; i < request.node.inputs.size(); i += 4)
    channels.push_back(request.inputs[i].elements());
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [stream, channels, epsilon = request.number("epsilon"),
       momentum = request.number("momentum")](const Operands& at) {
        UpdateStatistics all{epsilon, momentum};
        const auto launch = [&] { for_each(stream, all.norms.shares, all); };
        for (std::size_t g = 0; g < channels.size(); ++g)
          all.norms.add({at.in<float>(4 * g), at.in<float>(4 * g + 1), at.in<float>(4 * g + 2),
                         at.in<float>(4 * g + 3), at.out<float>(2 * g), at.out<float>(2 * g + 1)},
                        channels[g], launch);
        launch();
      },
      "own:multi_tensor");
  return lowered;
}

NormSpec spec_of(const Request& request, Layout layout, NormSpec::Kind kind) {
  const Shape& x = request.in(0);
  NormSpec spec;
  spec.kind = kind;
  spec.n = x[0];
  spec.c = x[1];
  spec.h = x[2];
  spec.w = x[3];
  spec.channels_last = layout == Layout::channels_last;
  spec.operands = request.inputs[0].dtype;
  return spec;
}

// A library's kernel may read its operands again after it wrote a part of its results, and never runs next to another that
// waits for all of its threads, as in lstm.cu.
void settle(const Request& request, const Norm& norm, Lowered& lowered) {
  if (norm.is_own()) return;
  const Shape& image = request.in(0);
  std::erase_if(lowered.in_place, [&](const InPlace& pair) {
    return request.out(static_cast<std::size_t>(pair.output)) == image;
  });
  lowered.alone = &request.context.device;
}

Lowered lower_batch_norm(const Request& request) {
  constexpr std::size_t new_mean = 3, new_variance = 4, residual = 5, mask = 5;
  const Layout layout = request.follow({0, residual});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const bool training = request.node.attributes.get<bool>("training");
  NormSpec spec = spec_of(request, layout, training ? NormSpec::Kind::forward : NormSpec::Kind::inference);
  spec.added = request.has_input(residual);
  spec.relu = request.relu();
  spec.mask = request.has_output(mask);
  spec.epsilon = request.number("epsilon");
  const std::shared_ptr<Norm> norm = request.context.device.norm(spec);
  settle(request, *norm, lowered);
  if (spec.mask) lowered.outputs[mask] = opaque_format(spec.mask_bytes(), layout);
  Scratch scratch;
  const std::int64_t workspace = scratch.add(norm->workspace_bytes());
  const std::int64_t of_channel = spec.c * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t own_mean = scratch.add(training && !request.has_output(1) ? of_channel : 0);
  const std::int64_t own_inverse = scratch.add(training && !request.has_output(2) ? of_channel : 0);
  const bool updates = request.has_output(new_mean) || request.has_output(new_variance);
  const std::int64_t other =
      scratch.add(updates ? of_channel : 0);  // of a running statistic that nobody wants
  lowered.scratch_bytes = scratch.bytes();
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, channels = spec.c, momentum = request.number("momentum")](const Operands& at) {
        const auto result = [&](std::size_t o, std::int64_t otherwise) {
          return at.out<float>(o) != nullptr ? at.out<float>(o) : at.scratch_at<float>(otherwise);
        };
        NormOperands operands;
        operands.x = at.inputs[0];
        operands.weight = at.in<float>(1);
        operands.bias = at.in<float>(2);
        operands.running_mean = at.in<float>(3);
        operands.running_variance = at.in<float>(4);
        operands.added = at.in<std::byte>(residual);
        operands.y = at.outputs[0];
        operands.mask = at.out<std::uint8_t>(mask);
        if (training) {
          operands.mean = result(1, own_mean);
          operands.inverse_std = result(2, own_inverse);
        }
        norm->run(operands, at.scratch_at<std::byte>(workspace));
        if (!updates) return;
        for_each(stream, channels,
                 UpdateOne{spec.epsilon, momentum,
                           Statistics{operands.mean, operands.inverse_std, operands.running_mean,
                                      operands.running_variance, result(new_mean, other),
                                      result(new_variance, other)}});
      },
      norm->name());
  return lowered;
}

Lowered lower_batch_norm_gradient(const Request& request) {
  constexpr std::size_t dy = 4, bias = 5, activated = 6, addend = 7, mask = 8, dy_total = 3;
  using Gate = NormSpec::Gate;
  // The bits of a mask are in the order of the memory that the forward pass wrote.
  const Layout layout =
      request.has_input(mask) ? layout_of(request.offer.inputs[mask]) : request.follow({0, dy});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  if (request.has_input(mask)) lowered.inputs[mask] = request.offer.inputs[mask];
  NormSpec spec = spec_of(request, layout, NormSpec::Kind::gradient);
  spec.added = request.has_input(addend);
  spec.gate = request.has_input(mask)        ? Gate::mask
              : request.has_input(activated) ? Gate::activated
              : request.has_input(bias)      ? Gate::recomputed
                                             : Gate::none;
  spec.total = request.has_output(dy_total);
  const std::shared_ptr<Norm> norm = request.context.device.norm(spec);
  settle(request, *norm, lowered);
  lowered.scratch_bytes = norm->workspace_bytes();
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        NormOperands operands;
        operands.x = at.inputs[0];
        operands.weight = at.in<float>(1);
        operands.mean = static_cast<float*>(at.inputs[2]);
        operands.inverse_std = static_cast<float*>(at.inputs[3]);
        operands.dy = at.inputs[dy];
        operands.bias = at.in<float>(bias);
        operands.activated = at.in<std::byte>(activated);
        operands.added = at.in<std::byte>(addend);
        if (spec.gate == Gate::mask) operands.mask = static_cast<std::uint8_t*>(at.inputs[mask]);
        operands.dx = at.outputs[0];
        operands.dweight = at.out<float>(1);
        operands.dbias = at.out<float>(2);
        operands.dy_total = at.out<std::byte>(dy_total);
        norm->run(operands, at.scratch);
      },
      norm->name());
  return lowered;
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{OpEntry{"batch_norm", lower_batch_norm},
                                      OpEntry{"batch_norm_gradient", lower_batch_norm_gradient},
                                      OpEntry{"running_statistics", lower_running_statistics}};
  return entries;
}

}  // namespace assay::cuda
