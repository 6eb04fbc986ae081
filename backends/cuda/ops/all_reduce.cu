// The means of gradients over the ranks. A bucket has its gradients one after the other, each in its own layout.
#include "backends/cuda/bucket_exchange.hpp"
#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct ReducedTensor {
  const float* from;
  float* to;
  std::int64_t elements;
  std::int64_t first = 0;  // part, in the order of all tensors
};

struct CopyScaled {
  float share;
  TensorTable<ReducedTensor> tensors = {};
  ASSAY_TEAM void operator()(const Team& team, std::int64_t part) const {
    const ReducedTensor& tensor = tensors.at(part);
    const auto [first, end] = part_of(tensor, part);
    for (std::int64_t i = first + team.rank(); i < end; i += team.size())
      tensor.to[i] = tensor.from[i] * share;
  }
};

// Collects tensors for launches of CopyScaled.
class Copies {
 public:
  Copies(Stream stream, float share) : stream_(stream), launch_{share} {}

  void add(const float* from, float* to, std::int64_t elements) {
    launch_.tensors.add({from, to, elements}, ceil_div(elements, part_elements), [&] { flush(); });
  }
  void flush() { for_each_row(stream_, launch_.tensors.shares, part_elements, launch_); }

 private:
  Stream stream_;
  CopyScaled launch_;
};

Lowered lower_start(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  std::vector<std::int64_t> elements;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    lowered.inputs[i] = request.keep(i);
    elements.push_back(request.inputs[i].elements());
    all += elements.back();
  }
  lowered.outputs[0] = opaque_format(all * static_cast<std::int64_t>(sizeof(float)), Layout::plain);
  BucketExchange* const exchange = request.context.exchange;
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, counted = exchange != nullptr ? exchange->add(all) : nullptr](const Operands& at) {
        if (exchange != nullptr && !exchange->enabled()) return;
        float* const bucket = at.out<float>(0);
        float* to = bucket;
        Copies copies(stream, 1);
        for (std::size_t i = 0; i < elements.size(); ++i) {
          copies.add(at.in<float>(i), to, elements[i]);
          to += elements[i];
        }
        copies.flush();
        if (exchange != nullptr) exchange->ranks().start(bucket, all);
      },
      exchange != nullptr ? "nccl:all_reduce" : "own:copy");
  return lowered;
}

Lowered lower_wait(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  std::vector<std::int64_t> elements;
  for (std::size_t i = 0; i < request.node.outputs.size(); ++i) {
    lowered.inputs[1 + i] = lowered.outputs[i] = request.keep(1 + i);
    elements.push_back(request.inputs[1 + i].elements());
  }
  lowered.in_place = in_place(request.node);
  const BucketExchange* const exchange = request.context.exchange;
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        const bool own = exchange != nullptr && !exchange->enabled();
        const float* sum = at.in<float>(0);
        if (exchange != nullptr && !own) exchange->ranks().finish(sum);
        const int world = exchange != nullptr && !own ? exchange->ranks().world() : 1;
        Copies copies(stream, 1.0F / static_cast<float>(world));
        for (std::size_t i = 0; i < elements.size(); ++i) {
          const float* const from = own ? at.in<float>(1 + i) : sum;
          if (from != at.out<float>(i)) copies.add(from, at.out<float>(i), elements[i]);
          sum += elements[i];
        }
        copies.flush();
      },
      "own:copy");
  return lowered;
}

}  // namespace

std::span<const OpEntry> all_reduce_ops() {
  static constexpr std::array entries{OpEntry{"all_reduce_start", lower_start},
                                      OpEntry{"all_reduce_wait", lower_wait}};
  return entries;
}

}  // namespace assay::cuda
