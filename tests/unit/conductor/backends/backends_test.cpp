#include "harness/conductor/backends/backends.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/core/json/schema.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/paths.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

nlohmann::json description() {
  return nlohmann::json::parse(
      R"({"name": "fake", "kind": "framework", "command": ["${interpreter}", "${here}/worker.py"],
    "framework": "fake", "devices": ["cpu"], "modes": ["eager"], "tasks": ["train"], "precisions": ["fp32"],
    "layouts": ["native"], "loaders": ["resident"],
    "requires": [{"file": "${environment}/bin/python", "reason": "Fake is not set up", "remedy": "scripts/setup fake"}]})");
}

class BackendsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("assay_backends_" + std::to_string(::getpid()));
    ::setenv("ASSAY_ENVIRONMENTS", (root_ / "environments").c_str(), 1);
    ::unsetenv("ASSAY_PYTHON_FAKE");
  }
  void TearDown() override {
    fs::remove_all(root_);
    ::unsetenv("ASSAY_ENVIRONMENTS");
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  BackendDescription read(const Interpreters& interpreters = {}) {
    return backend_from_json(description(), root_ / "fake/backend.json", interpreters);
  }

  fs::path root_;
};

TEST_F(BackendsTest, IsUnavailableWithReasonAndRemedy) {
  const BackendDescription backend = read();
  EXPECT_FALSE(backend.available());
  EXPECT_THAT(backend.unavailable, HasSubstr("Fake is not set up"));
  EXPECT_EQ(backend.remedy, "scripts/setup fake");
}

TEST_F(BackendsTest, DigestsNameTheFileThatChanged) {
  write(root_ / "fake/worker.py", "one = 1\n");
  write(root_ / "fake/backend.json", "{}");
  const BackendDescription backend = read();
  const BackendDigest first = digest_of(backend);
  write(root_ / "fake/__pycache__/worker.pyc", "compiled");
  write(root_ / "fake/.worker.py.swp", "an editor's");
  EXPECT_EQ(changed_backend_file(first, digest_of(backend)), "");
  write(root_ / "fake/worker.py", "two = 2\n");
  const BackendDigest second = digest_of(backend);
  EXPECT_EQ(changed_backend_file(first, second), "here/worker.py");
  EXPECT_NE(first.adapter, second.adapter);
  EXPECT_EQ(first.program, second.program);
  write(root_ / "fake/worker.py", "one = 1\n");
  EXPECT_EQ(digest_of(backend).adapter, first.adapter);
  write(root_ / "fake/backend.json", "{ }");
  EXPECT_EQ(digest_of(backend).adapter, first.adapter) << "it may name paths of this machine";
  EXPECT_NE(digest_of(backend).program, first.program);
  write(root_ / "fake/more.py", "three = 3\n");
  EXPECT_EQ(changed_backend_file(second, digest_of(backend)), "here/backend.json");
  fs::remove(root_ / "fake/worker.py");
  EXPECT_NE(changed_backend_file(second, digest_of(backend)), "");
}

TEST_F(BackendsTest, APythonWorkerAnywhereCanImportTheWorkerPackage) {
  nlohmann::json json = description();
  json["environment"] = {{"PYTHONPATH", "${assay_worker}"}};
  const BackendDescription backend = backend_from_json(json, root_ / "fake/backend.json", {});
  EXPECT_TRUE(fs::exists(fs::path(backend.environment.at("PYTHONPATH")) / "assay_worker/__init__.py"));
}

TEST_F(BackendsTest, AFileThatADeviceNeedsLeavesTheOthersAvailable) {
  nlohmann::json json = description();
  json["command"] = {"true"};
  json["devices"] = {"cpu", "cuda"};
  json["requires"] = {{{"file", (root_ / "driver").string()},
                       {"or", {(root_ / "another").string()}},
                       {"devices", {"cuda"}},
                       {"reason", "no driver"},
                       {"remedy", "load one"}}};
  const auto read_again = [&] { return backend_from_json(json, root_ / "fake/backend.json", {}); };
  const BackendDescription without = read_again();
  EXPECT_TRUE(without.available()) << without.unavailable;
  ASSERT_TRUE(without.unavailable_on.contains(DeviceKind::cuda));
  EXPECT_EQ(without.unavailable_on.at(DeviceKind::cuda),
            "no driver: " + (root_ / "driver").string() + " does not exist; load one");
  EXPECT_FALSE(without.unavailable_on.contains(DeviceKind::cpu));
  write(root_ / "another", "");
  EXPECT_TRUE(read_again().unavailable_on.empty());
}

