#include "harness/conductor/print/entries.hpp"
#include "harness/conductor/print/report_tables.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/print/printers.hpp"
#include "harness/report/analysis.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const Report& report) { return console(summary(report), {}); }

std::string entry(const Table& table, std::size_t row, const std::string& title) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].title == title) return table.rows.at(row).at(i).text;
  return "no column " + title;
}

TEST(Summary, ranks_by_time_and_states_ratio_and_tax) {
  Report report = test::sample_report(6);
  std::swap(report.cells[0], report.cells[1]);
  const Table table = summary(report).at(0);
  EXPECT_EQ(entry(table, 0, "backend"), "onednn");
  EXPECT_EQ(entry(table, 1, "#"), "2");
  EXPECT_EQ(entry(table, 1, "vs onednn graph"), "4.00x [4.00, 4.00]");
  EXPECT_EQ(entry(table, 1, "tax"), "+300 % [+300, +300]");
  EXPECT_EQ(entry(table, 0, "tax"), "-");
  EXPECT_EQ(entry(table, 0, "equivalence"), "25 % of bound");
}

TEST(Summary, SaysOnceThatIntervalsHoldWithinTheRun) {
  const auto tables = summary(test::sample_report(6));
  EXPECT_THAT(tables.at(0).notes, Contains(HasSubstr("Intervals [low, high] hold within this run")));
  for (const Table& table : std::span(tables).subspan(1))
    EXPECT_THAT(table.notes, Not(Contains(HasSubstr("within this run"))));
  EXPECT_THAT(text_of(test::sample_report(2)), Not(HasSubstr("within this run"))) << "it has no interval";
}

TEST(Summary, SaysWhetherTheSearchForTheBestModeShowsADifference) {
  Report report = test::sample_report(6);
  const auto tried = [](const char* mode, double ratio, std::optional<std::pair<double, double>> interval) {
    TriedRecord made{.mode = mode, .layout = "native", .step_time = 1e-3 * ratio};
    made.forks = 9;
    made.ratio = ratio;
    if (interval) std::tie(made.lower, made.upper) = *interval;
    return made;
  };
  const BestRecord best{.backend = "torch",
                        .work = "lenet5",
                        .tried = {tried("compile", 1, {{1, 1}}), tried("eager", 1.4, {{1.2, 1.6}}),
                                  tried("freeze", 1.1, {{0.9, 1.3}}), tried("layer", 1.2, {})}};
  report.run.best = {best};
  EXPECT_THAT(text_of(report),
              HasSubstr("eager takes 1.40 [1.20, 1.60] times as long, freeze takes 1.10 [0.900, 1.30] "
                        "times as long (no clear difference), layer took about 1.20 times as long, but "
                        "too few rounds count for an interval"));
}

TEST(Summary, names_the_framework_loader) {
  Report report = test::sample_report(2);
  EXPECT_THAT(text_of(report), Not(HasSubstr("own loader")));
  report.cells[1].axes.loader = LoaderKind::native;
  EXPECT_THAT(text_of(report), HasSubstr("torch compile was fed by its framework's own loader"));
}

TEST(Summary, SaysWhichOpsOfABareCellRanOutsideOfItsLibrary) {
  Report report = test::sample_report(2);
  EXPECT_THAT(text_of(report), Not(HasSubstr("no primitive for")));
  for (Fork& fork : report.cells[0].forks) fork.settings["outside_of_library"] = "none";
  EXPECT_THAT(text_of(report), Not(HasSubstr("no primitive for")));
  for (Fork& fork : report.cells[0].forks) fork.settings["outside_of_library"] = "embedding";
  EXPECT_THAT(text_of(report), HasSubstr("onednn graph: the library has no primitive for embedding"));
}

