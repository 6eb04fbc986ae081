#include "harness/conductor/run/published_weights.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/graph/builder.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

HostTensor tensor(const std::string& name, const Shape& shape, float first) {
  HostTensor made = HostTensor::zeros(name, {DType::f32, shape});
  for (float& value : made.as<float>()) value = first++;
  return made;
}

// A layer "fc" with a norm, and a head that no file has.
PublishedNetwork tiny_network() {
  PublishedNetwork network{
      "tiny",
      {.prefix = "model.", .renamed = {{"norm.weight", "norm.gamma"}}, .without = {"head."}},
      Graph("tiny")};
  GraphBuilder b(network.graph);
  const ValueId x = b.linear("fc", b.input("inputs", {2, 3}), 4, false);
  const ValueId scale = b.parameter("norm.weight", {4}, "ones");
  b.linear("head", b.add(x, scale), 2);
  return network;
}

struct File {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "tiny.safetensors";

  explicit File(const std::vector<HostTensor>& tensors) { write_safetensors(path, tensors); }
  PublishedWeights read() const {
    const std::vector<PublishedNetwork> networks{tiny_network()};
    return {path, networks};
  }
  std::string reason() const {
    try {
      read();
    } catch (const IoError& error) {
      return error.what();
    }
    return "read";
  }
};

TEST(PublishedWeights, ReplaceTheParametersThatTheFileHas) {
  const File file(
      {tensor("fc.weight", {4, 3}, 10), tensor("norm.weight", {4}, 50), tensor("pooler", {7}, 0)});
  const PublishedWeights weights = file.read();
  std::vector<HostTensor> parameters{tensor("fc.weight", {4, 3}, 0), tensor("norm.weight", {4}, 0),
                                     tensor("head.weight", {2, 4}, 3)};
  weights.put_into(parameters, tiny_network().tensors);
  EXPECT_EQ(parameters[0].bytes, tensor("", {4, 3}, 10).bytes);
  EXPECT_EQ(parameters[1].bytes, tensor("", {4}, 50).bytes);
  EXPECT_EQ(parameters[2].bytes, tensor("", {2, 4}, 3).bytes) << "the head is drawn";
  EXPECT_EQ(weights.file().sha256, sha256_of_file(file.path));
  EXPECT_EQ(weights.file().name, file.path.string());
}

TEST(PublishedWeights, AreFoundUnderAPrefixAndUnderOtherNames) {
  const File file({tensor("model.fc.weight", {4, 3}, 10), tensor("model.norm.gamma", {4}, 50)});
  std::vector<HostTensor> parameters{tensor("fc.weight", {4, 3}, 0), tensor("norm.weight", {4}, 0)};
  file.read().put_into(parameters, tiny_network().tensors);
  EXPECT_EQ(parameters[0].bytes, tensor("", {4, 3}, 10).bytes);
  EXPECT_EQ(parameters[1].bytes, tensor("", {4}, 50).bytes);
}

TEST(PublishedWeights, AreRefusedWithFileTensorAndShapeIfOneDoesNotFit) {
  const File missing({tensor("fc.weight", {4, 3}, 10)});
  EXPECT_THAT(missing.reason(), AllOf(HasSubstr(missing.path.string()), HasSubstr("no tensor 'norm.weight'"),
                                      HasSubstr("f32 (4)"), HasSubstr("tiny")));
  const File shape({tensor("fc.weight", {3, 4}, 10), tensor("norm.weight", {4}, 0)});
  EXPECT_THAT(shape.reason(), AllOf(HasSubstr(shape.path.string()), HasSubstr("'fc.weight' is f32 (3, 4)"),
                                    HasSubstr("needs f32 (4, 3)")));
  const File type({HostTensor::zeros("fc.weight", {DType::f64, {4, 3}}), tensor("norm.weight", {4}, 0)});
  EXPECT_THAT(type.reason(), HasSubstr("'fc.weight' is f64 (4, 3)"));
}

Cell cell_of(const std::string& workload) {
  Cell cell;
  cell.axes.workload = workload;
  cell.axes.dataset = "synthetic";
  cell.axes.optimizer = "adam";
  cell.axes.batch = 2;
  return cell;
}

TEST(PublishedNetworks, AreThoseOfTheCellsEachOnce) {
  const auto networks = published_networks({cell_of("minilm"), cell_of("bert-base"), cell_of("minilm")});
  ASSERT_EQ(networks.size(), 2U);
  EXPECT_EQ(networks[0].name, "minilm");
  EXPECT_EQ(networks[1].name, "bert-base");
}

TEST(PublishedNetworks, RefuseAWorkloadWithoutPublishedWeights) {
  Cell op;
  op.axes.workload = "op/relu";
  op.axes.size = "4096";
  op.subject = OpCell{};
  for (const Cell& cell : {cell_of("lenet5"), op}) {
    try {
      published_networks({cell});
      FAIL() << cell.axes.workload;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(cell.axes.workload), HasSubstr("minilm, bert-base")));
    }
  }
}

}  // namespace
}  // namespace assay
