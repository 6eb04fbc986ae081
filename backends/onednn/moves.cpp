// Ops that only move elements: concat, slice and transpose, by oneDNN's concat and by reorders of a part or
// of exchanged dimensions.
#include <algorithm>
#include <cstring>

#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

int axis_of(const Request& request) {
  return static_cast<int>(request.node.attributes.get<std::int64_t>("axis"));
}

// The tags to try for an image whose channels are joined or cut. Blocked ones only if every part consists of
// whole blocks, so that the middle has no padding.
std::vector<Tag> image_tags(const Request& request, const std::vector<Desc>& offered,
                            std::span<const std::int64_t> channels) {
  std::vector<Tag> tags;
  if (request.offer.plain) return tags;
  const auto whole = [&](std::int64_t block) {
    return std::ranges::all_of(channels, [=](std::int64_t c) { return c % block == 0; });
  };
  for (const Desc& desc : offered) {
    const Tag tag = desc.is_zero() ? Tag::undef : image_tag(desc);
    const bool fits =
        tag == Tag::nhwc || (tag == Tag::nChw16c && whole(16)) || (tag == Tag::nChw8c && whole(8));
    if (fits) tags.push_back(tag);
  }
  return tags;
}

Lowered lower_concat(const Request& request) {
  const std::size_t count = request.node.inputs.size();
  std::vector<Desc> offered;
  std::vector<std::int64_t> channels;
  for (std::size_t i = 0; i < count; ++i) offered.push_back(request.input_desc(i));
  offered.push_back(request.output_desc(0));
  const bool image = request.outputs[0].shape.size() == 4;
  if (image) {
    for (const TensorType& x : request.inputs) channels.push_back(x.shape[1]);
  }
  std::vector<Tag> tags = image ? image_tags(request, offered, channels) : std::vector<Tag>{};
  tags.push_back(Tag::undef);
  const auto desc_of = [](const TensorType& type, Tag tag) {
    return tag == Tag::undef ? row_major(type) : with_tag(type, tag);
  };
  const auto chosen = choose(request.node, tags, [&](Tag tag) {
    std::vector<Desc> parts;
    for (const TensorType& x : request.inputs) parts.push_back(desc_of(x, tag));
    return ASSAY_ONEDNN(dnnl::concat::primitive_desc(request.context.engine, desc_of(request.outputs[0], tag),
                                                     axis_of(request), parts, attributes()));
  });
  Lowered lowered = draft(request);
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::concat(chosen)));
  for (std::size_t i = 0; i < count; ++i) {
    const Desc part = chosen.src_desc(static_cast<int>(i));
    lowered.inputs[i] = to_format(part);
    kernel->input(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), part, i);
  }
  lowered.outputs[0] = to_format(chosen.dst_desc());
  kernel->output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// The format in which a part is cut out of `whole`: the part packed, and the part in place, `offset` bytes
// after the beginning. (oneDNN reports a size of 0 for a descriptor with an offset.)
struct Cut {
  Desc whole, part, part_within;
  std::int64_t offset = 0;
};

Cut cut(const Request& request, const TensorType& whole, const TensorType& part, const Desc& offered) {
  const auto axis = static_cast<std::size_t>(axis_of(request));
  const std::int64_t begin = request.node.attributes.get<std::int64_t>("begin");
  std::vector<Tag> tags;
  if (whole.shape.size() == 4) {
    const std::array<std::int64_t, 3> channels{whole.shape[1], part.shape[1], axis == 1 ? begin : 0};
    tags = image_tags(request, {offered}, channels);
  }
  Cut result;
  result.whole = tags.empty() ? row_major(whole) : with_tag(whole, tags.front());
  result.part = tags.empty() ? row_major(part) : with_tag(part, tags.front());
  const dnnl::memory::dims nothing(whole.shape.size(), 0);
  result.part_within = ASSAY_ONEDNN(result.whole.submemory_desc(to_dims(part.shape), nothing));
  // Strides are those of whole blocks.
  std::int64_t block = 1;
  const auto blocks = result.whole.get_inner_blks(), axes = result.whole.get_inner_idxs();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (axes[i] == axis_of(request)) block *= blocks[i];
  }
  result.offset = begin / block * result.whole.get_strides()[axis] * size_of(whole.dtype);
  return result;
}