TEST(Summary, gives_a_reason_for_each_cell_that_is_not_ranked) {
  Report report = test::sample_report(2);
  report.cells[0].flags = {"throttled"};
  report.cells.push_back(test::sample_cell("torch", "eager", 0.001, 0));
  report.cells[2].status = Status::unavailable;
  report.cells[2].reason = "PyTorch is not set up; scripts/setup --framework torch";
  report.cells[2].metrics.clear();
  report.cells.push_back(test::sample_cell("numpy", "eager", 0.001, 1));
  report.cells[3].status = Status::wrong_result;
  report.cells[3].reason = "check/gradient/conv1.weight is 3 times its bound";
  const std::string text = text_of(report);
  const Table table = summary(report).at(0);
  EXPECT_EQ(entry(table, 0, "backend"), "torch");
  EXPECT_EQ(entry(table, 1, "#"), "");
  EXPECT_THAT(text, HasSubstr("onednn graph is not ranked: the GPU lowered its clocks."));
  EXPECT_THAT(text,
              HasSubstr("torch eager: unavailable: PyTorch is not set up; scripts/setup --framework torch"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "numpy eager: wrong_result: check/gradient/conv1.weight is 3 times its bound; again: assay run"));
}

TEST(Summary, AnswersInASentenceAndRanksOnlyBySixRounds) {
  const Report few = test::sample_report(3);
  const std::string three = text_of(few), six = text_of(test::sample_report(6));
  EXPECT_THAT(three,
              HasSubstr("Nothing is ranked: a rank needs 6 rounds that count, and some cells share only 3."));
  EXPECT_THAT(
      three,
      HasSubstr("next to that of onednn graph: torch compile 4.00x. Use --forks 6, or --until clear."));
  EXPECT_EQ(entry(summary(few).at(0), 0, "#"), "no column #");
  EXPECT_THAT(six, HasSubstr("onednn graph is the fastest of 2; torch compile takes 4.00 times as long."));
  EXPECT_THAT(six, Not(HasSubstr("--forks")));
}

TEST(Summary, SaysHowUntilClearEndedAndDoesNotAdviseIt) {
  Report report = test::sample_report(3);
  const std::string title = group_title(report.cells[0].axes);
  const auto text = [&](HowEnded how) {
    report.run.ended = {{title, how}};
    return text_of(report);
  };
  EXPECT_THAT(text(HowEnded::disturbed), HasSubstr("--until clear: the machine was too disturbed"));
  EXPECT_THAT(text(HowEnded::time), HasSubstr("use a longer --max-time"));
  EXPECT_THAT(text(HowEnded::time), Not(HasSubstr("or --until clear")));
  for (CellReport& cell : report.cells) {
    cell.flags = {"disturbed"};
    for (Fork& fork : cell.forks) fork.flags = {"disturbed"};
  }
  EXPECT_THAT(text(HowEnded::disturbed),
              HasSubstr("run again. --until clear: the machine was too disturbed"));
  report.run.ended.clear();
  report.run.settings.until = "clear";
  EXPECT_THAT(text_of(report), HasSubstr("run again. --until clear: fewer than two cells can be ranked."));
  report = test::sample_report(6);
  EXPECT_THAT(text(HowEnded::clear), HasSubstr("--until clear: the order is clear."));
  EXPECT_THAT(text(HowEnded::equal), HasSubstr("within 2 % of each other"));
  EXPECT_THAT(text(HowEnded::rounds), HasSubstr("25 rounds did not make the order clear"));
}

TEST(Summary, SaysThatCellsAreNotClearlyApart) {
  Report report = test::sample_report(6);
  report.cells[1] = report.cells[0];
  report.cells[1].axes.backend = "torch";
  report.cells[1].id = cell_id(report.cells[1].axes);
  std::swap(report.cells[1].forks[0].blocks, report.cells[1].forks[1].blocks);
  const Table table = summary(report).at(0);
  EXPECT_EQ(entry(table, 0, "#"), "1-2");
  EXPECT_EQ(entry(table, 1, "#"), "1-2");
  EXPECT_THAT(text_of(report), HasSubstr("with no clear difference between them"));
  EXPECT_THAT(text_of(report), HasSubstr("use --until clear, or more --forks"));
}

