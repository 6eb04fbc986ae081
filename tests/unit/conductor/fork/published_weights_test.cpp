#include "harness/conductor/fork/published_weights.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/numerics.hpp"
#include "harness/graph/builder.hpp"
#include "tests/network_json.hpp"
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

// What --weights names, in a folder of its own.
struct Named {
  TemporaryFolder folder;
  std::filesystem::path path;

  explicit Named(const char* name) : path(folder / name) {}
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

struct File : Named {
  explicit File(const std::vector<HostTensor>& tensors) : Named("tiny.safetensors") {
    write_safetensors(path, tensors);
  }
};

TEST(PublishedWeights, ReplaceTheParametersThatTheFileHas) {
  const File file(
      {tensor("fc.weight", {4, 3}, 10), tensor("norm.weight", {4}, 50), tensor("pooler", {7}, 0)});
  const PublishedWeights weights = file.read();
  std::vector<HostTensor> parameters{tensor("fc.weight", {4, 3}, 0), tensor("norm.weight", {4}, 0),
                                     tensor("head.weight", {2, 4}, 3)};
  weights.put_into(parameters, "tiny");
  EXPECT_EQ(parameters[0].bytes, tensor("", {4, 3}, 10).bytes);
  EXPECT_EQ(parameters[1].bytes, tensor("", {4}, 50).bytes);
  EXPECT_EQ(parameters[2].bytes, tensor("", {2, 4}, 3).bytes) << "the head is drawn";
  EXPECT_EQ(weights.file().sha256, sha256_of_file(file.path));
  EXPECT_EQ(weights.file().name, file.path.string());
}

TEST(PublishedWeights, AreFoundUnderAPrefixAndUnderOtherNames) {
  const File file({tensor("model.fc.weight", {4, 3}, 10), tensor("model.norm.gamma", {4}, 50)});
  std::vector<HostTensor> parameters{tensor("fc.weight", {4, 3}, 0), tensor("norm.weight", {4}, 0)};
  file.read().put_into(parameters, "tiny");
  EXPECT_EQ(parameters[0].bytes, tensor("", {4, 3}, 10).bytes);
  EXPECT_EQ(parameters[1].bytes, tensor("", {4}, 50).bytes);
}

TEST(PublishedWeights, AreRefusedWithFileTensorAndShapeIfOneDoesNotFit) {
  const File missing({tensor("fc.weight", {4, 3}, 10)});
  EXPECT_THAT(missing.reason(), AllOf(HasSubstr(missing.path.string()), HasSubstr("no tensor 'norm.weight'"),
                                      HasSubstr("f32 (4)"), HasSubstr("tiny")));
  const File shape({tensor("fc.weight", {3, 4}, 10), tensor("norm.weight", {4}, 0)});
  EXPECT_THAT(shape.reason(), AllOf(HasSubstr(shape.path.string()), HasSubstr("'fc.weight' is F32 (3, 4)"),
                                    HasSubstr("must be (4, 3)")));
  const File type({HostTensor::zeros("fc.weight", {DType::f64, {4, 3}}), tensor("norm.weight", {4}, 0)});
  EXPECT_THAT(type.reason(), AllOf(HasSubstr("'fc.weight' is F64 (4, 3)"), HasSubstr("F32, BF16 or F16")));
}

TEST(PublishedWeights, AreRefusedIfAValueIsNotFinite) {
  for (const float bad : {NAN, INFINITY, 1e20F}) {
    HostTensor norm = tensor("norm.weight", {4}, 0);
    norm.as<float>()[2] = bad;
    const File file({tensor("fc.weight", {4, 3}, 10), norm});
    EXPECT_THAT(file.reason(), AllOf(HasSubstr(file.path.string()),
                                     HasSubstr("tensor 'norm.weight' has at element 2 the value")));
  }
  HostTensor unused = tensor("pooler", {4}, 0);
  unused.as<float>()[0] = NAN;
  EXPECT_EQ(File({tensor("fc.weight", {4, 3}, 10), tensor("norm.weight", {4}, 0), unused}).reason(), "read");
}

TEST(PublishedWeights, OfHalfPrecisionBecomeF32) {
  HostTensor norm = HostTensor::zeros("norm.weight", {DType::bf16, {4}});
  norm.as<std::uint16_t>()[1] = to_bf16(-2.5F);
  const File file({tensor("fc.weight", {4, 3}, 10), norm});
  // The same bytes as f16: 0xc020 is -2.0625.
  std::string text = read_text(file.path);
  for (const auto& [type, value] : {std::pair{"BF16", -2.5F}, {"F16", -2.0625F}}) {
    std::string header = text;
    if (const auto at = header.find("\"BF16\""); std::string_view(type) == "F16")
      header.replace(at, 6, "\"F16\" ");
    write_atomically(file.path, header, false);
    std::vector<HostTensor> parameters{tensor("norm.weight", {4}, 7)};
    file.read().put_into(parameters, "tiny");
    EXPECT_EQ(parameters[0].as<float>()[0], 0) << type;
    EXPECT_EQ(parameters[0].as<float>()[1], value) << type;
  }
}

// A model in two files and its index.
struct Sharded : Named {
  explicit Sharded(const std::string& map = R"("fc.weight": "1.safetensors", "norm.weight": "2.safetensors")")
      : Named("model.safetensors.index.json") {
    write_safetensors(folder / "1.safetensors", std::vector{tensor("fc.weight", {4, 3}, 10)});
    write_safetensors(folder / "2.safetensors", std::vector{tensor("norm.weight", {4}, 50)});
    write_atomically(path, R"({"metadata": {"total_size": 64}, "weight_map": {)" + map + "}}", false);
  }
};

TEST(PublishedWeights, OfSeveralFilesAreReadByTheirIndex) {
  const Sharded model;
  const PublishedWeights weights = model.read();
  std::vector<HostTensor> parameters{tensor("fc.weight", {4, 3}, 0), tensor("norm.weight", {4}, 0)};
  weights.put_into(parameters, "tiny");
  EXPECT_EQ(parameters[0].bytes, tensor("", {4, 3}, 10).bytes);
  EXPECT_EQ(parameters[1].bytes, tensor("", {4}, 50).bytes);
  EXPECT_EQ(weights.file().name, model.path.string());
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(model.folder.path()))
    bytes += static_cast<std::int64_t>(entry.file_size());
  EXPECT_EQ(weights.file().bytes, bytes);
  write_safetensors(model.folder / "2.safetensors", std::vector{tensor("norm.weight", {4}, 51)});
  EXPECT_NE(model.read().file().sha256, weights.file().sha256);
}

