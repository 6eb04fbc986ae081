#include "harness/conductor/print/printers.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"
#include "harness/report/strict_document.hpp"
#include "tests/fuzz/fuzz.hpp"

// The work of `assay validate` and `assay show` with a file.
ASSAY_FUZZ({
  try {
    const assay::StrictDocument document(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path.string());
    std::vector<std::string> violations;
    assay::report_from(document, true, violations);
    const assay::Report report = assay::report_from(document);
    assay::invariant_violations(report);
    assay::console(assay::summary(report), {});
  } catch (const assay::JsonError&) {
  }
})