TEST(Summary, CountsTheForksBehindTheNumbers) {
  Report report = test::sample_report(3);
  report.cells[0].forks[1].flags = {"disturbed"};
  EXPECT_EQ(entry(summary(report).at(0), 0, "n"), "2 of 3");
  EXPECT_EQ(entry(summary(report).at(0), 1, "n"), "3");
  EXPECT_THAT(text_of(report), HasSubstr("During 1 of 6 forks other processes used the processors. These"));
}

TEST(Summary, SaysHowOftenFlagsFallOnEachBackend) {
  EXPECT_THAT(text_of(test::sample_report(6)), Not(HasSubstr("Flags of forks")));
  Report report = test::sample_report(12);
  report.cells[0].forks[1].flags = {"disturbed"};
  EXPECT_THAT(text_of(report),
              HasSubstr("Flags of forks by backend: disturbed: onednn 1 of 12, torch 0 of 12. No backend"));
  for (Fork& fork : report.cells[0].forks) fork.flags = {"placement"};
  EXPECT_THAT(text_of(report), HasSubstr("warning: forks of onednn have the flag placement more often"));
  EXPECT_THAT(text_of(report), HasSubstr("forks of torch have the flag placement less often"));
}

TEST(Summary, MarksARatioOfCellsThatShareNoRound) {
  EXPECT_EQ(ratio_text({.value = 3, .least = 3, .greatest = 3}), "3.00x unpaired");
  EXPECT_EQ(ratio_text({.value = 3, .least = 2, .greatest = 4, .n = 2}), "3.00x (2.00 to 4.00)");
  Report report = test::sample_report(6);
  for (Fork& fork : report.cells[1].forks) fork.session = 1;
  EXPECT_THAT(text_of(report), HasSubstr("share no round of one session that counts"));
  EXPECT_THAT(text_of(report), HasSubstr("torch compile 4.00x unpaired"));
}

TEST(Summary, ShowsDisturbedRoundsAsAProvisionalOrder) {
  Report report = test::sample_report(6);
  std::swap(report.cells[0], report.cells[1]);
  for (CellReport& cell : report.cells) {
    cell.flags = {"disturbed"};
    for (Fork& fork : cell.forks) {
      fork.flags = {"disturbed"};
      fork.disturbance = {.processors = 2, .window_ns = 1'000'000'000, .waited_ns = 0};
    }
  }
  const Table table = summary(report).at(0);
  EXPECT_EQ(entry(table, 0, "#"), "no column #");
  EXPECT_EQ(entry(table, 0, "tax"), "no column tax");
  EXPECT_EQ(entry(table, 0, "backend"), "onednn");
  EXPECT_EQ(entry(table, 1, "provisional vs onednn graph"), "4.00x");
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("Nothing is ranked: "));
  EXPECT_THAT(
      text,
      HasSubstr(
          "Provisional order, by 6 rounds, of which 6 were disturbed: onednn graph; torch compile takes "
          "4.00 times as long (4.00 to 4.00)."));
  EXPECT_THAT(text, HasSubstr("more than the disturbance explains: torch compile from onednn graph."));
  EXPECT_THAT(text, HasSubstr("6 undisturbed rounds would settle it."));
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) {
      fork.flags.emplace_back("fewer_threads");
      fork.settings["fewer_threads"] = "1";
    }
  EXPECT_EQ(entry(summary(report).at(0), 1, "provisional t1 vs onednn graph"), "8.20 ms, 4.00x");
  EXPECT_THAT(text_of(report), HasSubstr("with --threads 1 because the machine was busy"));
  const auto document = nlohmann::json::parse(analysis_text(analyze(report), {}, {}));
  const nlohmann::json& group = document["groups"][0];
  EXPECT_EQ(group["provisional"]["rows"][1]["to_first"]["value"], 4);
  EXPECT_EQ(group["provisional"]["rows"][1]["apart_from"], 1);
  EXPECT_EQ(group["rounds"], 0);
  for (const nlohmann::json& cell : document["cells"])
    for (const char* name : {"rank", "ratio", "to_fastest", "time"})
      EXPECT_TRUE(cell[name].is_null()) << name;
}