TEST(PublishedWeights, AreRefusedIfTheIndexNamesOtherFiles) {
  const Sharded missing(R"("fc.weight": "1.safetensors", "norm.weight": "3.safetensors")");
  EXPECT_THAT(missing.reason(), HasSubstr("index.json: names 3.safetensors for the tensor 'norm.weight'"));
  const Sharded wrong(R"("fc.weight": "2.safetensors", "norm.weight": "2.safetensors")");
  EXPECT_THAT(wrong.reason(),
              AllOf(HasSubstr("2.safetensors: has no tensor 'fc.weight'"), HasSubstr("index")));
  const Sharded absent(R"("fc.weight": "1.safetensors")");
  EXPECT_THAT(absent.reason(), HasSubstr("has no tensor 'norm.weight'"));
  for (const char* name : {"../1.safetensors", "/1.safetensors", "..", ""})
    EXPECT_THAT(Sharded(fmt::format(R"("fc.weight": "{}")", name)).reason(),
                HasSubstr("not the name of a file next to the index"));
  const Sharded other;
  write_atomically(other.path, R"({"architectures": ["BertModel"]})", false);
  EXPECT_THAT(other.reason(), HasSubstr("weight_map"));
  EXPECT_THAT(Sharded("").reason(), HasSubstr("names no tensor"));
  std::string wide("\xff\xfe", 2);
  for (const char c : std::string(R"({"weight_map": {}})")) wide += std::string{c, '\0'};
  write_atomically(other.path, wide, false);
  EXPECT_THAT(other.reason(), HasSubstr("UTF-16"));
}

