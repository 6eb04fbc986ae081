// The orders of the stand-in's streams, and what a capture forbids.
#include <string>

#include "backends/cuda/gpu/handles.hpp"
#include "backends/cuda/kernels/launch.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::stand_in {
namespace {

using cuda::Event;
using cuda::OwnedStream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Appends a letter to `text` when the stream gets there.
void write(cudaStream_t stream, std::string& text, char letter) {
  cuda::for_each(cuda::Stream{stream}, 1, [&text, letter](std::int64_t) { text += letter; });
}

class Streams : public ::testing::TestWithParam<Order> {};

TEST_P(Streams, RunWhatTheHostWaitsFor) {
  const Scope scope({.order = GetParam()});
  std::string text;
  const OwnedStream stream, other;
  write(stream.get(), text, 'a');
  write(other.get(), text, 'x');
  write(stream.get(), text, 'b');
  if (GetParam() != Order::at_once) {
    EXPECT_EQ(text, "") << "launches are late";
  }
  cudaStreamSynchronize(stream.get());
  std::erase(text, 'x');
  EXPECT_EQ(text, "ab");
}

TEST_P(Streams, WaitForEvents) {
  const Scope scope({.order = GetParam()});
  std::string text;
  const OwnedStream stream, other;
  const Event event;
  write(stream.get(), text, 'a');
  cudaEventRecord(event.get(), stream.get());
  cudaStreamWaitEvent(other.get(), event.get(), 0);
  write(other.get(), text, 'b');
  cudaStreamSynchronize(other.get());
  EXPECT_EQ(text, "ab");
}

TEST_P(Streams, EventsKeepThePlaceThatWasRecordedLast) {
  const Scope scope({.order = GetParam()});
  std::string text;
  const OwnedStream stream;
  const Event event;
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaSuccess) << "never recorded";
  for (const char letter : {'a', 'b'}) {
    write(stream.get(), text, letter);
    cudaEventRecord(event.get(), stream.get());
  }
  write(stream.get(), text, 'c');
  cudaEventSynchronize(event.get());
  EXPECT_EQ(text.substr(0, 2), "ab");
}

INSTANTIATE_TEST_SUITE_P(Orders, Streams,
                         ::testing::Values(Order::at_once, Order::others_last, Order::others_first,
                                           Order::shuffled),
                         [](const auto& test) { return name_of(test.param); });

// Two streams that do not wait for each other: without an event either may be first.
std::string both_orders(Order order) {
  const Scope scope({.order = order});
  std::string text;
  const OwnedStream stream, other;
  write(stream.get(), text, 'a');
  write(other.get(), text, 'b');
  cudaStreamSynchronize(stream.get());
  std::string seen = text;
  return seen;
}

TEST(TwoStreams, AreOrderedByEventsOnly) {
  EXPECT_EQ(both_orders(Order::others_last), "a");
  EXPECT_EQ(both_orders(Order::others_first), "ba");
}

TEST(Capture, RunsNothingAndIsRepeated) {
  const Scope scope;
  std::string text;
  const OwnedStream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
  write(stream.get(), text, 'a');
  write(stream.get(), text, 'b');
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  std::size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  EXPECT_EQ(nodes, 2U);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaStreamSynchronize(stream.get());
  EXPECT_EQ(text, "");
  cudaGraphLaunch(executable, stream.get());
  cudaGraphLaunch(executable, stream.get());
  cudaStreamSynchronize(stream.get());
  EXPECT_EQ(text, "abab");
  cudaGraphExecDestroy(executable);
}

void run_twice(cudaGraph_t graph, cudaStream_t stream) {
  cudaGraphExec_t executable = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  for (int launch = 0; launch < 2; ++launch) cudaGraphLaunch(executable, stream);
  cudaStreamSynchronize(stream);
  cudaGraphExecDestroy(executable);
}

