// Attention by cuDNN's engines.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/own_attention.hpp"
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"
#include "tests/temporary_folder.hpp"

namespace assay::cuda {
namespace {

using stand_in::Scope;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Kind = AttentionSpec::Kind;

constexpr Kind directions[] = {Kind::forward, Kind::gradient};

// Two heads share each head of k and v.
AttentionSpec small_attention(Kind kind, bool causal = true) {
  AttentionSpec spec;
  spec.kind = kind;
  spec.samples = 2;
  spec.queries = spec.keys = 12;
  spec.heads = 4;
  spec.groups = 2;
  spec.depth = 8;
  spec.causal = causal;
  spec.scale = 0.5F;
  spec.saved = kind == Kind::forward;
  spec.operands = DType::bf16;
  return spec;
}

// The operands of an attention, in memory of their own: the same noise each time. For a gradient, y and logsumexp are those
// of our own kernels.
class AttentionRun {
 public:
  AttentionRun(Device& device, const AttentionSpec& spec)
      : device_(device),
        spec_(spec),
        queries_(spec.samples * spec.queries * spec.row_of_q()),
        keys_(spec.samples * spec.keys * spec.row_of_k()),
        results_(spec.samples * spec.queries * spec.row_of_y()),
        rows_(spec.samples * spec.heads * spec.queries) {
    AttentionOperands& at = operands_;
    at.q = buffer(queries_);
    at.dq = buffer(queries_);
    if (spec.joined) {
      find_parts(spec, at);
    } else {
      at.k = buffer(keys_);
      at.v = buffer(keys_);
      at.dk = buffer(keys_);
      at.dv = buffer(keys_);
    }
    at.dy = buffer(results_);
    at.y = buffer(results_);
    at.logsumexp = static_cast<float*>(buffer(rows_, DType::f32));
    if (spec.kind == Kind::forward) return;
    AttentionSpec forward = spec;
    forward.kind = Kind::forward;
    forward.saved = true;
    run(*make_own_attention(forward, device));
  }
  void run(Attention& attention) {
    const Storage workspace(device_.memory(), attention.workspace_bytes(), "a test");
    AttentionOperands at = operands_;
    if (spec_.kind == Kind::forward && !spec_.saved) at.logsumexp = nullptr;
    attention.run(at, workspace.data());
    device_.synchronize();
  }
  // The largest distance of a result from that of another run, in the 2-norm.
  double distance(const AttentionRun& other) const {
    const AttentionOperands &a = operands_, &b = other.operands_;
    const auto of = [&](const void* mine, const void* theirs, std::int64_t elements,
                        DType dtype = DType::bf16) {
      return relative_distance(device_.stream(), device_.memory(), dtype, mine, theirs, elements);
    };
    const double both = std::max(
        {of(a.y, b.y, results_), of(a.dq, b.dq, queries_), of(a.logsumexp, b.logsumexp, rows_, DType::f32)});
    if (spec_.joined) return both;
    return std::max({both, of(a.dk, b.dk, keys_), of(a.dv, b.dv, keys_)});
  }

 private:
  void* buffer(std::int64_t elements, DType dtype = DType::bf16) { return buffers_.add(elements, dtype, 2); }