TEST(PublishedWeights, NameWhatAnotherFileIs) {
  const File file({tensor("fc.weight", {4, 3}, 10)});
  write_atomically(file.path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90868376\n",
                   false);
  EXPECT_THAT(file.reason(), HasSubstr("pointer of Git LFS; get the file itself with git lfs pull"));
  write_atomically(file.path, std::string("PK\x03\x04") + std::string(100, 'x'), false);
  EXPECT_THAT(file.reason(), HasSubstr("ZIP"));
  write_atomically(file.path, "<!DOCTYPE html><html><title>404</title></html>", false);
  EXPECT_THAT(file.reason(), HasSubstr("a web page"));
}

Cell cell_of(const std::string& workload) {
  Cell cell;
  cell.axes.workload = workload;
  cell.axes.dataset = "synthetic";
  cell.axes.optimizer = "adam";
  cell.axes.batch = 2;
  cell.network().workload = &find_workload(workload);
  cell.program = std::make_shared<const Program>(cell.build());
  return cell;
}

TEST(PublishedNetworks, AreThoseOfTheCellsEachOnce) {
  const auto networks =
      published_networks({cell_of("minilm"), cell_of("bert-base"), cell_of("minilm")}, {}, true);
  ASSERT_EQ(networks.size(), 2U);
  EXPECT_EQ(networks[0].name, "minilm");
  EXPECT_EQ(networks[1].name, "bert-base");
}

TEST(PublishedNetworks, RefuseAWorkloadWithoutPublishedWeights) {
  Cell op;
  op.axes.workload = "op/relu";
  op.axes.size = "4096";
  op.subject = OpCell{&find_op_workload("op/relu")};
  for (const Cell& cell : {cell_of("lenet5"), op}) {
    try {
      published_networks({cell}, {}, true);
      FAIL() << cell.axes.workload;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(cell.axes.workload), HasSubstr("minilm, bert-base")));
    }
  }
}

// The folder of the small network, with these weights.
struct ImportedFolder {
  TemporaryFolder folder;
  Workload workload =
      imported_workload(network_file_of(small_network_json(), "network.json"), folder / "mine");

  explicit ImportedFolder(const std::vector<HostTensor>& tensors) {
    std::filesystem::create_directory(folder / "mine");
    write_safetensors(workload.imported->weights(), tensors);
  }
  PublishedWeights read(const std::filesystem::path& given = {}) const {
    const std::vector<PublishedNetwork> networks{
        {workload.name, workload.published, workload.build(2).inference, workload.imported}};
    return {given, networks};
  }
  std::string reason(const std::filesystem::path& given = {}) const {
    try {
      read(given);
    } catch (const IoError& error) {
      return error.what();
    }
    return "read";
  }
};

// Those of every tensor of the small network.
std::vector<HostTensor> all_weights(float first) {
  return {tensor("/conv/weight", {4, 1, 3, 3}, first),
          tensor("bn.weight", {4}, first),
          tensor("bn.bias", {4}, first),
          tensor("bn.running_mean", {4}, first),
          tensor("bn.running_var", {4}, first),
          tensor("offset", {64}, first),
          tensor("fc.weight", {3, 64}, first),
          tensor("fc.bias", {3}, first)};
}

