#include "harness/graph/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "harness/core/error.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Program everything() {
  const auto network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
    x = b.relu(b.batch_norm("bn", b.convolution("conv", x, 4, {.kernel = 3, .padding = 1}, false)));
    x = b.max_pool(b.add(x, b.relu(x)), {.kernel = 2, .stride = 2});
    return b.linear("fc", b.flatten(x), classes);
  };
  return Workload{.name = "all", .sample_shape = {3, 8, 8}, .classes = 5, .network = network}.build(4);
}

json mlp() { return to_json(find_workload("mlp").build(4)); }

// The error of reading the program after `change`.
auto reading(const std::function<void(json&)>& change) {
  return [change] {
    json program = mlp();
    change(program);
    program_from_json(program);
  };
}

TEST(GraphJson, round_trips_every_workload) {
  for (const Workload& workload : all_workloads()) {
    const std::string text = to_json(workload.build(3)).dump();
    const Program read = program_from_json(json::parse(text));
    EXPECT_EQ(to_json(read).dump(), text) << workload.name;
    EXPECT_EQ(read.training->nodes().size(), workload.build(3).training->nodes().size());
  }
}

TEST(GraphJson, round_trips_saved_opaque_and_optional_results) {
  const std::string text = to_json(everything()).dump();
  EXPECT_THAT(text, HasSubstr("\"opaque\":true"));
  EXPECT_EQ(to_json(program_from_json(json::parse(text))).dump(), text);
}

TEST(GraphJson, a_whole_training_step_comes_back) {
  for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16, PrecisionKind::fp64}) {
    const Graph step = training_step(everything(), {.precision = precision_of(precision)});
    const std::string text = to_json(step).dump();
    EXPECT_EQ(to_json(graph_from_json(json::parse(text))).dump(), text) << to_string(precision);
  }
}

TEST(GraphJson, a_read_program_trains_as_the_written_one) {
  const Program program = everything();
  const Program read = program_from_json(to_json(program));
  EXPECT_EQ(to_json(training_step(read, {})), to_json(training_step(program, {})));
}

TEST(GraphJson, refuses_with_the_place_of_the_error) {
  EXPECT_THAT(reading([](json& p) { p["schema"] = "assay-program/9"; }),
              ThrowsMessage<GraphError>(AllOf(HasSubstr("/schema"), HasSubstr("assay-program/9"))));
  EXPECT_THAT(
      reading([](json& p) { p["training"]["nodes"][1]["op"] = "linaer"; }),
      ThrowsMessage<GraphError>(AllOf(HasSubstr("/training/nodes/1"), HasSubstr("did you mean 'linear'"))));
  EXPECT_THAT(
      reading([](json& p) { p["training"]["nodes"][1]["inputs"][1] = "fc2.weight"; }),
      ThrowsMessage<GraphError>(AllOf(HasSubstr("/training/nodes/1"), HasSubstr("not available yet"))));
  EXPECT_THAT(reading([](json& p) { p["training"]["nodes"][0]["inputs"][0] = "fc2"; }),
              ThrowsMessage<GraphError>(AllOf(HasSubstr("/training/nodes/0"), HasSubstr("a cycle?"))));
  EXPECT_THAT(
      reading([](json& p) { p["training"]["values"][0]["shape"] = "4"; }),
      ThrowsMessage<GraphError>(HasSubstr("/training/values/0/shape: expected an array, found string")));
  EXPECT_THAT(reading([](json& p) { p["training"]["values"][0].erase("dtype"); }),
              ThrowsMessage<GraphError>(HasSubstr("/training/values/0: 'dtype' is missing")));
  EXPECT_THAT(
      reading([](json& p) { p["training"]["outputs"]["loss"] = "nothing"; }),
      ThrowsMessage<GraphError>(AllOf(HasSubstr("/training/outputs"), HasSubstr("unknown value 'nothing'"))));
  EXPECT_THAT(
      reading([](json& p) { p["optimizer"]["kind"] = "adamax"; }),
      ThrowsMessage<GraphError>(AllOf(HasSubstr("/optimizer"), HasSubstr("unknown optimizer 'adamax'"))));
  EXPECT_THAT(reading([](json& p) { p["optimizer"]["beta1"] = 1.0; }),
              ThrowsMessage<GraphError>(AllOf(HasSubstr("/optimizer"), HasSubstr("beta1 is 1"))));
}

TEST(GraphJson, RefusesThatThreeValuesAreReadAsOne) {
  json network = to_json(find_workload("nanogpt").build_small());
  for (json& node : network["training"]["nodes"])
    if (node["op"] == "attention") node["attributes"]["heads"] = 2;
  EXPECT_THAT([&] { program_from_json(network); },
              ThrowsMessage<GraphError>(AllOf(HasSubstr("/attributes/heads"), HasSubstr("only fusion"))));
}

TEST(GraphJson, ReadsANetworkThatIsOnlyInferred) {
  const Workload& workload = find_workload("lenet5");
  const json written = to_json(workload.build(workload.form(4, Task::infer)));
  EXPECT_FALSE(written.contains("training") || written.contains("optimizer"));
  const Program read = program_from_json(written);
  EXPECT_FALSE(read.training || read.optimizer || read.is_op());
  EXPECT_EQ(to_json(read), written);
}

