#include "tests/ops/guarded_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/engine/lowered_graph.hpp"
#include "harness/engine/memory.hpp"
#include "harness/engine/transfer.hpp"

namespace assay::ops {
namespace {

constexpr std::size_t guard = 256;
constexpr unsigned char pattern = 0xc7;

// Memory whose surroundings are watched.
class Guarded {
 public:
  Guarded(Memory& memory, std::int64_t bytes, unsigned char fill)
      : memory_(memory),
        bytes_(static_cast<std::size_t>(bytes)),
        whole_(memory, bytes + 2 * static_cast<std::int64_t>(guard), "a test") {
    std::vector<unsigned char> host(bytes_ + 2 * guard, pattern);
    std::memset(host.data() + guard, fill, bytes_);
    memory_.copy(whole_.data(), memory_.land(host.data(), whole_.bytes()), whole_.bytes());
  }
  unsigned char* data() const { return static_cast<unsigned char*>(whole_.data()) + guard; }
  std::size_t bytes() const { return bytes_; }
  std::string damage() const {
    const auto hurt = [this](const unsigned char* from) {
      const std::vector<unsigned char> bytes = read(from, guard);
      return std::any_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != pattern; });
    };
    if (hurt(data() - guard)) return "before";
    return hurt(data() + bytes_) ? "after" : "";
  }
  std::vector<unsigned char> copy() const { return read(data(), bytes_); }
  void restore(const std::vector<unsigned char>& bytes) {
    memory_.copy(data(), memory_.land(bytes.data(), static_cast<std::int64_t>(bytes.size())),
                 static_cast<std::int64_t>(bytes.size()));
  }

 private:
  std::vector<unsigned char> read(const unsigned char* from, std::size_t bytes) const {
    std::vector<unsigned char> host(bytes);
    memory_.fetch(host.data(), from, static_cast<std::int64_t>(bytes));
    return host;
  }

  Memory& memory_;
  std::size_t bytes_;
  Storage whole_;
};

class Run {
 public:
  Run(const OpCase& row, const Precision& precision, KernelLibrary& library, bool plain)
      : row_(row), library_(library), lowered_(lower(graph_of(row, precision), library, {plain, {}})) {
    for (const Buffer& buffer : lowered_.buffers) {
      memory_.emplace_back(library_.memory(), buffer.bytes, 0xff);
      if (buffer.kind != Buffer::Kind::transient) feed(buffer.first, memory_.back());
    }
  }

  GuardedRun take() {
    for (LoweredStep& step : lowered_.steps) run(step);
    for (const auto& [name, place] : lowered_.outputs) {
      const HostTensor tensor = fetch(library_, name, place.type, place.format,
                                      memory_[static_cast<std::size_t>(place.buffer)].data());
      std::vector<double>& values = result_.results[name];
      for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        values.push_back(tensor.type.dtype == DType::f64   ? tensor.as<double>()[at]
                         : tensor.type.dtype == DType::i32 ? tensor.as<std::int32_t>()[at]
                         : tensor.type.dtype == DType::u8 ? static_cast<double>(tensor.as<std::uint8_t>()[at])
                                                          : static_cast<double>(tensor.as<float>()[at]));
      }
    }
    return std::move(result_);
  }

 private:
  void feed(const Placed& place, Guarded& target) {
    const std::size_t operand =
        std::stoul(lowered_.graph.value(place.value).name.substr(std::strlen("operand")));
    const std::vector<double> values = values_of(row_, operand);
    if (place.type.dtype == DType::i32) {
      const std::vector<std::int32_t> host(values.begin(), values.end());
      Inlet(library_, place.type, place.format, DType::i32).push(host.data(), target.data());
    } else if (place.type.dtype == DType::u8) {
      const std::vector<std::uint8_t> host(values.begin(), values.end());
      Inlet(library_, place.type, place.format, DType::u8).push(host.data(), target.data());
    } else if (place.type.dtype == DType::f64) {
      Inlet(library_, place.type, place.format, DType::f64).push(values.data(), target.data());
    } else {
      const std::vector<float> host(values.begin(), values.end());
      Inlet(library_, place.type, place.format, DType::f32).push(host.data(), target.data());
    }
    library_.synchronize();
  }

  void run(LoweredStep& step) {
    const Guarded scratch(library_.memory(), step.scratch_bytes, 0x5a);
    std::vector<void*> inputs, outputs;
    std::vector<std::vector<unsigned char>> before;
    for (const int b : step.inputs) {
      inputs.push_back(b == none ? nullptr : memory_[static_cast<std::size_t>(b)].data());
      before.push_back(b == none ? std::vector<unsigned char>()
                                 : memory_[static_cast<std::size_t>(b)].copy());
    }
    for (const int b : step.outputs)
      outputs.push_back(b == none ? nullptr : memory_[static_cast<std::size_t>(b)].data());
    step.kernel->bind(inputs, outputs, scratch.data());
    std::vector<std::vector<unsigned char>> first(step.outputs.size());
    for (int time = 0; time < 2; ++time) {
      // What the first run used up.
      for (const std::size_t i : step.overwritten)
        memory_[static_cast<std::size_t>(step.inputs[i])].restore(before[i]);
      Kernel* const kernel = step.kernel.get();
      library_.run({&kernel, 1});
      library_.synchronize();
      for (std::size_t o = 0; o < step.outputs.size(); ++o) {
        if (step.outputs[o] == none) continue;
        const Guarded& memory = memory_[static_cast<std::size_t>(step.outputs[o])];
        check(memory, step, fmt::format("result {}", o));
        if (time == 0) first[o] = memory.copy();
        if (time == 1 && first[o] != memory.copy()) {
          result_.faults.push_back(
              fmt::format("{} ({}) gave another result {} the second time", step.node, step.op, o));
        }
      }
    }
    check(scratch, step, "its scratch");
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] == none) continue;
      const Guarded& memory = memory_[static_cast<std::size_t>(step.inputs[i])];
      check(memory, step, fmt::format("operand {}", i));
      const bool may =
          std::find(step.overwritten.begin(), step.overwritten.end(), i) != step.overwritten.end();
      if (!may && memory.copy() != before[i]) {
        result_.faults.push_back(fmt::format("{} ({}) changed its operand {}", step.node, step.op, i));
      }
    }
  }

  void check(const Guarded& memory, const LoweredStep& step, const std::string& what) {
    if (const std::string side = memory.damage(); !side.empty()) {
      result_.faults.push_back(fmt::format("{} ({}) wrote {} {}", step.node, step.op, side, what));
    }
  }

  const OpCase& row_;
  KernelLibrary& library_;
  LoweredGraph lowered_;
  std::vector<Guarded> memory_;  // by buffer
  GuardedRun result_;
};

}  // namespace

GuardedRun run_guarded(const OpCase& row, const Precision& precision, KernelLibrary& library, bool plain) {
  return Run(row, precision, library, plain).take();
}

}  // namespace assay::ops
