// The networks of this build, one per line, in the order of `assay list`. Each is a function
// `Workload <name>()` in workloads/<name>.cpp; variants of a network share a file.
#pragma once

#include "workloads/workload.hpp"

#define ASSAY_WORKLOADS(X) \
  X(mlp)                   \
  X(lenet5)                \
  X(cnn)                   \
  X(resnet56)              \
  X(resnet50)              \
  X(resnet50_keras)        \
  X(lstm)                  \
  X(cifar10_cnn)           \
  X(alexnet)               \
  X(overfeat)              \
  X(vgg_a)                 \
  X(googlenet)             \
  X(googlenet_bn)          \
  X(vit_tiny)              \
  X(minilm)                \
  X(bert_base)             \
  X(nanogpt)               \
  X(gpt2_small)

namespace assay {

#define ASSAY_DECLARE(name) Workload name();
ASSAY_WORKLOADS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay
