#include "backends/cuda/host/host_launch.hpp"

#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "harness/core/paths.hpp"

namespace assay::cuda {
namespace {

enum class Order : std::uint8_t { ascending, reversed, shuffled };

struct HostLaunch {
  Order order = Order::ascending;
  std::uint64_t seed = 0;
  int team = 1, threads = 1;
};

std::int64_t number_of(const char* variable, const std::string& text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= least) return value;
  fmt::print(stderr, "{}={}: must be a number of at least {}\n", variable, text, least);
  std::abort();
}

HostLaunch from_environment() {
  HostLaunch launch;
  if (const std::string order = environment_text("ASSAY_CUDA_HOST_ORDER"); order == "reversed") {
    launch.order = Order::reversed;
  } else if (!order.empty()) {
    launch.order = Order::shuffled;
    launch.seed = static_cast<std::uint64_t>(number_of("ASSAY_CUDA_HOST_ORDER", order, 0));
  }
  const auto count = [](const char* variable) {
    const std::string text = environment_text(variable);
    return text.empty() ? 1 : static_cast<int>(number_of(variable, text, 1));
  };
  launch.team = count("ASSAY_CUDA_HOST_TEAM");
  if (launch.team > 1 && launch.team % 32 != 0) {
    fmt::print(stderr, "ASSAY_CUDA_HOST_TEAM={}: must be 1 or a multiple of 32\n", launch.team);
    std::abort();
  }
  launch.threads = count("ASSAY_CUDA_HOST_THREADS");
  return launch;
}

const HostLaunch& host_launch() {
  static const HostLaunch launch = from_environment();
  return launch;
}

// The i-th of `count` in the order of the environment.
class Sequence {
 public:
  explicit Sequence(std::int64_t count) : count_(count) {
    if (host_launch().order != Order::shuffled) return;
    shuffled_.resize(static_cast<std::size_t>(count));
    std::iota(shuffled_.begin(), shuffled_.end(), std::int64_t{0});
    std::ranges::shuffle(shuffled_, std::mt19937_64(host_launch().seed));
  }
  std::int64_t operator[](std::int64_t i) const {
    if (!shuffled_.empty()) return shuffled_[static_cast<std::size_t>(i)];
    return host_launch().order == Order::reversed ? count_ - 1 - i : i;
  }

 private:
  std::int64_t count_;
  std::vector<std::int64_t> shuffled_;
};

// The threads of a team in turn, each up to its next barrier.
class Fibres final : public HostTeam {
 public:
  Fibres(int threads, const std::function<void(const Team&)>& body)
      : body_(body),
        fibres_(static_cast<std::size_t>(threads)),
        floats_(fibres_.size()),
        integers_(fibres_.size()) {}

  void run() {
    for (std::size_t rank = 0; rank < fibres_.size(); ++rank) prepare(rank);
    for (bool ended = false; !ended;) {
      for (Fibre& fibre : fibres_) {
        if (!fibre.ended) swapcontext(&scheduler_, &fibre.context);
      }
      const auto count = std::ranges::count_if(fibres_, [](const Fibre& fibre) { return fibre.ended; });
      ended = count == std::ssize(fibres_);
      if (ended || count == 0) continue;
      fmt::print(stderr, "{} of {} threads of a team ended while the others wait at a barrier\n", count,
                 fibres_.size());
      std::abort();
    }
  }

  int size() const override { return static_cast<int>(fibres_.size()); }
  // In the order of the device: the threads of a warp in pairs, then the warps.
  float sum(int rank, float value, int lanes) override {
    constexpr int warp = 32;
    give(floats_, rank, value);
    float total = 0;
    for (int first = 0; first < size(); first += warp) {
      std::array<float, warp> values{};
      std::copy_n(floats_.begin() + first, warp, values.begin());
      for (int step = warp / 2; step >= lanes; step /= 2) {
        const std::array<float, warp> before = values;
        for (int i = 0; i < warp; ++i) values[index(i)] += before[index(i ^ step)];
      }
      const float of_warp = values[index(rank % lanes)];
      total = first == 0 ? of_warp : total + of_warp;
    }
    wait(rank);  // who still reads
    return total;
  }
  float max(int rank, float value) override {
    give(floats_, rank, value);
    const float largest = *std::ranges::max_element(floats_);
    wait(rank);
    return largest;
  }
  std::int32_t before(int rank, std::int32_t value) override {
    give(integers_, rank, value);
    const std::int32_t total = std::accumulate(integers_.begin(), integers_.begin() + rank, 0);
    wait(rank);
    return total;
  }
  void wait(int rank) override { swapcontext(&fibres_[index(rank)].context, &scheduler_); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;
  struct Fibre {
    ucontext_t context{};
    bool ended = false;
  };

  // Kept for the next team: there is one for each row.
  static char* stack_of(std::size_t rank) {
    static std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= rank) stacks.push_back(std::make_unique_for_overwrite<char[]>(stack_bytes));
    return stacks[rank].get();
  }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  void prepare(std::size_t rank) {
    Fibre& fibre = fibres_[rank];
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = stack_of(rank);
    fibre.context.uc_stack.ss_size = stack_bytes;
    fibre.context.uc_link = &scheduler_;
    // makecontext passes ints.
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&fibre.context, reinterpret_cast<void (*)()>(&Fibres::start), 3, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(rank));
  }
  template <typename T>
  void give(std::vector<T>& values, int rank, T value) {
    values[index(rank)] = value;
    wait(rank);
  }
  static void start(unsigned low, unsigned high, unsigned rank) {
    auto* const self = reinterpret_cast<Fibres*>(low | static_cast<std::uintptr_t>(high) << 32);
    self->body_(Team(*self, static_cast<int>(rank)));
    self->fibres_[rank].ended = true;
  }

  const std::function<void(const Team&)>& body_;
  std::vector<Fibre> fibres_;
  std::vector<float> floats_;
  std::vector<std::int32_t> integers_;
  ucontext_t scheduler_{};
};

}  // namespace

bool host_launches_plainly() {
  const HostLaunch& launch = host_launch();
  return launch.order == Order::ascending && launch.team == 1 && launch.threads == 1;
}

void run_team(int threads, const std::function<void(const Team&)>& body) {
  if (threads == 1) return body(Team());
  Fibres(threads, body).run();
}

void host_launch_elements(std::int64_t elements, const std::function<void(std::int64_t)>& body) {
  const Sequence sequence(elements);
  const std::int64_t threads = std::min<std::int64_t>(host_launch().threads, elements);
  const auto share = [&](std::int64_t first) {
    for (std::int64_t i = first; i < elements; i += threads) body(sequence[i]);
  };
  std::vector<std::jthread> others;
  for (std::int64_t t = 1; t < threads; ++t) others.emplace_back(share, t);
  share(0);
}

void host_launch_rows(std::int64_t rows, const Grid& grid,
                      const std::function<void(const Team&, std::int64_t)>& body) {
  const Sequence sequence(rows);
  const int threads = std::min(host_launch().team, grid.threads);
  for (std::int64_t i = 0; i < rows; ++i)
    run_team(threads, [&](const Team& team) { body(team, sequence[i]); });
}

}  // namespace assay::cuda
