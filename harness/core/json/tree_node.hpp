// A node of the JSON tree that a decoder reads, and its place in that tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace assay {

// Whether an integer could be read, and if not, why.
enum class IntegerFault { fits, not_an_integer, out_of_range };

template <typename T, typename Number>
IntegerFault fit_integer(Number number, T& out) {
  if (!std::in_range<T>(number)) return IntegerFault::out_of_range;
  out = static_cast<T>(number);
  return IntegerFault::fits;
}

// A value in a tree of nlohmann::json; borrows from it.
class TreeNode {
 public:
  explicit TreeNode(const nlohmann::json& value) : value_(&value) {}

  bool is_null() const { return value_->is_null(); }
  bool is_array() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }
  const char* type_name() const { return value_->type_name(); }
  std::size_t size() const { return value_->size(); }
  bool get(bool& out) const { return value_->is_boolean() && (out = value_->get<bool>(), true); }
  bool get(double& out) const { return value_->is_number() && (out = value_->get<double>(), true); }
  bool get(std::string_view& out) const {
    return value_->is_string() && (out = value_->get_ref<const std::string&>(), true);
  }
  template <typename T>
  IntegerFault get_integer(T& out) const {
    if (value_->is_number_unsigned()) return fit_integer(value_->get<std::uint64_t>(), out);
    if (value_->is_number_integer()) return fit_integer(value_->get<std::int64_t>(), out);
    return IntegerFault::not_an_integer;
  }
  template <typename Visit>
  void each_item(const Visit& visit) const {
    for (const nlohmann::json& item : *value_) visit(TreeNode(item));
  }
  template <typename Visit>
  void each_member(const Visit& visit) const {
    for (auto item = value_->begin(); item != value_->end(); ++item)
      visit(std::string_view(item.key()), TreeNode(*item));
  }
  nlohmann::json copy() const { return *value_; }

 private:
  const nlohmann::json* value_;
};

// The decoder's position: a chain on the stack, so that a path costs nothing until an error needs it.
class JsonPlace {
 public:
  explicit JsonPlace(std::string_view root) : key_(root) {}
  JsonPlace(const JsonPlace& parent, std::string_view key) : parent_(&parent), key_(key) {}
  JsonPlace(const JsonPlace& parent, std::size_t index) : parent_(&parent), index_(index) {}

  // "run.json/cells/3/forks/0"
  std::string path() const {
    if (!parent_) return std::string(key_);
    constexpr std::size_t shown = 80;  // of a key that somebody else wrote
    const std::string step = key_.data() ? std::string(key_.substr(0, shown)) : std::to_string(index_);
    const std::string above = parent_->path();
    return above.empty() ? step : above + "/" + step;
  }

 private:
  const JsonPlace* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
};

}  // namespace assay
