#include "harness/engine/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/engine/memory.hpp"

namespace assay {
namespace {

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40);  // stays a NaN
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

template <typename From, typename To>
void copy(const void* source, void* target, std::int64_t elements) {
  const auto* from = static_cast<const From*>(source);
  auto* to = static_cast<To*>(target);
  for (std::int64_t i = 0; i < elements; ++i) to[i] = static_cast<To>(from[i]);
}

void* writable(const void* pointer) { return const_cast<void*>(pointer); }

void apply(Kernel& kernel, const void* from, void* to) {
  void* const inputs[] = {writable(from)};
  void* const outputs[] = {to};
  kernel.bind(inputs, outputs, nullptr);
  kernel.run();
}

}  // namespace

void convert(const void* source, DType from, void* target, DType to, std::int64_t elements) {
  if (from == to) {
    std::memcpy(target, source, static_cast<std::size_t>(elements * size_of(to)));
  } else if (from == DType::f32 && to == DType::f64) {
    copy<float, double>(source, target, elements);
  } else if (from == DType::f32 && to == DType::i32) {
    copy<float, std::int32_t>(source, target, elements);
  } else if (from == DType::f64 && to == DType::f32) {
    copy<double, float>(source, target, elements);
  } else if (from == DType::f32 && to == DType::bf16) {
    for (std::int64_t i = 0; i < elements; ++i) {
      static_cast<std::uint16_t*>(target)[i] = to_bf16(static_cast<const float*>(source)[i]);
    }
  } else if (from == DType::bf16 && to == DType::f32) {
    for (std::int64_t i = 0; i < elements; ++i) {
      static_cast<float*>(target)[i] = from_bf16(static_cast<const std::uint16_t*>(source)[i]);
    }
  } else {
    throw CellError(
        fmt::format("[convert] got {} for {}: no such conversion", to_string(from), to_string(to)));
  }
}

Inlet::Inlet(KernelLibrary& library, const TensorType& type, const Format& format, DType from)
    : memory_(&library.memory()), type_(type), from_(from) {
  const Format plain = library.plain(type);
  if (from != type.dtype) converted_ = Storage(type.bytes(), "a staged batch");
  if (format != plain) reorder_ = library.reorder(type, plain, format);
}

void Inlet::push(const void* host, void* target) {
  const std::int64_t elements = type_.elements();
  if (!reorder_ && memory_->is_host()) return convert(host, from_, target, type_.dtype, elements);
  if (from_ != type_.dtype) {
    convert(host, from_, converted_.data(), type_.dtype, elements);
    host = converted_.data();
  }
  if (reorder_) return apply(*reorder_, memory_->land(host, type_.bytes()), target);
  // In pieces: what a memory keeps for landing stays as large as the largest of them.
  constexpr std::int64_t piece = std::int64_t{32} << 20;
  for (std::int64_t done = 0; done < type_.bytes(); done += piece) {
    const std::int64_t bytes = std::min(piece, type_.bytes() - done);
    const void* const landed = memory_->land(static_cast<const std::byte*>(host) + done, bytes);
    memory_->copy(static_cast<std::byte*>(target) + done, landed, bytes);
  }
}

HostTensor fetch(KernelLibrary& library, std::string name, const TensorType& type, const Format& format,
                 const void* source) {
  Memory& memory = library.memory();
  Storage plain, on_host;
  if (format != library.plain(type)) {
    plain = Storage(memory, type.bytes(), "a copy for the host");
    apply(*library.reorder(type, format, library.plain(type)), source, plain.data());
    library.synchronize();
    source = plain.data();
  }
  if (!memory.is_host()) {
    on_host = Storage(type.bytes(), "a copy of a device's memory");
    memory.fetch(on_host.data(), source, type.bytes());
    source = on_host.data();
  }
  const DType dtype = type.dtype == DType::bf16 ? DType::f32 : type.dtype;
  HostTensor tensor;
  tensor.name = std::move(name);
  tensor.type = {dtype, type.shape};
  tensor.bytes.resize(static_cast<std::size_t>(tensor.type.bytes()));
  convert(source, type.dtype, tensor.bytes.data(), dtype, type.elements());
  return tensor;
}

}  // namespace assay
