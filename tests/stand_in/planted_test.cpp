// Defects that backend cuda once had, put back one at a time: the stand-in must show each.
#include <cstring>
#include <stdexcept>
#include <utility>

#include "backends/cuda/gpu/device_memory.hpp"
#include "backends/cuda/own_products.hpp"
#include "tests/ops/guarded_run.hpp"
#include "tests/ops/op_case.hpp"
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::cuda {
namespace {

using stand_in::Order;
using stand_in::Scope;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Memory of a device that says that it aligns to 64 bytes, as the host's does.
class LooseMemory final : public Memory {
 public:
  explicit LooseMemory(Memory& inner) : inner_(inner) {}
  std::int64_t alignment() const override { return 64; }
  void* allocate(std::int64_t bytes, const char* purpose) override { return inner_.allocate(bytes, purpose); }
  void release(void* pointer) noexcept override { inner_.release(pointer); }
  void clear(void* pointer, std::int64_t bytes) override { inner_.clear(pointer, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override { inner_.copy(to, from, bytes); }
  void put(void* to, const void* host, std::int64_t bytes) override { inner_.put(to, host, bytes); }
  const void* land(const void* host, std::int64_t bytes) override { return inner_.land(host, bytes); }
  void fetch(void* host, const void* from, std::int64_t bytes) override { inner_.fetch(host, from, bytes); }

 private:
  Memory& inner_;
};

// A device that a test changes by overriding.
class ForwardingDevice : public Device {
 public:
  Memory& memory() override { return inner_->memory(); }
  Stream stream() override { return inner_->stream(); }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override { return inner_->matmul(spec); }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    return inner_->convolution(spec);
  }
  std::shared_ptr<Norm> norm(const NormSpec& spec) override { return inner_->norm(spec); }
  std::shared_ptr<Attention> attention(const AttentionSpec& spec) override { return inner_->attention(spec); }
  std::shared_ptr<Lstm> lstm(const LstmSpec& spec) override { return inner_->lstm(spec); }
  Calls& calls() override { return inner_->calls(); }
  std::unique_ptr<Recording> record(std::span<const GraphPart> parts, std::size_t min_nodes) override {
    return inner_->record(parts, min_nodes);
  }
  void synchronize() override { inner_->synchronize(); }

 private:
  std::unique_ptr<Device> inner_ = open_device({.deterministic = true});
};

class LooseDevice final : public ForwardingDevice {
 public:
  Memory& memory() override { return memory_; }

 private:
  LooseMemory memory_{ForwardingDevice::memory()};
};

// Which needs of the recorded step there are, and which one is left out.
struct Forgotten {
  std::size_t place = 0;
  std::size_t needs = 0;
};

class ForgetfulDevice final : public ForwardingDevice {
 public:
  explicit ForgetfulDevice(Forgotten& forgotten) : forgotten_(forgotten) {}
  std::unique_ptr<Recording> record(std::span<const GraphPart> parts, std::size_t min_nodes) override {
    std::vector<GraphPart> changed(parts.begin(), parts.end());
    forgotten_.needs = 0;
    for (GraphPart& part : changed) {
      // Without any, it would wait for the first part.
      if (part.needs == std::vector<std::size_t>{0}) continue;
      for (std::size_t i = 0; i < part.needs.size(); ++i) {
        if (forgotten_.needs++ == forgotten_.place)
          part.needs.erase(part.needs.begin() + static_cast<std::ptrdiff_t>(i--));
      }
    }
    return ForwardingDevice::record(changed, min_nodes);
  }

 private:
  Forgotten& forgotten_;
};

// That the libraries refuse such a workspace themselves is in libraries_test.cpp.
TEST(Planted, AnArenaAlignedTo64BytesGivesALibraryAMisalignedWorkspace) {
  const Scope scope;
  const Program program = small_program("lenet5");
  const CompileOptions options = options_of({"lenet5", "graph", PrecisionKind::fp32});
  KernelExecutable executable(program, options,
                              std::make_unique<CudaLibrary>(std::make_unique<LooseDevice>(), false));
  executable.set_state(testing::parameters(program, 1));
  const testing::Batch batch = testing::batch(program, 1);
  executable.stage(0, batch.host());
  try {
    executable.step(0, 1e-2, 1);
    ADD_FAILURE() << "no workspace was refused";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("got a workspace"), HasSubstr("beyond a multiple of 256")));
  }
}

// Makes a convolution whose search finds no memory at allocation `fail_at`, and runs it in a workspace of the bytes
// that it asks for. Returns whether it was made.
bool run_convolution(std::int64_t fail_at, bool runs_the_plan_built_last) {
  stand_in::begin({.fail_at = fail_at, .runs_the_plan_built_last = runs_the_plan_built_last});
  try {
    const auto device = open_device({});
    const auto convolution = device->convolution(small_convolution());
    Memory& memory = device->memory();
    const Storage x(memory, 2 * 2 * 4 * 4 * 4, "a test"), weight(memory, 2 * 2 * 3 * 3 * 4, "a test"),
        y(memory, 2 * 2 * 4 * 4 * 4, "a test"), workspace(memory, convolution->workspace_bytes(), "a test");
    for (const Storage* storage : {&x, &weight}) memory.clear(storage->data(), storage->bytes());
    convolution->run(x.data(), weight.data(), nullptr, y.data(), workspace.data());
    device->synchronize();
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

// The frontend's execute() without an index runs the plan that was built last: in a search without memory that is not
// the one whose workspace was asked for.
TEST(Planted, APlanOtherThanTheChosenOneWritesBeyondItsWorkspace) {
  ASSERT_TRUE(run_convolution(-1, false));
  const std::int64_t all = stand_in::allocations();
  EXPECT_THAT(stand_in::take_faults(), IsEmpty());
  int made = 0, spoiled = 0;
  for (std::int64_t n = 0; n < all; ++n) {
    const bool is_made = run_convolution(n, false);
    EXPECT_THAT(stand_in::take_faults(), IsEmpty()) << "as it is, allocation " << n;
    if (!is_made) continue;
    ++made;
    run_convolution(n, true);
    const std::vector<std::string> faults = stand_in::take_faults();
    if (faults.empty()) continue;
    EXPECT_THAT(faults, Contains(AllOf(HasSubstr("bytes after"), HasSubstr("were written"))));
    ++spoiled;
  }
  EXPECT_GT(made, 0) << "a search that finds no memory leaves the heuristic's choice";
  EXPECT_GT(spoiled, 0);
  EXPECT_EQ(stand_in::held(), "");
}

// A library that does not say which operands its kernels use up.
class SilentLibrary final : public KernelLibrary {
 public:
  explicit SilentLibrary(std::unique_ptr<KernelLibrary> inner) : inner_(std::move(inner)) {}
  Graph fuse(Graph graph) const override { return inner_->fuse(std::move(graph)); }
  Memory& memory() const override { return inner_->memory(); }
  std::string unsupported(const Graph& graph, const Node& node) const override {
    return inner_->unsupported(graph, node);
  }
  Format plain(const TensorType& type) const override { return inner_->plain(type); }
  bool leads(const Graph& graph, const Node& node) const override { return inner_->leads(graph, node); }
  Lowered lower(const Graph& graph, NodeId node, const Offer& offer) override {
    Lowered lowered = inner_->lower(graph, node, offer);
    lowered.overwritten.clear();
    return lowered;
  }
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override {
    return inner_->reorder(type, from, to);
  }
  void run(std::span<Kernel* const> kernels) override { inner_->run(kernels); }
  void synchronize() override { inner_->synchronize(); }

 private:
  std::unique_ptr<KernelLibrary> inner_;
};

std::vector<std::string> faults_of_lstm_gradient(bool silent) {
  const Precision precision = precision_of(PrecisionKind::fp32);
  for (const ops::OpCase& row : ops::all_cases()) {
    if (row.op != "lstm_gradient") continue;
    std::unique_ptr<KernelLibrary> library =
        make_kernel_library(options_of({"lstm", "graph", precision.kind}));
    if (silent) library = std::make_unique<SilentLibrary>(std::move(library));
    return ops::run_guarded(row, precision, *library, true).faults;
  }
  throw std::logic_error("there is no row of lstm_gradient");
}

TEST(Planted, AReserveThatIsUsedUpUndeclaredIsSeenWhenAKernelRunsTwice) {
  const Scope scope;
  EXPECT_THAT(faults_of_lstm_gradient(false), IsEmpty());
  EXPECT_THAT(faults_of_lstm_gradient(true),
              AllOf(Contains(HasSubstr("gave another result")), Contains(HasSubstr("changed its operand"))));
}

// Batches that nobody waits for. The first four make the staging buffers, and wait for each other; the last one
// comes to the buffer of the fifth.
void land_nine_batches() {
  const OwnedStream stream;
  DeviceMemory memory(stream.get(), 0);
  for (float number = 1; number <= 9; ++number) memory.land(&number, sizeof number);
  cudaStreamSynchronize(stream.get());
}

TEST(Planted, AStagingBufferThatIsReusedBeforeItsCopyRanIsSeen) {
  {
    const Scope scope({.order = Order::others_last});
    land_nine_batches();
  }
  stand_in::begin({.order = Order::others_last, .waits_for_no_event = true});
  land_nine_batches();
  EXPECT_THAT(stand_in::take_faults(), ElementsAre(HasSubstr("pinned memory was changed before the copy")));
}

// Work of the copies of step 3 that cannot run before step 2 ends.
std::int64_t copies_that_wait_for_the_step_before(std::size_t landings) {
  const Scope scope({.order = Order::others_last});
  const OwnedStream stream;
  const Event reached;
  DeviceMemory memory(stream.get(), 0, landings);
  const Storage inputs(memory, 4, "a test"), labels(memory, 4, "a test");
  const auto stage = [&](float number) {
    for (const Storage* place : {&inputs, &labels})
      memory.copy(place->data(), memory.land(&number, sizeof number), sizeof number);
  };
  const auto step = [&] { add_bias({stream.get()}, DType::f32, inputs.data(), 1, nullptr, 1, 1, true); };
  stage(1);
  step();
  stage(2);
  ASSAY_CUDA(cudaEventRecord(reached.get(), stream.get()));
  step();
  stage(3);
  // Step 2 begins.
  ASSAY_CUDA(cudaEventSynchronize(reached.get()));
  return stand_in::left_of_others(stream.get());
}

TEST(Planted, TwoLandingsMakeTheCopyOfLabelsWaitForTheStepBefore) {
  EXPECT_EQ(copies_that_wait_for_the_step_before(4), 0);
  EXPECT_GT(copies_that_wait_for_the_step_before(2), 0);
}

// As residual_program(), without a bias before a batch norm: its gradient is a constant, and stays right if nobody waits for it.
Program program_without_constants() {
  Workload workload = find_workload("lenet5");
  workload.sample_shape = {3, 8, 8};
  workload.network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
    x = b.relu(b.batch_norm("bn1", b.convolution("conv1", x, 4, {3, 1, 1}, false)));
    const ValueId y = b.batch_norm("bn2", b.convolution("conv2", x, 4, {3, 1, 1}, false));
    x = b.max_pool(b.relu(b.add(x, y)), {2, 2, 0});
    return b.linear("fc", b.flatten(x), classes);
  };
  return workload.build(3);
}

// The state after three steps, of which the first is not recorded.
std::vector<std::byte> trained_without(Forgotten& forgotten, const stand_in::Conditions& conditions) {
  const Scope scope(conditions);
  const Program program = program_without_constants();
  KernelExecutable executable(
      program, options_of({"residual", "graph", PrecisionKind::fp32}),
      std::make_unique<CudaLibrary>(std::make_unique<ForgetfulDevice>(forgotten), false));
  executable.set_state(small_parameters(program));
  const testing::Batch batch = batch_of(program, 1);
  executable.stage(0, batch.host());
  for (int step = 1; step <= 3; ++step) executable.step(0, 1e-2, step);
  std::vector<std::byte> bytes;
  for (const HostTensor& tensor : executable.state())
    bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  return bytes;
}

TEST(Planted, AStepThatForgetsToWaitForOneKernelHasOtherBitsInSomeOrder) {
  Forgotten nothing{.place = SIZE_MAX};
  const auto expected = trained_without(nothing, {.order = Order::at_once});
  ASSERT_GT(nothing.needs, 12U);
  for (std::size_t place = 0; place < nothing.needs; ++place) {
    bool found = false;
    for (std::uint64_t seed = 0; seed < 8 && !found; ++seed) {
      Forgotten one{.place = place};
      const Order order = seed == 0 ? Order::others_last : seed == 1 ? Order::others_first : Order::shuffled;
      found = trained_without(one, {.order = order, .seed = seed}) != expected;
    }
    EXPECT_TRUE(found) << "need " << place << " of " << nothing.needs;
  }
}

}  // namespace
}  // namespace assay::cuda
