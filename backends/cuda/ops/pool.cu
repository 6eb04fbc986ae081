// Average and maximum pooling in both layouts, with one thread per element of the result. A gradient gathers
// from the windows that contain its element, so that the order of its sum is fixed.
#include "backends/cuda/kernels/divisor.hpp"
#include "backends/cuda/lowering.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::cuda {
namespace {

// Along one dimension.
struct WindowSide {
  std::int64_t kernel, stride, before;
  explicit WindowSide(const WindowAxis& axis)
      : kernel(axis.kernel), stride(axis.stride), before(axis.before) {}
  // The elements of the image that a window has.
  ASSAY_HD std::int64_t begin(std::int64_t window) const { return larger(window * stride - before, 0); }
  ASSAY_HD std::int64_t end(std::int64_t window, std::int64_t size) const {
    return smaller(window * stride - before + kernel, size);
  }
};

struct Pool {
  std::int64_t channels, height, width, out_height, out_width;
  WindowSide rows, columns;
  bool counts_padding;  // in the divisor of an average
  Strides x, y;
  std::int64_t elements_x, elements_y;
  bool channels_last;

  ASSAY_HD float divisor(std::int64_t row, std::int64_t column) const {
    const std::int64_t all = rows.kernel * columns.kernel;
    if (counts_padding) return static_cast<float>(all);
    return static_cast<float>((rows.end(row, height) - rows.begin(row)) *
                              (columns.end(column, width) - columns.begin(column)));
  }
};

// The coordinates of an element of an image.
struct WindowPlace {
  std::int64_t n, c, h, w;
};

// Those of each element in memory order.
class WindowPlaces {
 public:
  WindowPlaces(const Pool& p, std::int64_t height, std::int64_t width, std::int64_t elements)
      : channels_last_(p.channels_last),
        small_(elements < end_of_dividends),
        sizes_{p.channels_last ? p.channels : width, p.channels_last ? width : height,
               p.channels_last ? height : p.channels},
        by_{Divisor(sizes_[0]), Divisor(sizes_[1]), Divisor(sizes_[2])} {}

  ASSAY_HD WindowPlace of(std::int64_t i) const {
    std::int64_t at[4];  // the last dimension first
    if (small_) {
      auto rest = static_cast<std::uint32_t>(i);
      for (int d = 0; d < 3; ++d) {
        const std::uint32_t next = by_[d].quotient(rest);
        at[d] = rest - next * static_cast<std::uint32_t>(sizes_[d]);
        rest = next;
      }
      at[3] = rest;
    } else {
      for (int d = 0; d < 3; ++d) {
        at[d] = i % sizes_[d];
        i /= sizes_[d];
      }
      at[3] = i;
    }
    if (channels_last_) return {at[3], at[0], at[2], at[1]};
    return {at[3], at[2], at[1], at[0]};
  }