TEST_F(BackendsTest, AFileThatRanksNeedLeavesOneRankAvailable) {
  nlohmann::json json = description();
  json["command"] = {"true"};
  json["requires"] = {{{"file", (root_ / "module").string()},
                       {"several_ranks", true},
                       {"reason", "no MPI"},
                       {"remedy", "build again"}}};
  const auto read_again = [&] { return backend_from_json(json, root_ / "fake/backend.json", {}); };
  const BackendDescription without = read_again();
  EXPECT_TRUE(without.available()) << without.unavailable;
  EXPECT_EQ(without.unavailable_in_ranks,
            "no MPI: " + (root_ / "module").string() + " does not exist; build again");
  write(root_ / "module", "");
  EXPECT_EQ(read_again().unavailable_in_ranks, "");
}

TEST_F(BackendsTest, ReadsWhatItRefuses) {
  nlohmann::json json = description();
  json["refuses"] = {{{"tasks", {"infer"}}, {"single_ops", true}, {"reason", "it trains networks"}}};
  const BackendDescription backend = backend_from_json(json, root_ / "fake/backend.json", {});
  ASSERT_EQ(backend.refusals.size(), 1U);
  EXPECT_EQ(backend.refusals[0].tasks, std::vector{Task::infer});
  EXPECT_EQ(backend.refusals[0].single_ops, true);
  EXPECT_FALSE(backend.refusals[0].row_sparse);
  json["refuses"][0]["mode"] = {"eager"};
  EXPECT_THROW(backend_from_json(json, root_ / "fake/backend.json", {}), Error);
}

TEST_F(BackendsTest, IsBareOnlyInTheModeThatItSays) {
  nlohmann::json json = description();
  json["kind"] = "engine";
  json["modes"] = {"graph", "primitives"};
  json["bare_modes"] = {"primitives"};
  const BackendDescription backend = backend_from_json(json, root_ / "fake/backend.json", {});
  EXPECT_EQ(backend.kind_of("graph"), BackendKind::engine);
  EXPECT_EQ(backend.kind_of("primitives"), BackendKind::bare);
  EXPECT_EQ(read().kind_of("eager"), BackendKind::framework);
  json["bare_modes"] = {"primitive"};
  EXPECT_THROW(backend_from_json(json, root_ / "fake/backend.json", {}), ConfigError);
}

TEST_F(BackendsTest, placeholders_become_paths) {
  const fs::path python = root_ / "environments/fake/bin/python";
  write(python, "#!/bin/sh\n");
  fs::permissions(python, fs::perms::owner_all);
  const BackendDescription backend = read();
  EXPECT_TRUE(backend.available()) << backend.unavailable;
  EXPECT_EQ(backend.command.at(0), python.string());
  EXPECT_EQ(backend.command.at(1), (root_ / "fake/worker.py").string());
}

TEST_F(BackendsTest, a_named_interpreter_replaces_the_environment) {
  EXPECT_TRUE(read({{"fake", "/bin/sh"}}).available());
  EXPECT_EQ(read({{"fake", "/bin/sh"}}).command.at(0), "/bin/sh");
  EXPECT_EQ(read({{"fake", "/bin/sh"}}).interpreter, "/bin/sh");
  EXPECT_EQ(read({{"other", "/bin/sh"}}).interpreter, "");
  ::setenv("ASSAY_PYTHON_FAKE", "/bin/cat", 1);
  EXPECT_EQ(read().command.at(0), "/bin/cat");
  ::unsetenv("ASSAY_PYTHON_FAKE");
}

