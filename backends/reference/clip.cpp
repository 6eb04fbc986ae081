// Clipping of gradients by the norm of all of them.
#include <array>
#include <cmath>
#include <vector>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

// Summed in double: there may be hundreds of millions of elements.
template <typename T>
Body<T> global_norm(const Context& context) {
  std::vector<std::int64_t> elements;
  for (const TensorType& type : context.inputs) elements.push_back(type.elements());
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    std::vector<double> sums(static_cast<std::size_t>(pool.size()));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      pool.run(elements[i], grain, [&](int part, std::int64_t begin, std::int64_t end) {
        double sum = 0;
        for (std::int64_t e = begin; e < end; ++e) {
          const auto value = static_cast<double>(call.in(i)[e]);
          sum += value * value;
        }
        sums[static_cast<std::size_t>(part)] += sum;
      });
    }
    double total = 0;
    for (const double sum : sums) total += sum;
    call.out(0)[0] = static_cast<T>(std::sqrt(total));
  }};
}

template <typename T>
Body<T> clip_by_norm(const Context& context) {
  const auto limit = static_cast<T>(context.node.attributes.number("limit"));
  ThreadPool& pool = context.pool;
  return {[=, &pool, n = element_count(context.out(0))](const Call<T>& call) {
    const T share = limit / (call.in(1)[0] + T(1e-6));
    const T factor = share >= T(1) ? T(1) : share;  // a NaN stays a NaN
    pool.run(n, grain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) call.out(0)[i] = call.in(0)[i] * factor;
    });
  }};
}

}  // namespace

std::span<const OpEntry> clip_ops() {
  static constexpr std::array entries{OpEntry{"global_norm", global_norm<float>, global_norm<double>},
                                      OpEntry{"clip", clip_by_norm<float>, clip_by_norm<double>}};
  return entries;
}

}  // namespace assay::reference
