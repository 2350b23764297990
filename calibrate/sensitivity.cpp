#include "qtape/calibrate/sensitivity.h"

#include "qtape/engine/quantizers.h"

namespace qtape {
namespace {

/// Switches of all quantizers, restored at the end.
class Switches {
 public:
  explicit Switches(Tape& tape) : tape_(tape), ids_(quantizers(tape.graph())) {
    for (NodeId id : ids_) before_.push_back(tape.status(id).enabled);
  }
  Switches(const Switches&) = delete;
  Switches& operator=(const Switches&) = delete;
  ~Switches() {
    for (size_t i = 0; i < ids_.size(); ++i) tape_.status(ids_[i]).enabled = before_[i];
  }
  const std::vector<NodeId>& ids() const { return ids_; }
  void set_all(bool enabled) {
    for (NodeId id : ids_) tape_.status(id).enabled = enabled;
  }

 private:
  Tape& tape_;
  std::vector<NodeId> ids_;
  std::vector<bool> before_;
};

}  // namespace

Sensitivity sensitivity(Tape& tape, const Score& score,
                        const std::function<void(int64_t done, int64_t all)>& on_score) {
  require<ArgumentError>(score != nullptr, "expected a score, got an empty function");
  Switches switches(tape);
  const auto all = static_cast<int64_t>(2 * switches.ids().size() + 2);
  int64_t done = 0;
  const auto scored = [&] {
    const double value = score(tape);
    if (on_score) on_score(++done, all);
    return value;
  };
  Sensitivity result;
  switches.set_all(true);
  result.all_on = scored();
  switches.set_all(false);
  result.all_off = scored();
  for (NodeId id : switches.ids()) {
    NodeSensitivity each{.id = id, .label = tape.graph().name(id)};
    switches.set_all(false);
    tape.status(id).enabled = true;
    each.only_on = scored();
    switches.set_all(true);
    tape.status(id).enabled = false;
    each.only_off = scored();
    result.nodes.push_back(std::move(each));
  }
  return result;
}

}  // namespace qtape
