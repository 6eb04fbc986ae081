// A value that its source may not know.
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

namespace assay {

// In JSON three things: absent, if the version that wrote it did not ask for the value; null, if the source does not know
// it; the value. Without left_out_by_default() (fields.hpp), an absent value is written as null.
template <typename T>
class Reported {
 public:
  Reported() = default;  // nobody asked
  // Asked: the value, or std::nullopt if it is not known.
  template <typename U>
    requires std::convertible_to<U, std::optional<T>> && (!std::same_as<std::remove_cvref_t<U>, Reported>)
  Reported(U&& value) : asked_(true), value_(std::forward<U>(value)) {}

  bool is_asked() const { return asked_; }
  bool is_known() const { return value_.has_value(); }
  explicit operator bool() const { return is_known(); }
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }
  const T* operator->() const { return &*value_; }
  T* operator->() { return &*value_; }
  template <typename U>
  T value_or(U&& other) const {
    return value_.value_or(std::forward<U>(other));
  }
  const std::optional<T>& value() const { return value_; }

  void set_unknown() { *this = Reported(std::nullopt); }
  T& emplace() {
    asked_ = true;
    return value_.emplace();
  }
  bool operator==(const Reported&) const = default;

 private:
  bool asked_ = false;
  std::optional<T> value_{};
};

}  // namespace assay
