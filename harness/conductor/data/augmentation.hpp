// How the training images of an epoch are varied: random crops and mirroring, drawn into the epoch's plan.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// He et al. 2015, section 4.2: "4 pixels are padded on each side, and a 32x32 crop is randomly sampled from
// the padded image or its horizontal flip".
struct Augmentation {
  int crop = 0;       // padding on each side: the crop's offset is drawn from [-crop, crop], each way
  bool flip = false;  // mirrored left to right, half of the time

  bool none() const { return crop == 0 && !flip; }
  // "none", "crop:4", "flip", "crop:4+flip".
  std::string text() const;
  // What text() gives, in either order. Throws DataError naming the forms.
  static Augmentation parse(std::string_view text);
  bool operator==(const Augmentation&) const = default;
};

}  // namespace assay
