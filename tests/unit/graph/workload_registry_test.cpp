#include "workloads/workload_registry.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "tests/network_json.hpp"
#include "tests/temporary_folder.hpp"
#include "workloads/imported_network.hpp"

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

TEST(WorkloadRegistry, ReadsANetworkFromItsFolderOnce) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "mine");
  const auto write = [&](const nlohmann::json& network) {
    write_atomically(folder / "mine" / network_file_name, network.dump(), false);
  };
  nlohmann::json network = small_network_json();
  write(network);
  const std::string path = (folder / "mine").string();
  EXPECT_TRUE(WorkloadRegistry::is_folder(path));
  EXPECT_FALSE(WorkloadRegistry::is_folder("op/relu"));
  EXPECT_FALSE(WorkloadRegistry::is_folder("mine"));

  WorkloadRegistry workloads;
  const Workload& read = workloads.add_folder(path);
  const std::string text = read.imported->text();
  EXPECT_EQ(text, path + "@" + read.imported->digest);
  for (const std::string& same : {path, path + "/", text})
    EXPECT_EQ(&workloads.add_folder(same), &read) << same;
  EXPECT_EQ(&workloads.network(path), &read);
  EXPECT_EQ(&workloads.network(read.name), &read);
  EXPECT_EQ(workloads.networks().size(), all_workloads().size() + 1);

  std::filesystem::create_directory(folder / "copy");
  std::filesystem::create_directory(folder / "copy/mine");
  std::filesystem::copy_file(folder / "mine" / network_file_name, folder / "copy/mine" / network_file_name);
  EXPECT_THAT([&] { workloads.add_folder((folder / "copy/mine").string()); },
              testing::ThrowsMessage<GraphError>(HasSubstr("rename one of the folders")));
  EXPECT_THAT([&] { workloads.add_folder(path + "2"); },
              testing::ThrowsMessage<GraphError>(HasSubstr("no such folder")));
  network["nodes"][1]["attributes"]["epsilon"] = 1e-3;
  write(network);
  WorkloadRegistry later;
  EXPECT_THAT([&] { later.add_folder(text); },
              testing::ThrowsMessage<GraphError>(HasSubstr("has the digest")));
  EXPECT_NE(later.add_folder(path).name, read.name);
}

}  // namespace
}  // namespace assay
