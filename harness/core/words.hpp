// The words of an enum: one table for each enum, which is used to print it, to read it, to list it in errors
// and to make schemas. To give an enum its words, specialize `words` next to it, in the namespace assay:
//
//   template <>
//   inline constexpr auto words<Task> = std::array{Word{Task::train, "train"}, Word{Task::infer, "infer"}};
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace assay {

template <typename E>
struct Word {
  E value;
  std::string_view text;
};
template <typename E>
Word(E, const char*) -> Word<E>;

template <typename E>
inline constexpr std::nullptr_t words = nullptr;

// An enum with a table of words.
template <typename E>
concept Worded = std::is_enum_v<E> && !std::same_as<decltype(words<E>), const std::nullptr_t>;

// Throws std::logic_error for a value that has no word: a bug of ours.
template <Worded E>
constexpr std::string_view to_string(E value) {
  for (const auto& word : words<E>)
    if (word.value == value) return word.text;
  throw std::logic_error("an enum's value has no word");
}

template <Worded E>
constexpr std::optional<E> from_word(std::string_view text) {
  for (const auto& word : words<E>)
    if (word.text == text) return word.value;
  return std::nullopt;
}

// The words without their values: {"train", "infer"}.
template <Worded E>
inline constexpr auto word_texts = [] {
  std::array<std::string_view, words<E>.size()> texts;
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = words<E>[i].text;
  return texts;
}();

// The words of a list of values: {"train", "infer"}.
template <Worded E>
std::vector<std::string_view> texts_of(const std::vector<E>& values) {
  std::vector<std::string_view> texts;
  for (const E value : values) texts.push_back(to_string(value));
  return texts;
}

// "train, infer"
template <Worded E>
std::string list_of_words() {
  std::string list;
  for (const auto& word : words<E>) (list += list.empty() ? "" : ", ") += word.text;
  return list;
}

}  // namespace assay
