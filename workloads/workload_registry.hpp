// The workloads that a run can name: networks and single ops.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay {

// Cells point to its workloads: it must outlive them, and may be moved, but not copied.
class WorkloadRegistry {
 public:
  // Has the networks and the single ops of this build.
  WorkloadRegistry();
  WorkloadRegistry(WorkloadRegistry&&) = default;
  WorkloadRegistry& operator=(WorkloadRegistry&&) = default;
  WorkloadRegistry(const WorkloadRegistry&) = delete;
  WorkloadRegistry& operator=(const WorkloadRegistry&) = delete;

  // Adds a network that was made while the program runs. Throws GraphError if its name is empty, that of another
  // workload, or begins like that of a single op.
  const Workload& add(Workload network);
  // Whether a name of a workload is a folder with an imported network: it has a slash, and does not begin with op/.
  static bool is_folder(std::string_view name);
  // Adds the network of a folder (imported_network.hpp), once; network() then finds it by this text, too. "@" and a
  // digest may follow: then the folder must have the network of this digest. Throws JsonError or GraphError.
  const Workload& add_folder(const std::string& text);

  const std::deque<Workload>& networks() const { return networks_; }
  static std::span<const OpWorkload> ops() { return all_op_workloads(); }
  // Null if no network has the name.
  const Workload* find_network(std::string_view name) const;
  // Throw GraphError with the nearest known name.
  const Workload& network(std::string_view name) const;
  static const OpWorkload& op(std::string_view name) { return find_op_workload(name); }

 private:
  std::deque<Workload> networks_;
  std::map<std::string, const Workload*, std::less<>> of_folders_;
};

}  // namespace assay
