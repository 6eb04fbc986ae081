// Which backend has which op, as the backends of this tree say.
#include "harness/conductor/backends/backends.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

namespace fs = std::filesystem;

TEST(OpSupport, every_backend_of_the_tree_names_ops_that_exist) {
  const BackendRegistry registry = find_backends_in({fs::path(ASSAY_SOURCE_DIR) / "backends"}, {});
  ASSERT_FALSE(registry.backends.empty());
  for (const BackendDescription& backend : registry.backends) {
    EXPECT_FALSE(backend.ops.empty()) << backend.name << " does not say its ops";
    for (const std::string& op : backend.ops) EXPECT_NO_THROW(find_op(op)) << backend.name;
  }
}

TEST(OpSupport, a_framework_has_its_own_gradients) {
  BackendDescription backend;
  backend.kind = BackendKind::framework;
  EXPECT_EQ(support(backend, find_op("relu")), "?");
  backend.ops = {"relu"};
  EXPECT_EQ(support(backend, find_op("relu")), "yes");
  EXPECT_EQ(support(backend, find_op("concat")), "no");
  EXPECT_EQ(support(backend, find_op("relu_gradient")), "own");
  EXPECT_EQ(support(backend, find_op("adam")), "own");
  backend.kind = BackendKind::bare;
  EXPECT_EQ(support(backend, find_op("relu_gradient")), "no");
}

TEST(OpSupport, no_network_has_optimizers_casts_or_gradients) {
  for (const char* op : {"concat", "matmul", "softmax", "convolution"})
    EXPECT_TRUE(in_networks(find_op(op))) << op;
  for (const char* op : {"adam", "sgd", "all_reduce_start", "all_reduce_wait", "cast", "clip", "constant",
                         "global_norm", "softmax_gradient", "convolution_weight_gradient"})
    EXPECT_FALSE(in_networks(find_op(op))) << op;
}

}  // namespace
}  // namespace assay