TEST(Summary, JoinsWarningsThatDifferOnlyInTheirNumbers) {
  Report report = test::sample_report(3);
  std::vector<Fork>& forks = report.cells[0].forks;
  forks[0].warnings = {"the step time changed from 1 ms to 2 ms", "its clocks are not locked"};
  forks[1].warnings = {"its clocks are not locked"};
  forks[2].warnings = {"the step time changed from 900 us to 3 ms"};
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("warning (2 of 3 forks): its clocks are not locked."));
  EXPECT_THAT(text,
              HasSubstr("warning (2 of 3 forks, here the first): the step time changed from 1 ms to 2 ms."));
}

TEST(Summary, compares_measured_and_published_numbers) {
  Report report = test::sample_report(2);
  const Table table = published_table(analyze(report));
  EXPECT_EQ(entry(table, 0, "measured"), "4.00x");
  EXPECT_EQ(entry(table, 0, "published"), "3.00x");
  EXPECT_EQ(entry(table, 0, "metric"), "step_time / that of onednn graph");
  report.cells[1].published = {
      {.metric = "samples_per_second", .value = 3571, .unit = "1/s", .source = "S, table 4"},
      {.metric = "test_accuracy", .source = "P", .statement = "accuracy alike (figures only)"}};
  const Table two = published_table(analyze(report));
  EXPECT_EQ(entry(two, 0, "published"), "3571 /s");
  EXPECT_EQ(entry(two, 1, "published"), "accuracy alike (figures only)");
  EXPECT_EQ(entry(two, 1, "measured"), "87.5 %");
}

TEST(Summary, MarksWhatACellThatIsNotRankedMeasured) {
  Report report = test::sample_report(2);
  EXPECT_THAT(text_of(report), Not(HasSubstr("*: a cell of this row")));
  report.cells[0].equivalence.passed = false;  // the other side of the ratio
  EXPECT_EQ(entry(published_table(analyze(report)), 0, "measured"), "4.00x *");
  EXPECT_THAT(text_of(report), HasSubstr("*: a cell of this row is not ranked"));
}

TEST(Summary, turns_a_published_ratio_of_rates_the_right_way_round) {
  Report report = test::sample_report(2);
  report.cells[1].published = {
      {.metric = "samples_per_second", .value = 0.71, .unit = "1", .to = report.cells[0].id, .source = "S"}};
  EXPECT_EQ(entry(published_table(analyze(report)), 0, "measured"), "0.250x");
}

TEST(Summary, gives_a_published_ratio_the_interval_that_paired_forks_allow) {
  Report report = test::sample_report(6);
  EXPECT_THAT(entry(published_table(analyze(report)), 0, "measured"),
              ::testing::MatchesRegex("4.00x \\[.*, .*\\]"));
  report.cells[1].published[0].metric = "samples_per_second";
  EXPECT_THAT(entry(published_table(analyze(report)), 0, "measured"),
              ::testing::MatchesRegex("0.250x \\[.*, .*\\]"));
}

TEST(Summary, never_shows_a_quick_run_as_the_published_protocol) {
  Report report = test::sample_report(2);
  EXPECT_THAT(text_of(report), Not(HasSubstr("QUICK")));
  EXPECT_THAT(text_of(report), HasSubstr("published"));
  report.run.quick = true;
  EXPECT_TRUE(published_table(analyze(report)).rows.empty());
  EXPECT_THAT(text_of(report), ::testing::StartsWith("QUICK"));
  EXPECT_THAT(text_of(report), Not(HasSubstr("Measured and published")));
}

TEST(Summary, says_which_options_changed_the_protocol) {
  Report report = test::sample_report(2);
  report.run.config["overridden"] = {"epochs", "batch"};
  EXPECT_THAT(text_of(report),
              HasSubstr("Not the protocol as published: the command line set --epochs, --batch."));
}

