// docs/reference/op-support.md against what the backends of this tree say.
#include "harness/conductor/backends/backends.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(OpSupport, the_page_agrees_with_each_backend_json) {
  const fs::path source = ASSAY_SOURCE_DIR;
  const BackendRegistry registry = find_backends_in({source / "backends"}, {});
  ASSERT_FALSE(registry.backends.empty());
  for (const BackendDescription& backend : registry.backends) {
    EXPECT_FALSE(backend.ops.empty()) << backend.name << " does not say its ops";
    for (const std::string& op : backend.ops) EXPECT_NO_THROW(find_op(op)) << backend.name;
  }
  const std::string begin = "<!-- ops -->\n", end = "<!-- /ops -->";
  const fs::path file = source / "docs/reference/op-support.md";
  std::string page = text_of(file);
  const std::size_t first = page.find(begin), last = page.find(end);
  ASSERT_TRUE(first != std::string::npos && last != std::string::npos && first < last);
  const std::size_t at = first + begin.size();
  const std::string wanted = "\n" + support_page(registry.backends) + "\n";
  const char* write = std::getenv("ASSAY_WRITE_DOCS");
  if (write != nullptr && std::string_view(write) == "1") {
    page.replace(at, last - at, wanted);
    std::ofstream(file) << page;
  } else {
    EXPECT_EQ(page.substr(at, last - at), wanted) << "write it again with ASSAY_WRITE_DOCS=1";
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
  for (const char* op :
       {"adam", "sgd", "cast", "constant", "softmax_gradient", "convolution_weight_gradient"})
    EXPECT_FALSE(in_networks(find_op(op))) << op;
}

}  // namespace
}  // namespace assay
