// Windows over images that are smaller than they are, against plain loops over the contract, on the kernel
// library that this program is linked with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harness/graph/sliding_window.hpp"
#include "tests/ops/guarded_run.hpp"
#include "tests/ops/needed_device.hpp"
#include "tests/ops/op_case.hpp"

namespace assay::ops {
namespace {

using Values = std::vector<double>;

// Equal numbers as one.
Attribute joined(const std::vector<std::int64_t>& numbers) {
  const bool equal = std::ranges::count(numbers, numbers.front()) == std::ssize(numbers);
  return equal ? Attribute(numbers.front()) : Attribute(numbers);
}

// Images of n x c x h x w, and o filters in groups. A pool has c filters.
struct Window {
  std::int64_t n, c, o, h, w;
  WindowAxis down, across;
  std::int64_t groups = 1;

  std::int64_t rows() const { return down.windows(h); }
  std::int64_t columns() const { return across.windows(w); }
  bool fits() const { return fits(down, h) && fits(across, w); }
  bool is_of_pool() const { return down.dilation == 1 && across.dilation == 1 && groups == 1; }
  Shape image() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c / groups, down.kernel, across.kernel}; }
  Shape result(std::int64_t filters) const { return {n, filters, rows(), columns()}; }

  Attributes attributes() const {
    Attributes all{{"stride", joined({down.stride, across.stride})},
                   {"padding", joined({down.before, across.before, down.after, across.after})}};
    if (down.dilation > 1 || across.dilation > 1)
      all.set("dilation", joined({down.dilation, across.dilation}));
    if (groups > 1) all.set("groups", groups);
    return all;
  }

  std::string name() const {
    const auto text = [](const WindowAxis& axis) {
      return fmt::format("k{}t{}p{}_{}d{}", axis.kernel, axis.stride, axis.before, axis.after, axis.dilation);
    };
    return fmt::format("n{}c{}h{}w{}o{}g{} {} {}", n, c, h, w, o, groups, text(down), text(across));
  }

  // Calls body(image index within its plane, window index, row and column of the kernel) for each pixel that a
  // window covers, in row-major order within the window.
  template <typename Body>
  void each(const Body& body) const {
    for (std::int64_t i = 0; i < rows(); ++i) {
      for (std::int64_t j = 0; j < columns(); ++j) {
        for (std::int64_t a = 0; a < down.kernel; ++a) {
          for (std::int64_t b = 0; b < across.kernel; ++b) {
            const std::int64_t y = i * down.stride + a * down.dilation - down.before;
            const std::int64_t x = j * across.stride + b * across.dilation - across.before;
            if (y < 0 || y >= h || x < 0 || x >= w) continue;
            body(y * w + x, i * columns() + j, a, b);
          }
        }
      }
    }
  }

 private:
  static bool fits(const WindowAxis& axis, std::int64_t in) {
    return axis.before < axis.extent() && axis.after < axis.extent() &&
           in + axis.before + axis.after >= axis.extent();
  }
};