  Device& device_;
  AttentionSpec spec_;
  std::int64_t queries_, keys_, results_, rows_;
  NoiseBuffers buffers_{device_.memory(), "a test"};
  AttentionOperands operands_;
};

// Those that cuDNN has as a graph of operations, and the one that it has as one operation.
TEST(CudnnAttention, ComputesWhatOurOwnKernelsDo) {
  for (const Kind kind : directions) {
    for (const auto& [causal, joined] :
         {std::pair(true, false), std::pair(false, false), std::pair(true, true), std::pair(false, true)}) {
      const Scope scope;
      const auto device = open_device({});
      AttentionSpec spec = small_attention(kind, causal);
      spec.joined = joined;
      const auto attention = device->attention(spec), own = make_own_attention(spec, *device);
      SCOPED_TRACE(text_of(spec));
      EXPECT_THAT(attention->name(), AllOf(HasSubstr("eng92"), EndsWith(":measured")));
      AttentionRun of_library(*device, spec), of_own(*device, spec);
      of_library.run(*attention);
      of_own.run(*own);
      const double distance = of_library.distance(of_own);
      EXPECT_LT(distance, 1e-2);
      EXPECT_GT(distance, 0) << "they round in another order";
    }
  }
}

TEST(CudnnAttention, WritesNoLogarithmsThatNobodyReads) {
  const Scope scope;
  const auto device = open_device({});
  AttentionSpec spec = small_attention(Kind::forward);
  spec.saved = false;
  const auto attention = device->attention(spec);
  EXPECT_THAT(attention->name(), HasSubstr("eng92"));
  AttentionRun of_library(*device, spec), of_own(*device, spec);
  of_library.run(*attention);
  of_own.run(*make_own_attention(spec, *device));
  EXPECT_LT(of_library.distance(of_own), 1e-2);
}

TEST(CudnnAttention, IsNotTakenWhereItCannotBeOrMayDiffer) {
  const Scope scope;
  const auto device = open_device({});
  for (const Kind kind : directions) {
    std::vector<AttentionSpec> others(6, small_attention(kind));
    others[0].operands = DType::f32;
    others[1].depth = 12;
    others[2].depth = 136;
    others[3].mask_samples = others[3].mask_heads = others[3].mask_queries = 1;  // a row may be hidden
    others[4].keys = 16;                                                         // the last query sees all
    others[5].causal = false;
    others[5].keys = 1;  // all gradients of its scores are zero
    for (const AttentionSpec& spec : others)
      EXPECT_EQ(device->attention(spec)->name(), "own:attention") << text_of(spec);
    EXPECT_EQ(open_device({.deterministic = true})->attention(small_attention(kind))->name(),
              "own:attention");
  }
}

TEST(CudnnAttention, IsNotAFastEngineThatIsWrong) {
  for (const Kind kind : directions) {
    for (const bool causal : {true, false}) {
      const AttentionSpec spec = small_attention(kind, causal);
      const Scope scope({.has_wrong_engines = true});
      const auto choices = std::make_shared<Choices>();
      EXPECT_THAT(open_device({.choices = choices})->attention(spec)->name(), HasSubstr("eng92"))
          << text_of(spec);
      EXPECT_THAT(choices->refused(), HasSubstr("eng68")) << text_of(spec);
    }
  }
}

// Our own need more of it if they are large.
TEST(CudnnAttention, IsTheFirstEngineWithoutMemoryForASearch) {
  const AttentionSpec spec = small_attention(Kind::gradient);
  std::int64_t opened = 0, all = 0;
  {
    const Scope scope;
    const auto device = open_device({});
    opened = stand_in::allocations();
    ASSERT_THAT(device->attention(spec)->name(), AllOf(HasSubstr("eng92"), EndsWith(":measured")));
    all = stand_in::allocations();
  }
  std::set<std::string> names;
  for (std::int64_t n = opened; n < all; ++n) {
    const Scope scope({.fail_at = n});
    names.insert(open_device({})->attention(spec)->name());
  }
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) EXPECT_THAT(name, HasSubstr("eng9"));
  EXPECT_TRUE(std::ranges::any_of(names, [](const std::string& name) {
    return name.find("eng91") != name.npos && !name.ends_with(":measured");
  })) << "the first that can be built";
  const Scope scope({.plans_without_memory_from = 0});
  EXPECT_EQ(open_device({})->attention(spec)->name(), "own:attention");
}

// What is too large for our own kernel, with its products, which do not count if cuDNN is taken.
TEST(CudnnAttention, LeavesNoTraceOfProductsThatAreNotTaken) {
  const Scope scope;
  const auto choices = std::make_shared<Choices>();
  const auto device = open_device({.choices = choices});
  AttentionSpec spec = small_attention(Kind::gradient, false);
  spec.samples = 1;
  spec.queries = 16;
  spec.keys = 264;
  ASSERT_FALSE(is_small(spec));
  EXPECT_THAT(device->attention(spec)->name(), HasSubstr("eng92"));
  EXPECT_THAT(choices->engines(), EndsWith(" of 1"));
}

// The name of one that was not measured is not that of one that was: the next fork would look for it.
TEST(CudnnAttention, IsNotMeasuredBecauseItsProductsAre) {
  const Scope scope;
  const auto device = open_device({});
  AttentionSpec spec = small_attention(Kind::forward, false);
  spec.operands = DType::f32;
  spec.samples = spec.queries = 1;
  spec.keys = 264;
  EXPECT_EQ(device->attention(spec)->name().find(":measured"), std::string::npos);
}

struct AttentionOfFork {
  std::string name, reused;
};
AttentionOfFork attention_of_fork(const std::filesystem::path& file, Kind kind,
                                  const stand_in::Conditions& conditions = {}) {
  const Scope scope(conditions);
  const auto choices = std::make_shared<Choices>(file, "an H200", file.parent_path() / "plans");
  const std::string name = open_device({.choices = choices})->attention(small_attention(kind))->name();
  return {name, choices->reused()};
}

TEST(CudnnAttention, IsChosenOnceAndHandedToTheOtherForks) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  for (const Kind kind : directions) {
    const AttentionOfFork first = attention_of_fork(file, kind),
                          second = attention_of_fork(file, kind, {.plans_without_memory_from = 0});
    EXPECT_EQ(first.reused, "none");
    EXPECT_EQ(second.name, first.name);
    EXPECT_EQ(second.reused, "1") << "with its code: no plan was built";
  }
}

}  // namespace
}  // namespace assay::cuda
