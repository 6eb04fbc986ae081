// CIFAR-10: the samples, or after an "n" the names of the classes.
#include "harness/conductor/data/sample_files.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_cifar10 {
namespace {

const std::filesystem::path path = "fuzz";

void read_names(std::string_view text) {
  const auto names = parse_cifar10_names(text, path);
  require(names.size() == cifar10_classes, "ten names");
}

void read_samples(Input input) {
  constexpr std::size_t record = 1 + cifar10_image_bytes;
  std::vector<std::byte> images;
  std::vector<std::int32_t> labels;
  parse_cifar10(input, path, static_cast<std::int64_t>(input.size() / record), images, labels);
  require(images.size() + labels.size() == input.size(), "every byte is of an image or a label");
  for (const std::int32_t label : labels)
    require(label >= 0 && label < cifar10_classes, "a label is a class");
}

const Registration here("cifar10", [](Input input) {
  if (text_of(input).starts_with('n'))
    read_names(text_of(input).substr(1));
  else
    read_samples(input);
});

}  // namespace
}  // namespace assay::fuzz::of_cifar10
