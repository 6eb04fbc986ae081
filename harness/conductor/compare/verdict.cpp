#include "harness/conductor/compare/verdict.hpp"

namespace assay {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::same:
      return "same";
    case Verdict::inconclusive:
      return "inconclusive";
    case Verdict::missing:
      return "missing";
    case Verdict::added:
      return "new";
    case Verdict::broken:
      return "broken";
    case Verdict::unmeasured:
      return "unmeasured";
  }
  return "?";
}

}  // namespace assay