TEST_F(BackendsTest, uses_no_shared_interpreter_without_a_home) {
  const auto taken = [](const char* name) {
    const auto value = environment_variable(name);
    ::unsetenv(name);
    return value;
  };
  const char* names[] = {"ASSAY_ENVIRONMENTS", "XDG_DATA_HOME", "HOME"};
  std::optional<std::string> before[3];
  for (int i = 0; i < 3; ++i) before[i] = taken(names[i]);
  const BackendDescription backend = read();
  for (int i = 0; i < 3; ++i)
    if (before[i]) ::setenv(names[i], before[i]->c_str(), 1);
  EXPECT_THAT(backend.unavailable, HasSubstr("the folder of the environments is unknown"));
  EXPECT_THAT(backend.remedy, HasSubstr("ASSAY_ENVIRONMENTS"));
  EXPECT_TRUE(backend.command.at(0).empty());
}

TEST_F(BackendsTest, a_name_that_a_shell_or_a_log_would_obey_is_refused) {
  for (const char* name : {"a;b", "::error", "a b", "a/b", "", "a\x1b[31m"}) {
    nlohmann::json json = description();
    json["name"] = name;
    EXPECT_THROW(backend_from_json(json, root_ / "fake/backend.json", {}), ConfigError) << name;
  }
}

TEST_F(BackendsTest, a_framework_that_is_not_the_name_of_a_folder_is_refused) {
  for (const char* framework : {"..", "../..", "/tmp", "a/b", "${here}", ".hidden"}) {
    nlohmann::json json = description();
    json["framework"] = framework;
    EXPECT_THROW(backend_from_json(json, root_ / "fake/backend.json", {}), ConfigError) << framework;
  }
}

TEST_F(BackendsTest, a_bad_description_is_a_fault_and_no_obstacle) {
  write(root_ / "a/backend.json", "{\"name\": ");
  auto misspelt = description();
  misspelt["precision"] = {"fp32"};
  write(root_ / "b/backend.json", misspelt.dump());
  auto good = description();
  good["command"] = {"true"};
  good.erase("requires");
  write(root_ / "c/backend.json", good.dump());
  const BackendRegistry registry = find_backends_in({root_, root_ / "absent"}, {});
  ASSERT_EQ(registry.backends.size(), 1U);
  EXPECT_TRUE(registry.find("fake")->available());
  ASSERT_EQ(registry.faults.size(), 2U);
  EXPECT_THAT(registry.faults[1], AllOf(HasSubstr("b/backend.json"), HasSubstr("precision")));
}

TEST_F(BackendsTest, a_mode_that_is_called_as_a_word_for_several_modes_is_a_fault) {
  for (const char* word : {"all", "best"}) {
    auto wrong = description();
    wrong["modes"].push_back(word);
    EXPECT_THAT([&] { backend_from_json(wrong, root_ / "fake/backend.json", {}); },
                ::testing::ThrowsMessage<ConfigError>(HasSubstr(std::string("must not be called '") + word)));
  }
}

TEST_F(BackendsTest, NamesTheKnownWordsWhenADescriptionHasAnotherOne) {
  const std::pair<const char*, const char*> lists[] = {{"devices", "cpu, cuda"},
                                                       {"tasks", "train, infer"},
                                                       {"precisions", "fp32, tf32, bf16, fp64"},
                                                       {"loaders", "resident, harness, native"},
                                                       {"memory_limits", "cpu, cuda"}};
  for (const auto& [key, known] : lists) {
    auto wrong = description();
    wrong[key] = {"gpu"};
    write(root_ / "b/backend.json", wrong.dump());
    const BackendRegistry registry = find_backends_in({root_}, {});
    EXPECT_TRUE(registry.backends.empty()) << key;
    ASSERT_EQ(registry.faults.size(), 1U) << key;
    EXPECT_THAT(registry.faults[0], AllOf(HasSubstr(key), HasSubstr("\"gpu\""), HasSubstr(known)));
  }
}

TEST_F(BackendsTest, the_first_of_a_name_wins_with_a_warning) {
  auto one = description(), two = description();
  one["description"] = "first";
  two["description"] = "second";
  write(root_ / "one/fake/backend.json", one.dump());
  write(root_ / "two/fake/backend.json", two.dump());
  const BackendRegistry registry = find_backends_in({root_ / "one", root_ / "two"}, {});
  ASSERT_EQ(registry.backends.size(), 1U);
  EXPECT_EQ(registry.backends[0].description, "first");
  ASSERT_EQ(registry.faults.size(), 1U);
  EXPECT_THAT(registry.faults[0], AllOf(HasSubstr("one/fake"), HasSubstr("two/fake")));
}