// A kernel of r x s with the same padding on all sides and the same stride.
Window alike(std::int64_t n, std::int64_t c, std::int64_t o, std::int64_t h, std::int64_t w, std::int64_t r,
             std::int64_t s, std::int64_t padding, std::int64_t stride) {
  return {n, c, o, h, w, {r, stride, padding, padding}, {s, stride, padding, padding}};
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Calls body(index of x, of the weight, of y) for each product of a convolution.
template <typename Body>
void each_product(const Window& g, const Body& body) {
  const std::int64_t windows = g.rows() * g.columns();
  for (std::int64_t n = 0; n < g.n; ++n) {
    for (std::int64_t o = 0; o < g.o; ++o) {
      const std::int64_t of_group = g.c / g.groups, first = o / (g.o / g.groups) * of_group;
      for (std::int64_t c = 0; c < of_group; ++c) {
        g.each([&](std::int64_t pixel, std::int64_t window, std::int64_t a, std::int64_t b) {
          body(at((n * g.c + first + c) * g.h * g.w + pixel),
               at(((o * of_group + c) * g.down.kernel + a) * g.across.kernel + b),
               at((n * g.o + o) * windows + window));
        });
      }
    }
  }
}

struct Example {
  OpCase row;
  std::vector<Values> results;  // by the plain loops
};

Values zeros(const Shape& shape) { return Values(at(element_count(shape))); }

std::vector<Example> convolutions(const Window& g, const std::string& name) {
  const Attributes plain = g.attributes();
  Attributes of_input = plain, of_weight = plain;
  of_input.set("size", std::vector<std::int64_t>{g.h, g.w});
  of_weight.set("kernel", std::vector<std::int64_t>{g.down.kernel, g.across.kernel});
  const OpCase::Operand x{Fill::integers, g.image()}, weight{Fill::integers, g.weight()};
  const OpCase::Operand dy{Fill::integers, g.result(g.o)}, bias{Fill::integers, {g.o}};
  const OpCase::Operand absent{Fill::absent, {}};

  Example forward{{"convolution", name, {x, weight, bias}, plain}, {zeros(dy.shape)}};
  const Values offsets = values_of(forward.row, 2), images = values_of(forward.row, 0),
               filters = values_of(forward.row, 1);
  const std::int64_t windows = g.rows() * g.columns();
  Values& y = forward.results[0];
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = offsets[at(static_cast<std::int64_t>(i) / windows % g.o)];
  each_product(g, [&](std::size_t i, std::size_t f, std::size_t o) { y[o] += images[i] * filters[f]; });

  Example input{{"convolution_input_gradient", name, {dy, weight, absent}, of_input}, {zeros(x.shape)}};
  const Values back = values_of(input.row, 0), turned = values_of(input.row, 1);
  each_product(
      g, [&](std::size_t i, std::size_t f, std::size_t o) { input.results[0][i] += back[o] * turned[f]; });

  Example filter{{"convolution_weight_gradient", name, {x, dy}, of_weight},
                 {zeros(weight.shape), zeros(bias.shape)}};
  const Values pixels = values_of(filter.row, 0), given = values_of(filter.row, 1);
  each_product(
      g, [&](std::size_t i, std::size_t f, std::size_t o) { filter.results[0][f] += pixels[i] * given[o]; });
  for (std::size_t i = 0; i < given.size(); ++i)
    filter.results[1][at(static_cast<std::int64_t>(i) / windows % g.o)] += given[i];
  return {forward, input, filter};
}

std::vector<Example> pools(const Window& g, const std::string& name) {
  Attributes plain = g.attributes();
  plain.set("kernel", joined({g.down.kernel, g.across.kernel}));
  Attributes sized = plain;
  sized.set("size", std::vector<std::int64_t>{g.h, g.w});
  Attributes inside = plain, sized_inside = sized;  // of an average that does not count the padding
  inside.set("count_padding", false);
  sized_inside.set("count_padding", false);
  const OpCase::Operand absent{Fill::absent, {}};
  const std::int64_t pixels = g.h * g.w, windows = g.rows() * g.columns();
  Example average{{"average_pool", name, {{Fill::integers, g.image()}}, plain, 4}, {zeros(g.result(g.c))}};
  Example average_back{{"average_pool_gradient", name, {{Fill::integers, g.result(g.c)}, absent}, sized, 4},
                       {zeros(g.image())}};
  Example own{{"average_pool", name + " inside", {{Fill::integers, g.image()}}, inside, 4},
              {zeros(g.result(g.c))}};
  Example own_back{
      {"average_pool_gradient", name + " inside", {{Fill::integers, g.result(g.c)}, absent}, sized_inside, 4},
      {zeros(g.image())}};
  Example largest{{"max_pool", name, {{Fill::ramp, g.image()}}, plain}, {zeros(g.result(g.c))}};
  Example largest_back{{"max_pool_gradient",
                        name,
                        {{Fill::integers, g.result(g.c)}, {Fill::argmax, g.image()}, absent},
                        sized},
                       {zeros(g.image())}};
  const Values x = values_of(average.row, 0), dy = values_of(average_back.row, 0);
  const Values ramp = values_of(largest.row, 0), again = values_of(largest_back.row, 1);
  const auto share = static_cast<double>(g.down.kernel * g.across.kernel);
  for (std::int64_t plane = 0; plane < g.n * g.c; ++plane) {
    std::vector<std::int64_t> winner(at(windows), -1), winner_again(at(windows), -1);
    std::vector<double> divisor(at(windows), 0);
    g.each([&](std::int64_t, std::int64_t window, std::int64_t, std::int64_t) { ++divisor[at(window)]; });
    g.each([&](std::int64_t pixel, std::int64_t window, std::int64_t, std::int64_t) {
      const std::size_t i = at(plane * pixels + pixel), o = at(plane * windows + window);
      average.results[0][o] += x[i] / share;
      average_back.results[0][i] += dy[o] / share;
      own.results[0][o] += x[i] / divisor[at(window)];
      own_back.results[0][i] += dy[o] / divisor[at(window)];
      const auto keep = [&](std::int64_t& best, const Values& of) {
        if (best < 0 || of[i] > of[at(best)]) best = static_cast<std::int64_t>(i);
      };
      keep(winner[at(window)], ramp);
      keep(winner_again[at(window)], again);
    });
    for (std::int64_t window = 0; window < windows; ++window) {
      const std::size_t o = at(plane * windows + window);
      largest.results[0][o] = ramp[at(winner[at(window)])];
      largest_back.results[0][at(winner_again[at(window)])] += values_of(largest_back.row, 0)[o];
    }
  }
  return {average, average_back, own, own_back, largest, largest_back};
}

std::vector<Example> examples() {
  // No column of the result sees some columns of the first three kernels.
  std::vector<Window> windows{alike(1, 1, 1, 1, 1, 5, 5, 2, 1), alike(1, 1, 1, 2, 2, 7, 7, 3, 1),
                              alike(1, 1, 1, 1, 1, 9, 9, 5, 2), alike(2, 16, 16, 1, 1, 7, 7, 3, 1),
                              alike(1, 1, 8, 5, 5, 3, 3, 0, 1), alike(1, 1, 16, 5, 5, 5, 5, 0, 1)};
  std::mt19937 draw(56);
  const auto between = [&draw](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(most - least + 1));
  };
  while (windows.size() < 90) {
    const std::int64_t n = between(1, 2), c = between(1, 3), o = between(1, 3), h = between(1, 5),
                       w = between(1, 5), r = between(1, 11), stride = between(1, 5);
    const std::int64_t s = between(0, 1) == 0 ? r : between(1, 11);
    const Window g = alike(n, c, o, h, w, r, s, between(0, std::min(r, s) - 1), stride);
    if (g.fits()) windows.push_back(g);
  }
  // Groups, and two dimensions and four sides that differ. Blocks of channels, too.
  while (windows.size() < 180) {
    const bool of_pool = between(0, 2) == 0;
    const std::int64_t groups = of_pool ? 1 : between(1, 3),
                       channels = between(0, 5) == 0 ? 16 : between(1, 2);
    const bool depthwise = !of_pool && between(0, 2) == 0;
    const std::int64_t filters = between(1, 2) * (channels == 16 && !depthwise ? 8 : 1);
    const std::int64_t of_all = depthwise ? channels * groups : groups;
    const auto axis = [&] {
      WindowAxis drawn{between(1, 4), between(1, 3), 0, 0, of_pool ? 1 : between(1, 3)};
      drawn.before = between(0, std::min<std::int64_t>(drawn.extent() - 1, 4));
      drawn.after = between(0, std::min<std::int64_t>(drawn.extent() - 1, 4));
      return drawn;
    };
    const Window g{
        between(1, 2), channels * groups, of_all * filters, between(1, 7), between(1, 7), axis(), axis(),
        of_all};
    if (g.fits()) windows.push_back(g);
  }
  std::vector<Example> all;
  for (const Window& g : windows) {
    for (Example& example : convolutions(g, g.name())) all.push_back(std::move(example));
    if (!g.is_of_pool()) continue;
    for (Example& example : pools(g, g.name())) all.push_back(std::move(example));
  }
  return all;
}

