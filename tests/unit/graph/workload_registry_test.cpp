#include "workloads/workload_registry.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

Workload named(const char* name) {
  Workload made = find_workload("mlp");
  made.name = name;
  return made;
}

TEST(WorkloadRegistry, HasTheNetworksOfThisBuildAndThoseThatAreAdded) {
  WorkloadRegistry workloads;
  EXPECT_EQ(workloads.networks().size(), all_workloads().size());
  const Workload& mlp = workloads.network("mlp");
  const Workload& added = workloads.add(named("mine"));
  EXPECT_EQ(&workloads.network("mine"), &added);
  EXPECT_EQ(&workloads.network("mlp"), &mlp) << "cells keep pointing to it";
  const WorkloadRegistry moved = std::move(workloads);
  EXPECT_EQ(&moved.network("mine"), &added);
  EXPECT_EQ(WorkloadRegistry().find_network("mine"), nullptr) << "it is of that registry only";
}

TEST(WorkloadRegistry, RefusesANameThatIsTaken) {
  WorkloadRegistry workloads;
  workloads.add(named("mine"));
  for (const char* name : {"", "op/relu", "op/mine", "lenet5", "mine"})
    EXPECT_THROW(workloads.add(named(name)), GraphError) << name;
}

TEST(WorkloadRegistry, AnswersAMisspeltNameWithTheNearestOfItsOwn) {
  WorkloadRegistry workloads;
  workloads.add(named("detector"));
  EXPECT_THAT([&] { workloads.network("detecter"); },
              testing::ThrowsMessage<GraphError>(HasSubstr("did you mean 'detector'?")));
}

}  // namespace
}  // namespace assay
