// The updates, each over any number of tensors. The schedule is read from memory at each run.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

// One group of a node: the first of its operands and results, and the length of its tensors.
struct Group {
  std::size_t input, output;
  std::int64_t elements;
};

std::vector<Group> groups(const Context& context) {
  const auto repeats = static_cast<std::size_t>(context.node.op->repeats());
  const std::size_t results = context.node.op->results().size();
  std::vector<Group> all;
  for (std::size_t input = 1, output = 0; input < context.inputs.size();
       input += repeats, output += results) {
    all.push_back({input, output, element_count(context.in(input))});
  }
  return all;
}

template <typename T, typename Function>
void each(ThreadPool& pool, const std::vector<Group>& all, const Function& update) {
  for (const Group& group : all) {
    pool.run(group.elements, grain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) update(group, i);
    });
  }
}

template <typename T>
Body<T> sgd(const Context& context) {
  const auto momentum = static_cast<T>(context.node.attributes.number("momentum"));
  const auto decay = static_cast<T>(context.node.attributes.number("weight_decay"));
  ThreadPool& pool = context.pool;
  return {[=, &pool, all = groups(context)](const Call<T>& call) {
    const T rate = call.in(0)[0];
    each<T>(pool, all, [&](const Group& group, std::int64_t i) {
      const T parameter = call.in(group.input)[i];
      T step = call.in(group.input + 1)[i] + decay * parameter;
      if (momentum != T(0)) {
        step += momentum * call.in(group.input + 2)[i];
        call.out(group.output + 1)[i] = step;
      }
      call.out(group.output)[i] = parameter - rate * step;
    });
  }};
}

template <typename T>
Body<T> rmsprop(const Context& context) {
  const auto decay = static_cast<T>(context.node.attributes.number("decay"));
  const auto epsilon = static_cast<T>(context.node.attributes.number("epsilon"));
  const auto weight_decay = static_cast<T>(context.node.attributes.number("weight_decay"));
  ThreadPool& pool = context.pool;
  return {[=, &pool, all = groups(context)](const Call<T>& call) {
    const T rate = call.in(0)[0];
    each<T>(pool, all, [&](const Group& group, std::int64_t i) {
      const T parameter = call.in(group.input)[i];
      const T gradient = call.in(group.input + 1)[i] + weight_decay * parameter;
      const T square = decay * call.in(group.input + 2)[i] + (T(1) - decay) * gradient * gradient;
      call.out(group.output)[i] = parameter - rate * gradient / (std::sqrt(square) + epsilon);
      call.out(group.output + 1)[i] = square;
    });
  }};
}

template <typename T>
Body<T> adam(const Context& context) {
  const double beta1 = context.node.attributes.number("beta1");
  const double beta2 = context.node.attributes.number("beta2");
  const auto epsilon = static_cast<T>(context.node.attributes.number("epsilon"));
  const auto weight_decay = static_cast<T>(context.node.attributes.number("weight_decay"));
  const bool decoupled = context.node.attributes.get_or("decoupled", false);
  const T coupled_decay = decoupled ? T(0) : weight_decay, own_decay = decoupled ? weight_decay : T(0);
  ThreadPool& pool = context.pool;
  return {[=, &pool, all = groups(context)](const Call<T>& call) {
    const T rate = call.in(0)[0];
    const auto step = static_cast<double>(call.in(0)[1]);
    const auto keep1 = static_cast<T>(beta1), keep2 = static_cast<T>(beta2);
    const auto take1 = static_cast<T>(1 - beta1), take2 = static_cast<T>(1 - beta2);
    const auto correction1 = static_cast<T>(1 - std::pow(beta1, step));
    const auto correction2 = static_cast<T>(1 - std::pow(beta2, step));
    each<T>(pool, all, [&](const Group& group, std::int64_t i) {
      const T parameter = call.in(group.input)[i];
      const T gradient = call.in(group.input + 1)[i] + coupled_decay * parameter;
      const T m = keep1 * call.in(group.input + 2)[i] + take1 * gradient;
      const T v = keep2 * call.in(group.input + 3)[i] + take2 * gradient * gradient;
      call.out(group.output)[i] = parameter - rate * own_decay * parameter -
                                  rate * (m / correction1) / (std::sqrt(v / correction2) + epsilon);
      call.out(group.output + 1)[i] = m;
      call.out(group.output + 2)[i] = v;
    });
  }};
}

template <typename T>
Body<T> lazy_adam(const Context& context) {
  const Attributes& a = context.node.attributes;
  const double beta1 = a.number("beta1"), beta2 = a.number("beta2");
  const auto keep1 = static_cast<T>(beta1), keep2 = static_cast<T>(beta2);
  const auto take1 = static_cast<T>(1 - beta1), take2 = static_cast<T>(1 - beta2);
  const auto epsilon = static_cast<T>(a.number("epsilon")), decay = static_cast<T>(a.number("weight_decay"));
  const std::int64_t rows = context.in(1)[0], kept = context.in(2)[0], width = context.in(2)[1];
  return {[=](const Call<T>& call) {
    const T rate = call.in(0)[0];
    const auto step = static_cast<double>(call.in(0)[1]);
    const auto correction1 = static_cast<T>(1 - std::pow(beta1, step));
    const auto correction2 = static_cast<T>(1 - std::pow(beta2, step));
    T *parameter = call.out(0), *m = call.out(1), *v = call.out(2);
    const std::array<std::pair<const T*, T*>, 3> moved{
        {{call.in(1), parameter}, {call.in(4), m}, {call.in(5), v}}};
    for (const auto& [from, to] : moved) {
      if (from != to) std::copy_n(from, rows * width, to);
    }
    for (std::int64_t k = 0; k < kept; ++k) {
      const std::int64_t row = call.integers(3)[k];
      if (row < 0 || row >= rows) continue;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
        const T gradient = call.in(2)[k * width + i - row * width] + decay * parameter[i];
        m[i] = keep1 * m[i] + take1 * gradient;
        v[i] = keep2 * v[i] + take2 * gradient * gradient;
        parameter[i] -= rate * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + epsilon);
      }
    }
  }};
}

}  // namespace

std::span<const OpEntry> optimizer_ops() {
  static constexpr std::array entries{
      OpEntry{"sgd", sgd<float>, sgd<double>}, OpEntry{"rmsprop", rmsprop<float>, rmsprop<double>},
      OpEntry{"adam", adam<float>, adam<double>}, OpEntry{"lazy_adam", lazy_adam<float>, lazy_adam<double>}};
  return entries;
}

}  // namespace assay::reference