TEST_F(BackendsTest, a_folder_named_twice_is_one_backend) {
  write(root_ / "one/fake/backend.json", description().dump());
  const BackendRegistry registry = find_backends_in({root_ / "one", root_ / "one/fake", root_ / "one/"}, {});
  EXPECT_EQ(registry.backends.size(), 1U);
  EXPECT_TRUE(registry.faults.empty()) << registry.faults[0];
}

TEST_F(BackendsTest, an_added_backend_does_not_replace_the_oracle) {
  auto built = description(), added = description();
  for (auto* one : {&built, &added}) {
    (*one)["oracle"] = true;
    (*one)["command"] = {"true"};
    one->erase("requires");
  }
  built["name"] = "reference";
  added["name"] = "another";
  write(root_ / "added/another/backend.json", added.dump());
  write(root_ / "built/reference/backend.json", built.dump());
  const BackendRegistry registry = find_backends_in({root_ / "added", root_ / "built"}, {});
  ASSERT_EQ(registry.backends.size(), 2U);
  EXPECT_EQ(registry.oracle()->name, "reference");
  ASSERT_EQ(registry.faults.size(), 1U);
  EXPECT_THAT(registry.faults[0], AllOf(HasSubstr("another"), HasSubstr("not used as the oracle")));
}

TEST_F(BackendsTest, names_the_wrong_field_of_the_description) {
  const auto with = [](const nlohmann::json& patch) -> std::string {
    auto changed = description();
    changed.merge_patch(patch);
    try {
      backend_from_json(changed, "x/backend.json", {});
    } catch (const JsonError& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_EQ(with({{"memory_limits", {"cpu"}}}), "read");
  EXPECT_EQ(with({{"precision", {"fp32"}}}),
            "x/backend.json/precision: unknown field; did you mean 'precisions'?");
  EXPECT_EQ(with({{"x_notes", 1}}), "x/backend.json/x_notes: unknown field");
  EXPECT_EQ(with({{"kind", nullptr}}), "x/backend.json: the field \"kind\" is missing");
  EXPECT_EQ(with({{"modes", nlohmann::json::array()}}), "x/backend.json/modes: is empty");
  EXPECT_EQ(with({{"ops", {"relu", 3}}}), "x/backend.json/ops/1: should be text, is number");
  EXPECT_EQ(with({{"oracle", "yes"}}), "x/backend.json/oracle: should be true or false, is string");
  EXPECT_EQ(with({{"requires", {{{"file", "a"}, {"reason", "b"}}}}}),
            "x/backend.json/requires/0: the field \"remedy\" is missing");
}

TEST_F(BackendsTest, unknown_placeholders_and_interpreters_are_refused) {
  auto wrong = description();
  wrong["command"] = {"${home}/worker"};
  EXPECT_THROW(backend_from_json(wrong, "x/backend.json", {}), ConfigError);
  EXPECT_THROW(parse_interpreters({"torch"}), ConfigError);
  EXPECT_THROW(parse_interpreters({"torch=/no/such/python"}), ConfigError);
}

// The schema of the protocol is written by hand, with definitions of its own.
TEST(Refusals, HaveTheConditionsOfThePublishedSchema) {
  const nlohmann::json schema =
      nlohmann::json::parse(std::ifstream(ASSAY_SOURCE_DIR "/docs/reference/protocol.schema.json"));
  std::set<std::string> published, described;
  const nlohmann::json& rule =
      schema.at("definitions").at("backend").at("properties").at("refuses").at("items");
  for (const auto& [name, of] : rule.at("properties").items()) published.insert(name);
  const nlohmann::json made = SchemaMaker().object<Refusal>().at("properties");
  for (const auto& [name, of] : made.items()) described.insert(name);
  EXPECT_EQ(published, described);
}

}  // namespace
}  // namespace assay
