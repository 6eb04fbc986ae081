// Windows over images that are smaller than they are, against plain loops over the contract, on the kernel
// library that this program is linked with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/ops/guarded_run.hpp"
#include "tests/ops/needed_device.hpp"
#include "tests/ops/op_case.hpp"

namespace assay::ops {
namespace {

using Values = std::vector<double>;

// Images of n x c x h x w, filters of o x c x r x s, padding p, stride t. A pool has c filters and r = s.
struct Window {
  std::int64_t n, c, o, h, w, r, s, p, t;

  std::int64_t rows() const { return (h + 2 * p - r) / t + 1; }
  std::int64_t columns() const { return (w + 2 * p - s) / t + 1; }
  bool fits() const { return p < std::min(r, s) && h + 2 * p >= r && w + 2 * p >= s; }
  Shape image() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c, r, s}; }
  Shape result(std::int64_t filters) const { return {n, filters, rows(), columns()}; }

  // Calls body(image index within its plane, window index, row and column of the kernel) for each pixel that a
  // window covers, in row-major order within the window.
  template <typename Body>
  void each(const Body& body) const {
    for (std::int64_t i = 0; i < rows(); ++i) {
      for (std::int64_t j = 0; j < columns(); ++j) {
        for (std::int64_t a = 0; a < r; ++a) {
          for (std::int64_t b = 0; b < s; ++b) {
            const std::int64_t y = i * t + a - p, x = j * t + b - p;
            if (y < 0 || y >= h || x < 0 || x >= w) continue;
            body(y * w + x, i * columns() + j, a, b);
          }
        }
      }
    }
  }
};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Calls body(index of x, of the weight, of y) for each product of a convolution.
template <typename Body>
void each_product(const Window& g, const Body& body) {
  const std::int64_t windows = g.rows() * g.columns();
  for (std::int64_t n = 0; n < g.n; ++n) {
    for (std::int64_t o = 0; o < g.o; ++o) {
      for (std::int64_t c = 0; c < g.c; ++c) {
        g.each([&](std::int64_t pixel, std::int64_t window, std::int64_t a, std::int64_t b) {
          body(at((n * g.c + c) * g.h * g.w + pixel), at(((o * g.c + c) * g.r + a) * g.s + b),
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
  const Attributes plain{{"stride", g.t}, {"padding", g.p}};
  Attributes of_input = plain, of_weight = plain;
  of_input.set("size", std::vector<std::int64_t>{g.h, g.w});
  of_weight.set("kernel", std::vector<std::int64_t>{g.r, g.s});
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
  const Attributes plain{{"kernel", g.r}, {"stride", g.t}, {"padding", g.p}};
  Attributes sized = plain;
  sized.set("size", std::vector<std::int64_t>{g.h, g.w});
  const OpCase::Operand absent{Fill::absent, {}};
  const std::int64_t pixels = g.h * g.w, windows = g.rows() * g.columns();
  Example average{{"average_pool", name, {{Fill::integers, g.image()}}, plain, 4}, {zeros(g.result(g.c))}};
  Example average_back{{"average_pool_gradient", name, {{Fill::integers, g.result(g.c)}, absent}, sized, 4},
                       {zeros(g.image())}};
  Example largest{{"max_pool", name, {{Fill::ramp, g.image()}}, plain}, {zeros(g.result(g.c))}};
  Example largest_back{{"max_pool_gradient",
                        name,
                        {{Fill::integers, g.result(g.c)}, {Fill::argmax, g.image()}, absent},
                        sized},
                       {zeros(g.image())}};
  const Values x = values_of(average.row, 0), dy = values_of(average_back.row, 0);
  const Values ramp = values_of(largest.row, 0), again = values_of(largest_back.row, 1);
  const auto share = static_cast<double>(g.r * g.r);
  for (std::int64_t plane = 0; plane < g.n * g.c; ++plane) {
    std::vector<std::int64_t> winner(at(windows), -1), winner_again(at(windows), -1);
    g.each([&](std::int64_t pixel, std::int64_t window, std::int64_t, std::int64_t) {
      const std::size_t i = at(plane * pixels + pixel), o = at(plane * windows + window);
      average.results[0][o] += x[i] / share;
      average_back.results[0][i] += dy[o] / share;
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
  return {average, average_back, largest, largest_back};
}

std::vector<Example> examples() {
  // No column of the result sees some columns of the first three kernels.
  std::vector<Window> windows{{1, 1, 1, 1, 1, 5, 5, 2, 1}, {1, 1, 1, 2, 2, 7, 7, 3, 1},
                              {1, 1, 1, 1, 1, 9, 9, 5, 2}, {2, 16, 16, 1, 1, 7, 7, 3, 1},
                              {1, 1, 8, 5, 5, 3, 3, 0, 1}, {1, 1, 16, 5, 5, 5, 5, 0, 1}};
  std::mt19937 draw(56);
  const auto between = [&draw](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(most - least + 1));
  };
  while (windows.size() < 90) {
    Window g{between(1, 2), between(1, 3), between(1, 3), between(1, 5), between(1, 5), between(1, 11), 0, 0,
             between(1, 5)};
    g.s = between(0, 1) == 0 ? g.r : between(1, 11);
    g.p = between(0, std::min(g.r, g.s) - 1);
    if (g.fits()) windows.push_back(g);
  }
  std::vector<Example> all;
  for (const Window& g : windows) {
    const std::string name =
        fmt::format("n{}c{}h{}w{}k{}r{}s{}p{}t{}", g.n, g.c, g.h, g.w, g.o, g.r, g.s, g.p, g.t);
    for (Example& example : convolutions(g, name)) all.push_back(std::move(example));
    if (g.r != g.s) continue;
    for (Example& example : pools(g, name)) all.push_back(std::move(example));
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
