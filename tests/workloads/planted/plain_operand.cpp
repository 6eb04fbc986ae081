#include "tests/workloads/planted/plain_operand.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "harness/core/numerics.hpp"

namespace assay {

PlainOperand::PlainOperand(const TensorType& type, const Format& format, KernelLibrary& library)
    : type_(type),
      values_(type.elements() * size_of(DType::f32), "a planted operand"),
      elements_(type.bytes(), "a planted operand"),
      replacement_(format.bytes, "a replaced operand") {
  const Format plain = library.plain(type);
  if (format == plain) return;
  to_plain_ = library.reorder(type, format, plain);
  from_plain_ = library.reorder(type, plain, format);
}

std::span<float> PlainOperand::values() const {
  if (values_.data() == nullptr || pointer_ == nullptr) return {};
  return {static_cast<float*>(values_.data()), static_cast<std::size_t>(type_.elements())};
}

void PlainOperand::read(void* from, std::span<float> values) {
  void* elements = elements_.data();
  if (to_plain_) {
    to_plain_->bind(std::array{from}, std::array{elements}, nullptr);
    to_plain_->run();
    from = elements;
  }
  if (type_.dtype == DType::f32) {
    std::memcpy(values.data(), from, values.size_bytes());
  } else {
    std::transform(static_cast<std::uint16_t*>(from), static_cast<std::uint16_t*>(from) + values.size(),
                   values.begin(), from_bf16);
  }
}

void PlainOperand::write(std::span<const float> values, void* to) {
  void* elements = from_plain_ ? elements_.data() : to;
  if (type_.dtype == DType::f32) {
    std::memcpy(elements, values.data(), values.size_bytes());
  } else {
    std::ranges::transform(values, static_cast<std::uint16_t*>(elements), to_bf16);
  }
  if (!from_plain_) return;
  from_plain_->bind(std::array{elements}, std::array{to}, nullptr);
  from_plain_->run();
}

void PlainOperand::load() {
  if (const std::span<float> values = this->values(); !values.empty()) read(pointer_, values);
}

void PlainOperand::store() {
  if (const std::span<float> values = this->values(); !values.empty()) write(values, pointer_);
}

void PlainOperand::replace(std::span<const float> values) {
  replaced_ = !this->values().empty();
  if (replaced_) write(values, replacement_.data());
}

}  // namespace assay
