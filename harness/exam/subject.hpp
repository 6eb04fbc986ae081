// What an exam is about, and the names of its answers. Needs the graph, which the library of this folder does not link.
#pragma once

#include <string>
#include <vector>

#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

inline ExamKind exam_kind_of(const Program& program, Task task) {
  if (program.is_op()) return ExamKind::op;
  switch (task) {
    case Task::train:
      return ExamKind::training;
    case Task::infer:
      return ExamKind::inference;
    case Task::decode:
      return ExamKind::decoding;
  }
  return ExamKind::training;
}

inline std::vector<std::string> names_of_role(const Graph& graph, Role role) {
  std::vector<std::string> names;
  for (const ValueId id : graph.with_role(role)) names.push_back(graph.value(id).name);
  return names;
}

inline ExamSubject subject_of(const Program& program, Task task) {
  return {.kind = exam_kind_of(program, task),
          .generated = task == Task::decode ? program.generated() : 0,
          .parameters = names_of_role(program.inference, Role::parameter),
          .running = names_of_role(program.inference, Role::state)};
}

}  // namespace assay
