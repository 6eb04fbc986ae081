// The worker of onednn with a mistake or a cheat, named by its first argument: the counterparts of
// tests/mutants/wrong.py, under the same names.
//
//     wrong-worker NAME CELL_FOLDER     NAME "-": the unchanged backend
//     wrong-worker --list               the names, one per line; those of cheats are followed by " cheats"
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "tests/mutants/cheats.hpp"
#include "tests/mutants/mistakes.hpp"
#include "tests/mutants/wrong.hpp"
#include "tests/mutants/wrong_updates.hpp"

namespace assay {
namespace {

using namespace mutants;

struct Named {
  std::string_view name;
  bool cheats;
  std::unique_ptr<Wrong> (*make)();
};

template <typename Kind>
std::unique_ptr<Wrong> made() {
  return std::make_unique<Kind>();
}

const Named table[] = {
    {"-", false, made<Wrong>},
    {"SkipsEveryFourthUpdate", false, made<SkipsEveryFourthUpdate>},
    {"ReadsOneSlotAfterTheThirdStep", false, made<ReadsOneSlotAfterTheThirdStep>},
    {"KeepsOneSlot", false, made<KeepsOneSlot>},
    {"RollsLabelsOfLaterSlots", false, made<RollsLabelsOfLaterSlots>},
    {"StagesOnce", false, made<StagesOnce>},
    {"KeepsTheFirstRate", false, made<KeepsTheFirstRate>},
    {"RaisesTheRateLater", false, made<RaisesTheRateLater>},
    {"StopsUpdatingAfterTheThirdStep", false, made<StopsUpdatingAfterTheThirdStep>},
    {"StopsCountingAtTen", false, made<StopsCountingAtTen>},
    {"CountsFromZero", false, made<CountsFromZero>},
    {"TellsAnEarlierLoss", false, made<TellsAnEarlierLoss>},
    {"EvaluatesWhatItStartedFrom", false, made<EvaluatesWhatItStartedFrom>},
    {"ComputesHalfTheBatch", false, made<ComputesHalfTheBatch>},
    {"ReversesSamples", false, made<ReversesSamples>},
    {"LosesTheLastPixel", false, made<LosesTheLastPixel>},
    {"ForgetsMoments", false, made<ForgetsMoments>},
    {"LosesAStepThatIsNotWaitedFor", false, made<LosesAStepThatIsNotWaitedFor>},
    {"KeepsEveryElement", false, made<KeepsEveryElement>},
    {"DrawsOneMask", false, made<DrawsOneMask>},
    {"InfersTheFirstSlot", false, made<InfersTheFirstSlot>},
    {"LeavesLaterSlotsZero", false, made<LeavesLaterSlotsZero>},
    {"ReusesTheFirstBatch", false, made<ReusesTheFirstBatch>},
    {"EvaluatesTheFirstWeights", false, made<EvaluatesWhatItStartedFrom>},
    {"ComputesHalfOfTheOp", false, made<ComputesHalfOfTheOp>},
    {"HasNoEpsilon", false, made<HasNoEpsilon>},
    {"HasAnotherBeta2", false, made<HasAnotherBeta2>},
    {"DecouplesItsDecay", false, made<DecouplesItsDecay>},
    {"DoesNotDecay", false, made<DoesNotDecay>},
    {"DecaysBiases", false, made<DecaysBiases>},
    {"KeepsTheRateOfTheThirdStep", false, made<KeepsTheRateOfTheThirdStep>},
    {"NeverCorrectsItsBias", false, made<NeverCorrectsItsBias>},
    {"KeepsSquaresInBf16", false, made<KeepsSquaresInBf16>},
    {"DividesByTheLargestSquare", false, made<DividesByTheLargestSquare>},
    {"RoundsGradients", false, made<RoundsGradients>},
    {"RoundsGradientsLess", false, made<RoundsGradientsLess>},
    {"ZeroesFaintGradients", false, made<ZeroesFaintGradients>},
    {"DropsTheGradientOfABias", false, made<DropsTheGradientOfABias>},
    {"FreezesItsFirstLayer", false, made<FreezesItsFirstLayer>},
    {"RaisesTheEpsilonOfNorms", false, made<RaisesTheEpsilonOfNorms>},
    {"ReversesTheMomentumOfNorms", false, made<ReversesTheMomentumOfNorms>},
    {"KeepsRunningStatistics", false, made<KeepsRunningStatistics>},
    {"DoesNothingLater", true, made<DoesNothingLater>},
    {"DoesOneStepInTen", true, made<DoesOneStepInTen>},
    {"ComputesOnlyForwardLater", true, made<ComputesOnlyForwardLater>},
    {"HalvesLaterBatches", true, made<HalvesLaterBatches>},
    {"RoundsLaterBatches", true, made<RoundsLaterBatches>},
    {"ComputesOneSampleUntilItIsExamined", true, made<ComputesOneSampleUntilItIsExamined>},
    {"HalvesTheBatchesOfAStart", true, made<HalvesTheBatchesOfAStart>},
    {"StepsAfterTheClock", true, made<StepsAfterTheClock>},
    {"ShortensItsBlocks", true, made<ShortensItsBlocks>},
    {"AsksForLessPrecision", true, made<AsksForLessPrecision>},
    {"RemembersTheLogitsOfASlot", true, made<RemembersTheLogitsOfASlot>},
    {"ClaimsOneByte", true, made<ClaimsOneByte>},
    {"LeavesItsProcessors", true, made<LeavesItsProcessors>},
    {"LeavesTheOpToItsResults", true, made<LeavesTheOpToItsResults>},
    {"LeavesHalfOfTheOpToItsResults", true, made<LeavesHalfOfTheOpToItsResults>},
    {"InfersNothing", true, made<InfersNothing>},
    {"InfersHalfTheBatch", false, made<ComputesHalfTheBatch>},
    {"SkipsWhileTimed", true, made<SkipsWhileTimed>},
    {"SkipsLongRuns", true, made<SkipsLongRuns>},
    {"SkipsAtTheRateOfTheRun", true, made<SkipsAtTheRateOfTheRun>},
    {"TellsTheStateItWasGiven", true, made<TellsTheStateItWasGiven>},
    {"SavesWorkByTheRate", true, made<SavesWorkByTheRate>},
    {"ChangesItsQuestions", true, made<ChangesItsQuestions>},
    {"HalvesTheBatchesOfARun", true, made<HalvesTheBatchesOfARun>},
    {"InfersEachBatchOnce", true, made<InfersEachBatchOnce>},
};

class WrongBackend final : public Backend {
 public:
  explicit WrongBackend(const Named& named) : named_(named) {}
  BackendInfo info() const override { return right_.info(); }
  std::string unsupported(const Program& program, const CompileOptions& options) const override {
    return right_.unsupported(program, options);
  }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    std::unique_ptr<Wrong> wrong = named_.make();
    wrong->program = wrong->changed(program);
    wrong->task = options.task;
    wrong->batches = batches_of(program, options.task);
    wrong->all_kept = all_kept_of(program);
    wrong->right = right_.compile(*wrong->program, options);
    return wrong;
  }

 private:
  const Named& named_;
  onednn::OnednnBackend right_;
};

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  using assay::table;
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    for (const assay::Named& named : table)
      if (named.name != "-") std::printf("%s%s\n", named.name.data(), named.cheats ? " cheats" : "");
    return 0;
  }
  const auto* named =
      argc < 3 ? std::end(table) : std::ranges::find(table, std::string_view(argv[1]), &assay::Named::name);
  if (named == std::end(table)) {
    std::fprintf(stderr, "usage: wrong-worker NAME CELL_FOLDER, or --list for the names\n");
    return 2;
  }
  assay::WrongBackend backend(*named);
  argv[1] = argv[0];
  return assay::worker_main(argc - 1, argv + 1, backend);
}
