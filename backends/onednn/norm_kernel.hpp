// Batch norm in loops of our own: two passes over the data forward and two backward, with everything that
// fusion hangs on to them inside, on images in blocks of channels as the convolutions leave them.
#pragma once

#include <memory>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// Whether the images of a node of these shapes lie so that the loops work on 16 channels at a time. They take
// any other dense layout, too, channel by channel.
bool has_channel_blocks(const Desc& images);

// x: the layout of all images of the node, one of image_tag()'s without padding. The formats of the operands
// and results are in `lowered` already; adds the kernel, its scratch and what may lie over what.
void lower_norm(const Request& request, const Desc& x, Lowered& lowered);
void lower_norm_gradient(const Request& request, const Desc& x, Lowered& lowered);

}  // namespace assay::onednn
