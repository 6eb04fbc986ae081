// Batch norm in our own loops: two passes over the data forward and two backward, including all ops that
// fusion attaches, on images in blocks of channels as the convolutions write them.
#pragma once

#include <memory>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// oneDNN's gradient of a batch norm gets a variance that has the epsilon of the graph in it, and so needs no other.
// With 0 it divides by 0 where a block of channels is not full, and NaN goes from there to the layer before.
inline constexpr float min_epsilon = 1e-30F;

// Whether the layout of a node's images lets the loops work on 16 channels at a time. The loops also accept
// any other dense layout, channel by channel.
bool has_channel_blocks(const Desc& images);

// x: the layout of all images of the node, one of image_tag()'s without padding. `lowered` already has the
// formats of the operands and results; this adds the kernel, its scratch and which values may share memory.
void lower_norm(const Request& request, const Desc& x, Lowered& lowered);
void lower_norm_gradient(const Request& request, const Desc& x, Lowered& lowered);

}  // namespace assay::onednn