TEST(Summary, distinguishes_published_rows_by_their_differences) {
  Report report = test::sample_report(2);
  report.cells[0].published = {{.metric = "step_time", .source = "S", .statement = "quick"}};
  report.cells[0].axes.batch = 64;
  const Table table = published_table(analyze(report));
  EXPECT_EQ(entry(table, 0, "cell"), "lenet5 onednn graph b64");
  EXPECT_THAT(entry(table, 1, "cell"), HasSubstr("torch compile b"));
  EXPECT_THAT(entry(table, 1, "cell"), Not(HasSubstr("fp32")));
}

TEST(Summary, ShowsMemoryPlansOnlyOfCellsThatWereNotRun) {
  Report report = test::sample_report(2);
  for (CellReport& cell : report.cells) {
    cell.metrics["plan_naive"] = {.value = 2048, .unit = "B", .hint = Hint::bytes};
    cell.metrics["plan_saving"] = {.value = 2, .unit = "1", .hint = Hint::ratio};
  }
  EXPECT_THAT(text_of(report), Not(HasSubstr("Memory plans")));
  for (CellReport& cell : report.cells) {
    cell.forks.clear();
    cell.equivalence = {};
  }
  EXPECT_THAT(text_of(report), AllOf(HasSubstr("Memory plans"), HasSubstr("2.00 KiB")));
}

TEST(Summary, shows_the_curve_of_the_training_loss_of_five_epochs_or_more) {
  Report report = test::sample_report(3);
  EXPECT_THAT(text_of(report), Not(HasSubstr("Training loss after epoch")));
  for (Fork& fork : report.cells[0].forks) {
    fork.evaluations.clear();
    for (int epoch = 1; epoch <= 20; ++epoch) {
      const double loss = 10.0 * fork.round + 1.0 / epoch;
      fork.evaluations.push_back({.epoch = epoch, .split = DataSplit::train, .samples = 10, .loss = loss});
    }
  }
  const auto curves = [&] {
    const Analysis all = analyze(report);
    return loss_curves(all, all.groups.at(0));
  };
  const Table table = curves();
  ASSERT_EQ(table.columns.size(), 12u) << "ten epochs of twenty";
  EXPECT_EQ(table.columns[2].title, "1");
  EXPECT_EQ(table.columns[11].title, "20");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(entry(table, 0, "1"), "11.0") << "the median of three forks";
  EXPECT_EQ(entry(table, 0, "20"), "10.1");
  report.cells[0].forks[1].evaluations.resize(4);
  EXPECT_TRUE(curves().rows.empty());
}

TEST(Summary, NamesAQuotaThatStoppedWorkers) {
  Report report = test::sample_report(2);
  report.cells[0].flags = {"cpu_quota"};
  report.cells[0].forks[1].flags = {"cpu_quota"};
  const std::string text = text_of(report);
  EXPECT_THAT(text,
              HasSubstr("the CPU quota of the control group stopped the threads of a worker: use at most"));
  EXPECT_THAT(
      text,
      HasSubstr("During 1 of 4 forks the CPU quota of the control group stopped the threads of the worker"));
}

TEST(Summary, NamesTheVariablesThatWorkersHadAndDidNotGet) {
  Report report = test::sample_report(2);
  EXPECT_THAT(text_of(report), Not(HasSubstr("--environment")));
  report.run.settings.environment = std::map<std::string, std::string>{{"OMP_WAIT_POLICY", "passive"}};
  report.run.sessions = {{.dropped = {"OMP_THREAD_LIMIT"}},
                         {.dropped = {"JAX_DISABLE_JIT", "OMP_THREAD_LIMIT"}}};
  report.run.sessions[1].variables = {{"LD_LIBRARY_PATH", "/opt/conda/lib"}, {"OMP_WAIT_POLICY", "passive"}};
  EXPECT_THAT(
      text_of(report),
      AllOf(HasSubstr("Workers had OMP_WAIT_POLICY=passive (--environment)."),
            HasSubstr("their libraries by the caller's LD_LIBRARY_PATH=/opt/conda/lib: other"),
            HasSubstr("Not passed to workers: JAX_DISABLE_JIT, OMP_THREAD_LIMIT; to pass a variable")));
}

