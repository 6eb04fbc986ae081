// Ops that only move elements: concat, slice, transpose, and the conversion between layouts.
#include "backends/cuda/casts.hpp"
#include "backends/cuda/kernels/walk.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

// Rows of `part` elements between rows of `from_row` and rows of `to_row` elements.
template <typename From, typename To>
struct CopyRows {
  const From* from;
  To* to;
  std::int64_t part, from_row, to_row;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = i / part, column = i % part;
    to[row * to_row + column] = narrow<To>(widen(from[row * from_row + column]));
  }
};

template <typename T>
struct Widened {
  const T* dy;
  T* dx;
  std::int64_t whole, first, part;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = i / whole, column = i % whole - first;
    dx[i] = column >= 0 && column < part ? dy[row * part + column] : narrow<T>(0);
  }
};

// Writes y in order and reads x at the positions of the walk.
template <typename T>
struct Gather {
  Walk walk;
  const T* x;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = x[walk.offset(i)]; }
};

std::size_t axis_of(const Request& request) { return static_cast<std::size_t>(request.integer("axis")); }
std::int64_t before(const Shape& shape, std::size_t axis) {
  return element_count({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)});
}
std::int64_t behind(const Shape& shape, std::size_t axis) {
  return element_count({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()});
}

Lowered lower_concat(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::size_t axis = axis_of(request);
  const std::int64_t rows = before(request.out(0), axis), inner = behind(request.out(0), axis);
  const std::int64_t whole = request.out(0)[axis] * inner;
  std::vector<std::int64_t> parts;
  for (const TensorType& x : request.inputs) parts.push_back(x.shape[axis] * inner);
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  if (rows == 1 && from == DType::f32) {
    lowered.kernel = std::make_unique<ParameterCopy>(stream, parts, to);
    return lowered;
  }
  lowered.kernel = with_type(from, [&]<typename From>(From) {
    return with_type(to, [&]<typename To>(To) {
      return make_kernel(
          [=](const Operands& at) {
            To* y = at.out<To>(0);
            for (std::size_t i = 0; i < parts.size(); ++i) {
              for_each(stream, rows * parts[i],
                       CopyRows<From, To>{at.in<From>(i), y, parts[i], parts[i], whole});
              y += parts[i];
            }
          },
          "own:copy");
    });
  });
  return lowered;
}

Lowered lower_slice(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::size_t axis = axis_of(request);
  const std::int64_t rows = before(request.out(0), axis), inner = behind(request.out(0), axis);
  const std::int64_t whole = request.in(0)[axis] * inner, part = request.out(0)[axis] * inner;
  const std::int64_t first = request.integer("begin") * inner;
  if (rows == 1 && !request.offer.plain) {
    lowered.view = true;
    lowered.first_byte = first * size_of(request.inputs[0].dtype);
    return lowered;
  }
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          for_each(stream, rows * part, CopyRows<T, T>{at.in<T>(0) + first, at.out<T>(0), part, whole, part});
        },
        "own:copy");
  });
  return lowered;
}

Lowered lower_slice_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::size_t axis = axis_of(request);
  const std::int64_t inner = behind(request.out(0), axis);
  const std::int64_t whole = request.out(0)[axis] * inner, part = request.in(0)[axis] * inner;
  const std::int64_t first = request.integer("begin") * inner, n = request.outputs[0].elements();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          for_each(stream, n, Widened<T>{at.in<T>(0), at.out<T>(0), whole, first, part});
        },
        "own:copy");
  });
  return lowered;
}

Lowered lower_transpose(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const Shape& x = request.in(0);
  std::vector<std::int64_t> strides(x.size(), 1);
  for (std::size_t d = x.size(); d-- > 1;) strides[d - 1] = strides[d] * x[d];
  Walk walk;
  for (const std::int64_t from : request.node.attributes.get<std::vector<std::int64_t>>("permutation"))
    walk.add(x[static_cast<std::size_t>(from)], strides[static_cast<std::size_t>(from)]);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          for_each(stream, walk.elements, Gather<T>{walk, at.in<T>(0), at.out<T>(0)});
        },
        "own:copy");
  });
  return lowered;
}

template <typename T>
std::unique_ptr<Kernel> gather(Stream stream, const Walk& walk) {
  return make_kernel(
      [stream, walk](const Operands& at) {
        for_each(stream, walk.elements, Gather<T>{walk, at.in<T>(0), at.out<T>(0)});
      },
      "own:copy");
}

}  // namespace

std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, Layout from, Layout to) {
  const Stream stream = context.device.stream();
  Walk walk;
  if (from == to) {
    walk.add(type.elements(), 1);
  } else {
    const Shape& shape = type.shape;
    const Strides strides = strides_of(shape, from);
    walk.add(shape[0], strides.n);
    if (to == Layout::plain) walk.add(shape[1], strides.c);
    walk.add(shape[2], strides.h);
    walk.add(shape[3], strides.w);
    if (to == Layout::channels_last) walk.add(shape[1], strides.c);
  }
  switch (size_of(type.dtype)) {
    case 1:
      return gather<std::uint8_t>(stream, walk);
    case 2:
      return gather<std::uint16_t>(stream, walk);
    case 4:
      return gather<std::uint32_t>(stream, walk);
    default:
      return gather<std::uint64_t>(stream, walk);
  }
}

std::span<const OpEntry> move_ops() {
  static constexpr std::array entries{OpEntry{"concat", lower_concat}, OpEntry{"slice", lower_slice},
                                      OpEntry{"slice_gradient", lower_slice_gradient},
                                      OpEntry{"transpose", lower_transpose}};
  return entries;
}

}  // namespace assay::cuda