TEST(PublishedWeights, OfAnImportedNetworkAreThoseOfItsFolder) {
  const ImportedFolder mine(all_weights(10));
  const PublishedWeights weights = mine.read();
  EXPECT_FALSE(weights.are_given(mine.workload.name));
  EXPECT_TRUE(weights.drawn(mine.workload.name).empty());
  EXPECT_EQ(weights.file().sha256, sha256_of_file(mine.workload.imported->weights()));
  std::vector<HostTensor> tensors{tensor("conv_weight", {4, 1, 3, 3}, 0), tensor("bn.running_mean", {4}, 0),
                                  tensor("offset", {64}, 0)};
  std::vector<HostTensor> others = tensors, constants = tensors;
  weights.put_into(others, "mine@00000000");
  EXPECT_EQ(others[0].bytes, tensors[0].bytes) << "it is another network";
  weights.put_constants_into(constants, mine.workload.name);
  EXPECT_EQ(constants[1].bytes, tensors[1].bytes);
  EXPECT_EQ(constants[2].bytes, tensor("", {64}, 10).bytes);
  weights.put_into(tensors, mine.workload.name);
  EXPECT_EQ(tensors[0].bytes, tensor("", {4, 1, 3, 3}, 10).bytes) << "by the name of the source";
  EXPECT_EQ(tensors[1].bytes, tensor("", {4}, 10).bytes);
  EXPECT_EQ(tensors[2].bytes, tensor("", {64}, 10).bytes);
}

TEST(PublishedWeights, OfAFolderMayLackWhatIsDrawnButNoConstant) {
  std::vector<HostTensor> weights = all_weights(10);
  weights.erase(weights.begin());
  {
    const ImportedFolder mine(weights);
    EXPECT_EQ(mine.read().drawn(mine.workload.name), (std::set<std::string>{"conv_weight"}));
  }
  std::erase_if(weights, [](const HostTensor& one) { return one.name == "offset"; });
  EXPECT_THAT(ImportedFolder(weights).reason(),
              AllOf(HasSubstr("no tensor 'offset'"), HasSubstr("never drawn")));
  const ImportedFolder gone({});
  std::filesystem::remove(gone.workload.imported->weights());
  EXPECT_THAT(gone.reason(), HasSubstr("weights.safetensors"));
  weights = all_weights(10);
  weights[5].as<float>()[7] = NAN;
  EXPECT_THAT(ImportedFolder(weights).reason(), AllOf(HasSubstr("'offset'"), HasSubstr("element 7")));
  weights = all_weights(10);
  weights[7] = tensor("fc.bias", {4}, 0);
  EXPECT_THAT(ImportedFolder(weights).reason(), HasSubstr("'fc.bias' is F32 (4)"));
}

TEST(PublishedWeights, OfTheOptionReplaceThoseOfAFolderButItsConstants) {
  const ImportedFolder mine(all_weights(10));
  std::vector<HostTensor> checkpoint = all_weights(50);
  std::erase_if(checkpoint, [](const HostTensor& one) { return one.name == "offset"; });
  const std::filesystem::path file = mine.folder / "checkpoint.safetensors";
  write_safetensors(file, checkpoint);
  const PublishedWeights weights = mine.read(file);
  EXPECT_TRUE(weights.are_given(mine.workload.name));
  EXPECT_THAT(weights.file().name, AllOf(HasSubstr(file.string()), HasSubstr("weights.safetensors")))
      << "the constants are of the folder";
  std::vector<HostTensor> tensors{tensor("fc.bias", {3}, 0), tensor("offset", {64}, 0)};
  weights.put_into(tensors, mine.workload.name);
  EXPECT_EQ(tensors[0].bytes, tensor("", {3}, 50).bytes);
  EXPECT_EQ(tensors[1].bytes, tensor("", {64}, 10).bytes);
  checkpoint.pop_back();
  write_safetensors(file, checkpoint);
  EXPECT_THAT(mine.reason(file), AllOf(HasSubstr(file.string()), HasSubstr("no tensor 'fc.bias'")));
}

}  // namespace
}  // namespace assay