TEST(GraphJson, RefusesHalfOfATraining) {
  for (const char* absent : {"training", "optimizer"})
    EXPECT_THAT(reading([&](json& p) { p.erase(absent); }),
                ThrowsMessage<GraphError>(HasSubstr("a training graph and an optimizer, or neither")));
  EXPECT_THAT(reading([](json& p) { p["kind"] = "layer"; }),
              ThrowsMessage<GraphError>(AllOf(HasSubstr("/kind"), HasSubstr("found 'layer'"))));
  EXPECT_THAT(reading([](json& p) { p["kind"] = "op"; }), ThrowsMessage<GraphError>(HasSubstr("mlp")));
}

TEST(GraphJson, KeepsTheClippingOfGradients) {
  Program program = find_workload("mlp").build(4);
  program.optimizer = {.kind = "adamw", .weight_decay = 0.05, .clip_norm = 1.5};
  const OptimizerSpec read = program_from_json(to_json(program)).optimizer.value();
  EXPECT_EQ(read.kind, "adamw");
  EXPECT_EQ(read.clip_norm, 1.5);
  json older = mlp();
  older["optimizer"].erase("clip_norm");
  EXPECT_EQ(program_from_json(older).optimizer->clip_norm, 0);
  EXPECT_THAT(reading([](json& p) { p["optimizer"]["clip_norm"] = -1; }),
              ThrowsMessage<GraphError>(HasSubstr("clip_norm is -1")));
}

TEST(GraphJson, refuses_names_given_twice) {
  EXPECT_THAT(reading([](json& p) { p["training"]["values"].push_back(p["training"]["values"][0]); }),
              ThrowsMessage<GraphError>(HasSubstr("'inputs' is taken")));
  EXPECT_THAT(reading([](json& p) { p["training"]["nodes"][2]["name"] = "fc1"; }),
              ThrowsMessage<GraphError>(HasSubstr("taken")));
}

TEST(GraphJson, refuses_sizes_that_overflow_or_are_invalid) {
  for (const json& shape :
       {json{-4, 1, 28, 28}, json{0, 1, 28, 28}, json{INT64_MAX, 1, 28, 28}, json{UINT64_MAX},
        json{4294967296, 4294967296, 4294967296}, json{1e3, 1, 28, 28}, json{1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_THAT(reading([&](json& p) { p["training"]["values"][0]["shape"] = shape; }),
                ThrowsMessage<GraphError>(HasSubstr("/training/values/0")))
        << shape;
  }
}

TEST(GraphJson, refuses_a_shape_that_does_not_follow) {
  EXPECT_THAT(
      reading([](json& p) {
        for (json& value : p["training"]["values"]) {
          if (value["name"] == "fc1") value["shape"] = {4, 129};
        }
      }),
      ThrowsMessage<GraphError>(HasSubstr(
          "'fc1' is declared as intermediate f32 (4, 129), but the ops infer intermediate f32 (4, 128)")));
}

TEST(GraphJson, refuses_values_and_nodes_that_do_not_match) {
  EXPECT_THROW(reading([](json& p) { p["training"]["values"].erase(p["training"]["values"].size() - 1); })(),
               GraphError);
  EXPECT_THAT(reading([](json& p) {
                p["training"]["values"].push_back(
                    {{"name", "ghost"}, {"dtype", "f32"}, {"shape", {1}}, {"role", "intermediate"}});
              }),
              ThrowsMessage<GraphError>(HasSubstr("no node makes 'ghost'")));
}

TEST(GraphJson, refuses_a_program_whose_graphs_differ_in_their_parameters) {
  EXPECT_THAT(reading([](json& p) { p["inference"]["values"][2]["name"] = "fc1.wait"; }),
              ThrowsMessage<GraphError>(HasSubstr("graph.json")));
}

// Any change of a program is read or refused: nothing else happens.
TEST(GraphJson, survives_random_damage) {
  const json good = to_json(everything());
  const json junk[] = {nullptr,
                       true,
                       -1,
                       0,
                       1,
                       INT64_MAX,
                       INT64_MIN,
                       UINT64_MAX,
                       0.5,
                       1e300,
                       "",
                       "inputs",
                       "loss",
                       "conv",
                       "convolution",
                       "relu",
                       "i32",
                       "bf16",
                       "state",
                       json::array(),
                       json::object(),
                       json::array({1, 2}),
                       json::array({INT64_MAX, INT64_MAX}),
                       json::array({nullptr})};
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int refused = 0;
  constexpr int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    json bad = good;
    for (std::size_t change = 0; change <= below(2); ++change) {
      json* place = &bad;
      while (place->is_structured() && !place->empty() && (place == &bad || below(6) != 0)) {
        place = &*std::next(place->begin(), static_cast<std::ptrdiff_t>(below(place->size())));
      }
      *place = junk[below(std::size(junk))];
    }
    try {
      const Program program = program_from_json(bad);
      training_step(program, {.precision = precision_of(PrecisionKind::bf16), .gradients_as_outputs = true});
      inference_step(program, {});
    } catch (const GraphError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 2);
  EXPECT_LT(refused, rounds);
}

}  // namespace
}  // namespace assay
