// Faults that the kernels of a forward recorded, of all ranks.
#include "qtape/engine/tape_faults.h"

#include <algorithm>

#include "qtape/engine/tape.h"
#include "qtape/engine/tape_layout.h"

namespace qtape {

Tape::RankFaults::RankFaults(int ranks)
    : all_(static_cast<size_t>(ranks)),
      bytes_(all_.size(), static_cast<int64_t>(sizeof(Report))) {}

std::span<const Tape::RankFaults::Report> Tape::RankFaults::gather(const Fault& own,
                                                                   size_t node,
                                                                   Exchange& exchange) {
  Report report;
  if (own.text != nullptr) {
    report.node = static_cast<int64_t>(node);
    const std::string text = to_string(own);
    std::copy_n(text.begin(), std::min(text.size(), report.text.size() - 1),
                report.text.begin());
  }
  exchange.gather(std::as_bytes(std::span(&report, 1)), bytes_,
                  reinterpret_cast<std::byte*>(all_.data()));
  return all_;
}

void Tape::report_faults() {
  for (const Bound& bound : active_->forward) {
    Fault& fault = statuses_[bound.node].fault;
    if (fault.text == nullptr) continue;
    const Fault first = fault;
    for (NodeStatus& status : statuses_) status.fault = {};
    ran_ = Ran::Nothing;
    parameters_changed();
    report_faults_of_ranks(first, bound.node);
    const NodeId id{static_cast<int32_t>(bound.node)};
    fail<GraphError>("{}: {}", graph().describe(id), to_string(first));
  }
  report_faults_of_ranks({}, 0);
}

void Tape::report_faults_of_ranks(const Fault& own, size_t node) {
  if (rank_faults_ == nullptr) return;
  const std::span<const RankFaults::Report> all =
      rank_faults_->gather(own, node, *options_.shards.exchange);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].node < 0) continue;
    ran_ = Ran::Nothing;
    parameters_changed();
    fail<GraphError>("{}: {} (rank {})",
                     graph().describe(NodeId{static_cast<int32_t>(all[rank].node)}),
                     all[rank].text.data(), rank);
  }
}

}  // namespace qtape
