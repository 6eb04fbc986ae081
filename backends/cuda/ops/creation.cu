// Constants and lists of numbers; flatten and reshape, which move nothing.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct FromList {
  const float* numbers;  // (N, 2): a tag and a value
  float* y;
  ASSAY_HD void operator()(std::int64_t i) const {
    const float value = numbers[2 * i + 1];
    y[i] = numbers[2 * i] == 0 ? static_cast<float>(static_cast<std::int64_t>(value)) : value;
  }
};

template <typename T>
struct Constant {
  float value;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<T>(value); }
};

Lowered lower_from_list(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [stream, n = request.outputs[0].elements()](const Operands& at) {
        for_each(stream, n, FromList{at.in<float>(0), at.out<float>(0)});
      },
      "own:pointwise");
  return lowered;
}

Lowered lower_constant(const Request& request) {
  Lowered lowered = draft(request, request.follow({}));
  const Stream stream = request.context.device.stream();
  const float value = request.number("value");
  lowered.kernel = with_type(request.outputs[0].dtype, [&]<typename T>(T) {
    return make_kernel([stream, n = request.outputs[0].elements(),
                        value](const Operands& at) { for_each(stream, n, Constant<T>{value, at.out<T>(0)}); },
                       "own:pointwise");
  });
  return lowered;
}

Lowered lower_view(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.view = true;
  return lowered;
}

}  // namespace

std::span<const OpEntry> creation_ops() {
  static constexpr std::array entries{OpEntry{"constant", lower_constant},
                                      OpEntry{"from_list", lower_from_list}, OpEntry{"flatten", lower_view},
                                      OpEntry{"reshape", lower_view}};
  return entries;
}

}  // namespace assay::cuda
