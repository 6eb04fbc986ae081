// What the work of a cell is called in plain words, for pictures and pages.
#pragma once

#include <string>

#include "harness/report/axes.hpp"

namespace assay {

struct Heading {
  std::string title;  // "lenet5, training, batch 200"
  std::string about;  // what else was set: "fp32, fashion-mnist, adam, cpu, 2 threads, …, steps"
};

// Of a network with its batch, of a single op at all of its sizes.
Heading group_heading(const Axes& axes);
// The same without the batch.
Heading family_heading(const Axes& axes);

}  // namespace assay