 private:
  bool channels_last_, small_;
  std::int64_t sizes_[3];  // of all dimensions but the first, the last first
  Divisor by_[3];
};

// The windows along one dimension that contain `at`. A side of an image has less than 2^31 pixels.
struct Windows {
  std::int64_t first, end;
};
ASSAY_HD Windows windows_over(std::int64_t at, const WindowSide& axis, std::int64_t count) {
  const auto padded = static_cast<std::uint32_t>(at + axis.before);
  const auto kernel = static_cast<std::uint32_t>(axis.kernel),
             stride = static_cast<std::uint32_t>(axis.stride);
  const std::int64_t first = padded < kernel ? 0 : (padded - kernel) / stride + 1;
  return {first, smaller(padded / stride + 1, count)};
}

template <typename T>
struct Average {
  Pool p;
  WindowPlaces places;
  const T* x;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const {
    const WindowPlace at = places.of(i);
    const T* image = x + at.n * p.x.n + at.c * p.x.c;
    float sum = 0;
    for (std::int64_t h = p.rows.begin(at.h); h < p.rows.end(at.h, p.height); ++h) {
      for (std::int64_t w = p.columns.begin(at.w); w < p.columns.end(at.w, p.width); ++w)
        sum += widen(image[h * p.x.h + w * p.x.w]);
    }
    y[i] = narrow<T>(sum / p.divisor(at.h, at.w));
  }
};

template <typename T>
struct AverageGradient {
  Pool p;
  WindowPlaces places;
  const T *dy, *mask;  // mask may be null
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const {
    const WindowPlace at = places.of(i);
    const T* plane = dy + at.n * p.y.n + at.c * p.y.c;
    const Windows rows = windows_over(at.h, p.rows, p.out_height),
                  columns = windows_over(at.w, p.columns, p.out_width);
    float sum = 0;
    for (std::int64_t h = rows.first; h < rows.end; ++h) {
      for (std::int64_t w = columns.first; w < columns.end; ++w) {
        const float each = widen(plane[h * p.y.h + w * p.y.w]);
        sum += p.counts_padding ? each : each / p.divisor(h, w);
      }
    }
    const bool cut = mask != nullptr && widen(mask[i]) <= 0;
    dx[i] = narrow<T>(cut ? 0.0F : p.counts_padding ? sum / p.divisor(0, 0) : sum);
  }
};

// argmax: i32, in the layout of y, the index of the maximum within the plane of x.
template <typename T>
struct Maximum {
  Pool p;
  WindowPlaces places;
  const T* x;
  T* y;
  std::int32_t* argmax;  // may be null
  ASSAY_HD void operator()(std::int64_t i) const {
    const WindowPlace at = places.of(i);
    const T* image = x + at.n * p.x.n + at.c * p.x.c;
    const std::int64_t top = p.rows.begin(at.h), left = p.columns.begin(at.w);
    const std::int64_t bottom = p.rows.end(at.h, p.height), right = p.columns.end(at.w, p.width);
    std::int64_t best = top * p.width + left;
    float largest = widen(image[top * p.x.h + left * p.x.w]);
    for (std::int64_t h = top; h < bottom; ++h) {
      for (std::int64_t w = left; w < right; ++w) {
        const float here = widen(image[h * p.x.h + w * p.x.w]);
        // A NaN is the maximum.
        if (!(here > largest) && !(here != here && largest == largest)) continue;
        largest = here;
        best = h * p.width + w;
      }
    }
    y[i] = narrow<T>(largest);
    if (argmax != nullptr) argmax[i] = static_cast<std::int32_t>(best);
  }
};

template <typename T>
struct MaximumGradient {
  Pool p;
  WindowPlaces places;
  const T *dy, *mask;  // mask may be null
  const std::int32_t* argmax;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const {
    const WindowPlace at = places.of(i);
    const std::int64_t plane = at.n * p.y.n + at.c * p.y.c;
    const std::int64_t here = at.h * p.width + at.w;
    const Windows rows = windows_over(at.h, p.rows, p.out_height),
                  columns = windows_over(at.w, p.columns, p.out_width);
    float sum = 0;
    for (std::int64_t h = rows.first; h < rows.end; ++h) {
      for (std::int64_t w = columns.first; w < columns.end; ++w) {
        const std::int64_t window = plane + h * p.y.h + w * p.y.w;
        if (argmax[window] == here) sum += widen(dy[window]);
      }
    }
    dx[i] = narrow<T>(mask != nullptr && widen(mask[i]) <= 0 ? 0.0F : sum);
  }
};

Pool pool_of(const Request& request, const Shape& x, const Shape& y, Layout layout) {
  const SlidingWindow window = pool_window(request.node.attributes);
  return {x[1],
          x[2],
          x[3],
          y[2],
          y[3],
          WindowSide(window.rows),
          WindowSide(window.columns),
          counts_padding(request.node.attributes),
          strides_of(x, layout),
          strides_of(y, layout),
          element_count(x),
          element_count(y),
          layout == Layout::channels_last};
}

WindowPlaces places_of_x(const Pool& p) { return {p, p.height, p.width, p.elements_x}; }
WindowPlaces places_of_y(const Pool& p) { return {p, p.out_height, p.out_width, p.elements_y}; }

// One layout for the whole op: with one channel or one pixel, both layouts are the same bytes.
Lowered lower_average(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  const Stream stream = request.context.device.stream();
  const Pool p = pool_of(request, request.in(0), request.out(0), layout);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, p](const Operands& at) {
          for_each(stream, p.elements_y, Average<T>{p, places_of_y(p), at.in<T>(0), at.out<T>(0)});
        },
        "own:pool");
  });
  return lowered;
}

Lowered lower_average_gradient(const Request& request) {
  const Layout layout = request.follow({0, 1});
  Lowered lowered = draft(request, layout);
  const Stream stream = request.context.device.stream();
  const Pool p = pool_of(request, request.out(0), request.in(0), layout);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, p](const Operands& at) {
          for_each(stream, p.elements_x,
                   AverageGradient<T>{p, places_of_x(p), at.in<T>(0), at.in<T>(1), at.out<T>(0)});
        },
        "own:pool");
  });
  return lowered;
}

Lowered lower_maximum(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  const Stream stream = request.context.device.stream();
  const Pool p = pool_of(request, request.in(0), request.out(0), layout);
  if (request.has_output(1))
    lowered.outputs[1] =
        opaque_format(p.elements_y * static_cast<std::int64_t>(sizeof(std::int32_t)), layout);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, p](const Operands& at) {
          for_each(stream, p.elements_y,
                   Maximum<T>{p, places_of_y(p), at.in<T>(0), at.out<T>(0), at.out<std::int32_t>(1)});
        },
        "own:pool");
  });
  return lowered;
}

Lowered lower_maximum_gradient(const Request& request) {
  const Layout layout = layout_of(request.offer.inputs[1]);  // as its producer chose
  Lowered lowered = draft(request, layout);
  lowered.inputs[1] = request.offer.inputs[1];
  const Stream stream = request.context.device.stream();
  const Pool p = pool_of(request, request.out(0), request.in(0), layout);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, p](const Operands& at) {
          for_each(stream, p.elements_x,
                   MaximumGradient<T>{p, places_of_x(p), at.in<T>(0), at.in<T>(2), at.in<std::int32_t>(1),
                                      at.out<T>(0)});
        },
        "own:pool");
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{
      OpEntry{"average_pool", lower_average}, OpEntry{"average_pool_gradient", lower_average_gradient},
      OpEntry{"max_pool", lower_maximum}, OpEntry{"max_pool_gradient", lower_maximum_gradient}};
  return entries;
}

}  // namespace assay::cuda
