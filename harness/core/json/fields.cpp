#include "harness/core/json/fields.hpp"

#include <algorithm>
#include <utility>

namespace assay {
namespace {

const void* moved(const void* address, std::size_t offset) {
  return static_cast<const char*>(address) + offset;
}
void* moved(void* address, std::size_t offset) { return static_cast<char*>(address) + offset; }

}  // namespace

const void* Field::of(const void* owner) const {
  if (!part) return moved(owner, offset);
  const void* there = part->get(moved(owner, part->offset));
  return moved(there ? there : part->initial(), offset);
}

void* Field::of(void* owner) const {
  return moved(part ? part->get_or_emplace(moved(owner, part->offset)) : owner, offset);
}

Field& Field::optional() {
  rules.may_be_missing = true;
  return *this;
}
Field& Field::left_out_by_default() {
  rules.left_out_by_default = true;
  return optional();
}
Field& Field::left_out_of_columns() {
  rules.left_out_of_columns = true;
  return optional();
}
Field& Field::in_columns() {
  rules.columns = true;
  return *this;
}
Field& Field::null_is_nan() {
  rules.null_is_nan = true;
  return *this;
}
Field& Field::at_least(double minimum) {
  rules.minimum = minimum;
  return *this;
}
Field& Field::between(double minimum, double maximum) {
  rules.maximum = maximum;
  return at_least(minimum);
}
Field& Field::not_empty() {
  rules.min_length = 1;
  return *this;
}
Field& Field::inline_before() {
  rules.inline_before = true;
  return *this;
}
Field& Field::object() {
  rules.object = true;
  return *this;
}
Field& Field::unique() {
  rules.unique = true;
  return *this;
}

Description Description::followed_by(const Description& base) && {
  list.insert(list.end(), base.list.begin(), base.list.end());
  return std::move(*this);
}

const Field* Description::find(std::string_view key) const {
  const auto found = std::ranges::find(list, key, &Field::key);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace assay
