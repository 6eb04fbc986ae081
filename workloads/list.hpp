// The workloads of this build, each in a file of its own.
#pragma once

#include "workloads/workload.hpp"

namespace assay {

Workload mlp();
Workload lenet5();
Workload cnn();
Workload resnet56();
Workload resnet50();
Workload lstm();
Workload cifar10_cnn();
Workload alexnet();
Workload overfeat();
Workload vgg_a();
Workload googlenet();

}  // namespace assay