std::unique_ptr<PrimitiveKernel> reorder(const Request& request, const Desc& from, const Desc& to,
                                         Lowered& lowered) {
  const auto chosen = ASSAY_ONEDNN(
      dnnl::reorder::primitive_desc(request.context.engine, from, request.context.engine, to, attributes()));
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::reorder(chosen)));
  kernel->input(DNNL_ARG_FROM, from, 0).output(DNNL_ARG_TO, to, 0);
  kernel->scratch(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), 0);
  lowered.scratch_bytes = static_cast<std::int64_t>(chosen.scratchpad_desc().get_size());
  return kernel;
}

// Copies between a packed part and its place in the whole; if the whole is the result, first fills it with
// zeros.
class PartKernel final : public Kernel {
 public:
  PartKernel(int threads, std::int64_t offset, std::int64_t zeros, std::unique_ptr<Kernel> copy)
      : threads_(threads), offset_(offset), zeros_(zeros), copy_(std::move(copy)) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    to_ = static_cast<char*>(outputs[0]);
    void* const from = static_cast<char*>(inputs[0]) + (zeros_ > 0 ? 0 : offset_);
    void* const to = to_ + (zeros_ > 0 ? offset_ : 0);
    copy_->bind({&from, 1}, {&to, 1}, scratch);
  }
  // The library's copy; with zeros also a loop of ours.
  std::string_view implementation() const override {
    return zeros_ > 0 ? std::string_view{} : copy_->implementation();
  }
  void run() override {
    constexpr std::int64_t grain = 1 << 16;
    parallel(threads_, zeros_, grain, [this](std::int64_t begin, std::int64_t end) {
      std::memset(to_ + begin, 0, static_cast<std::size_t>(end - begin));
    });
    copy_->run();
  }

 private:
  int threads_;
  std::int64_t offset_, zeros_;  // bytes
  std::unique_ptr<Kernel> copy_;
  char* to_ = nullptr;
};

Lowered lower_slice(const Request& request) {
  Lowered lowered = draft(request);
  const Cut parts = cut(request, request.inputs[0], request.outputs[0], request.input_desc(0));
  lowered.inputs[0] = to_format(parts.whole);
  lowered.outputs[0] = to_format(parts.part);
  auto copy = reorder(request, parts.part_within, parts.part, lowered);
  lowered.kernel = std::make_unique<PartKernel>(request.context.threads, parts.offset, 0, std::move(copy));
  return lowered;
}

Lowered lower_slice_gradient(const Request& request) {
  Lowered lowered = draft(request);
  const Cut parts = cut(request, request.outputs[0], request.inputs[0], request.input_desc(0));
  lowered.inputs[0] = to_format(parts.part);
  lowered.outputs[0] = to_format(parts.whole);
  auto copy = reorder(request, parts.part, parts.part_within, lowered);
  lowered.kernel = std::make_unique<PartKernel>(request.context.threads, parts.offset,
                                                lowered.outputs[0].bytes, std::move(copy));
  return lowered;
}

Lowered lower_transpose(const Request& request) {
  const auto& permutation = request.node.attributes.get<std::vector<std::int64_t>>("permutation");
  Lowered lowered = draft(request);
  const Desc from = row_major(request.inputs[0]), to = row_major(request.outputs[0]);
  lowered.inputs[0] = to_format(from);
  lowered.outputs[0] = to_format(to);
  // permute_axes() takes the new position of each dimension: x's dimension permutation[i] becomes the i-th.
  std::vector<int> goes_to(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    goes_to[static_cast<std::size_t>(permutation[i])] = static_cast<int>(i);
  }
  const Desc seen = permutation.empty() ? from : ASSAY_ONEDNN(from.permute_axes(goes_to));
  lowered.kernel = reorder(request, seen, to, lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> move_ops() {
  static constexpr std::array entries{
      OpEntry{"concat", lower_concat, true}, OpEntry{"slice", lower_slice, true},
      OpEntry{"slice_gradient", lower_slice_gradient}, OpEntry{"transpose", lower_transpose, true}};
  return entries;
}

}  // namespace assay::onednn