TEST(Summary, NamesALibraryInWhichRowsDiffer) {
  Report report = test::sample_report(2);
  std::vector<protocol::Library>&one = report.cells[0].libraries, &other = report.cells[1].libraries;
  report.cells[0].axes.backend = "bare";
  report.cells[1].axes.backend = "framework";
  one = {{"cuDNN", "9.19.0 (build 1)"}, {"OpenMP", "201511"}, {"own", "1", "", true}};
  other = {{"cuDNN", "9.19.0 (build 2)"}, {"OpenMP", "build-id 12"}, {"own", "2", "", true}};
  EXPECT_THAT(text_of(report), Not(HasSubstr("Rows differ"))) << "one release";
  other[0].version = "9.26.0";
  EXPECT_THAT(text_of(report), HasSubstr("Rows differ in cuDNN, too: 9.19.0 (bare), 9.26.0 (framework).\n"));
  one.push_back({"cuDNN", "9.26.0"});
  EXPECT_THAT(text_of(report),
              HasSubstr("Rows differ in cuDNN, too: 9.19.0 and 9.26.0 (bare), 9.26.0 (framework).\n"));
  other.push_back({"cuDNN", "9.19.0"});
  EXPECT_THAT(text_of(report), Not(HasSubstr("Rows differ"))) << "both have both";
  one.pop_back();
  report.cells[1].axes.workload = "another";
  EXPECT_THAT(text_of(report), Not(HasSubstr("Rows differ"))) << "no rows of one table";
}

TEST(Summary, says_that_an_incomplete_run_can_be_resumed) {
  Report report = test::sample_report(1);
  report.run.complete = false;
  EXPECT_THAT(text_of(report), HasSubstr("--resume"));
}

TEST(Summary, reports_that_there_are_no_cells) {
  Report report;
  report.run.complete = true;
  EXPECT_EQ(text_of(report), "No cells.\n");
}

TEST(Summary, MarksALooseExamAndAnotherProgram) {
  Report report = test::sample_report(2);
  CheckSettings& settings = report.cells[0].equivalence.settings.emplace();
  const auto shown = [&] { return entry(summary(report).at(0), 0, "equivalence"); };
  EXPECT_EQ(shown(), "25 % of bound");
  settings.loosest = 1.01 * loose_bound;
  EXPECT_EQ(shown(), "25 % of bound, loosely");
  settings.timed_program_verified = false;
  EXPECT_EQ(shown(), "25 % of bound, loosely, not the timed program");
}

TEST(EquivalenceTable, NotesALooseExamAndAnotherProgram) {
  CellReport cell = test::sample_cell("onednn", "graph", 0.002, 1);
  CheckSettings& settings = cell.equivalence.settings.emplace();
  const auto notes = [&] { return equivalence_table(cell).notes; };
  settings.loosest = 0.005;
  settings.loosest_gradient = "conv1.weight";
  EXPECT_THAT(notes(), Contains("the exam detects gradient errors above 0.5 % at worst: conv1.weight"));
  settings.loosest = 0.05;
  EXPECT_THAT(notes(), Contains(HasSubstr("conv1.weight; equal loosely")));
  EXPECT_THAT(notes(), Not(Contains(HasSubstr("second program"))));
  settings.timed_program_verified = false;
  EXPECT_THAT(notes(), Contains(HasSubstr("second program")));
}

TEST(EquivalenceTable, lists_the_worst_tensor_first_and_nan_before_all) {
  CellReport cell = test::sample_cell("onednn", "graph", 0.002, 1);
  cell.equivalence.tensors = {
      {.name = "good", .ratio = 0.1}, {.name = "nan", .ratio = std::nan("")}, {.name = "bad", .ratio = 7}};
  const Table table = equivalence_table(cell);
  EXPECT_EQ(table.rows[0][0].text, "nan");
  EXPECT_EQ(table.rows[0][5].text, "not finite");
  EXPECT_EQ(table.rows[1][5].tone, Tone::bad);
  EXPECT_EQ(table.rows[2][5].tone, Tone::good);
}

}  // namespace
}  // namespace assay