// Another stream joins by waiting for an event, and runs next to the first until that one waits for it.
std::string captured_fork(Order order) {
  const Scope scope({.order = order});
  std::string text;
  const OwnedStream stream, other;
  const Event begun(cudaEventDisableTiming), done(cudaEventDisableTiming);
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
  write(stream.get(), text, 'a');
  cudaEventRecord(begun.get(), stream.get());
  cudaStreamWaitEvent(other.get(), begun.get(), 0);
  write(other.get(), text, 'x');
  cudaEventRecord(done.get(), other.get());
  write(stream.get(), text, 'b');
  cudaStreamWaitEvent(stream.get(), done.get(), 0);
  write(stream.get(), text, 'c');
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  run_twice(graph, stream.get());
  return text;
}

TEST(Capture, OfTwoStreamsRunsThemSideBySide) {
  EXPECT_EQ(captured_fork(Order::others_last), "abxcabxc");
  EXPECT_EQ(captured_fork(Order::others_first), "axbcaxbc");
}

// One stream: b waits for a and not for x, and c for both.
std::string captured_branches(Order order) {
  const Scope scope({.order = order});
  std::string text;
  const OwnedStream stream;
  const auto ends = [&] {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* nodes = nullptr;
    std::size_t count = 0;
    cudaStreamGetCaptureInfo(stream.get(), &status, nullptr, nullptr, &nodes, nullptr, &count);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_EQ(count, 1U);
    return *nodes;
  };
  const auto wait_for = [&](std::vector<cudaGraphNode_t> nodes, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(stream.get(), nodes.data(), nullptr, nodes.size(), flags);
  };
  cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
  write(stream.get(), text, 'a');
  const cudaGraphNode_t a = ends();
  write(stream.get(), text, 'x');
  const cudaGraphNode_t x = ends();
  EXPECT_EQ(wait_for({a}, cudaStreamSetCaptureDependencies), cudaSuccess);
  write(stream.get(), text, 'b');
  EXPECT_EQ(wait_for({x}, cudaStreamAddCaptureDependencies), cudaSuccess);
  write(stream.get(), text, 'c');
  EXPECT_EQ(wait_for({}, cudaStreamSetCaptureDependencies), cudaErrorInvalidValue);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  EXPECT_EQ(wait_for({a}, cudaStreamSetCaptureDependencies), cudaErrorIllegalState);
  run_twice(graph, stream.get());
  return text;
}

TEST(Capture, RunsBranchesOfOneStreamInAnyOrder) {
  EXPECT_EQ(captured_branches(Order::others_last), "axbcaxbc");
  EXPECT_EQ(captured_branches(Order::others_first), "abxcabxc");
}

TEST(Capture, MustWaitForTheStreamsThatJoin) {
  begin({});
  {
    std::string text;
    const OwnedStream stream, other;
    const Event event;
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(event.get(), stream.get());
    cudaStreamWaitEvent(other.get(), event.get(), 0);
    write(other.get(), text, 'x');
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(graph, nullptr);
  }
  EXPECT_THAT(take_faults(), ::testing::ElementsAre(::testing::HasSubstr("streams that had joined")));
  EXPECT_EQ(held(), "");
}

TEST(Capture, IsLostByWhatItForbids) {
  begin({});
  {
    const OwnedStream stream, other;
    const Event event;
    void* pointer = nullptr;
    cudaGraph_t graph = nullptr;
    const auto lost = [&](const auto& forbidden) {
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
      EXPECT_EQ(forbidden(), cudaErrorStreamCaptureUnsupported);
      EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaErrorStreamCaptureInvalidated);
      EXPECT_EQ(graph, nullptr);
    };
    lost([&] { return cudaMallocAsync(&pointer, 4, stream.get()); });
    lost([&] { return cudaMallocHost(&pointer, 4); });
    lost([&] { return cudaStreamSynchronize(stream.get()); });
    lost([&] { return cudaEventSynchronize(event.get()); });
    cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess) << "the next one";
    cudaGraphDestroy(graph);
  }
  EXPECT_EQ(held(), "");
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("cudaEventSynchronize"), HasSubstr("cudaMallocAsync"),
                                         HasSubstr("cudaMallocHost"), HasSubstr("cudaStreamSynchronize")));
}

}  // namespace
}  // namespace assay::stand_in
