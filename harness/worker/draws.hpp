// What a program drops when it draws its own masks: told so that the share can be tested.
#pragma once

#include "harness/worker/checker.hpp"

namespace assay {

// "draws/<mask>" F32 (4) for each mask of the program: over the elements of which it can be told in two
// further steps, how many the first kept, how many the second kept, in how many the two agree, and how many
// there are. On the executable as it stands, at learning rate 0 and on slot 0; it draws again afterwards.
// Empty without dropout.
std::vector<HostTensor> draw_answers(Executable& executable, const CheckFeeds& feeds);

}  // namespace assay