class Windows : public NeedsDevice<::testing::TestWithParam<std::string>> {};

TEST_P(Windows, MayReachPastASmallImage) {
  CompileOptions options;
  options.mode = GetParam();
  options.threads = 2;
  options.deterministic = true;
  const auto library = under_test::make_kernel_library(options);
  const Precision precision = precision_of(PrecisionKind::fp32);
  // Plain formats are those of mode eager, which has the kernels of mode graph.
  const std::vector<bool> formats = options.mode == "graph" ? std::vector{false, true} : std::vector{false};
  std::map<std::string, int> compared;
  for (const Example& example : examples()) {
    const Graph graph = graph_of(example.row, precision);
    const bool refused = std::ranges::any_of(
        graph.nodes(), [&](const Node& node) { return !library->unsupported(graph, node).empty(); });
    if (refused) continue;
    for (const bool plain : formats) {
      SCOPED_TRACE(fmt::format("{}, formats {}", example.row.id(), plain ? "plain" : "chosen"));
      const GuardedRun found = run_guarded(example.row, precision, *library, plain);
      EXPECT_EQ(found.faults, std::vector<std::string>());
      for (std::size_t r = 0; r < example.results.size(); ++r) {
        const Values& expected = example.results[r];
        const Values& got = found.results.at(fmt::format("result{}", r));
        ASSERT_EQ(got.size(), expected.size());
        double largest = 0;
        for (const double value : expected) largest = std::max(largest, std::abs(value));
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], expected[i], example.row.tolerance * 0x1p-23 * largest) << r << "[" << i << "]";
      }
    }
    ++compared[example.row.op];
  }
  for (const char* op : {"convolution", "convolution_input_gradient", "convolution_weight_gradient",
                         "average_pool", "average_pool_gradient", "max_pool", "max_pool_gradient"}) {
    EXPECT_GE(compared[op], 30) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Windows, ::testing::ValuesIn(under_test::planned_modes()),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace assay::ops
