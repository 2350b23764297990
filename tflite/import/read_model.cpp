// The inputs, operators and outputs of a file, in order.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "qtape/tflite/import/layer_target.h"

namespace qtape::tflite {
namespace {

/// Everything in a model that is not supported, in order.
struct Problems {
  std::vector<std::string> texts;

  void add(const std::string& place, std::string_view reason) {
    texts.push_back(fmt::format("{}: {}", place, reason));
  }
  /// Throws FormatError with all problems, unless there are none.
  void settle() const {
    if (texts.empty()) return;
    const std::string all = fmt::format("{}", fmt::join(texts, "; "));
    if (texts.size() == 1) fail<FormatError>("{}", all);
    fail<FormatError>("{} problems: {}", texts.size(), all);
  }
};

const OperatorReader* reader_of(Builtin op) {
  for (const auto readers : all_readers()) {
    const auto found = std::ranges::find(readers, op, &OperatorReader::op);
    if (found != readers.end()) return &*found;
  }
  return nullptr;
}

void read_inputs(const TfliteModel& model, LayerTarget& target, Problems& problems) {
  for (size_t k = 0; k < model.inputs.size(); ++k) {
    try {
      target.add_input(model.inputs[k]);
    } catch (const GraphError& error) {
      problems.add(fmt::format("inputs[{}]", k), error.what());
    }
  }
}

void read_operator(const TfliteOperator& op, OperatorView& view, LayerTarget& target) {
  const OperatorReader* found = reader_of(op.op);
  check(found != nullptr && target.takes(*found), "the operator is not supported");
  check(op.version >= 1 && op.version <= found->last_version,
        "has version {}, expected 1 to {}", op.version, found->last_version);
  view.begin(op);
  target.add(found->read(view));
}

void read_operators(OperatorView& view, LayerTarget& target, Problems& problems) {
  const TfliteModel& model = view.model();
  for (size_t i = 0; i < model.operators.size(); ++i) {
    try {
      read_operator(model.operators[i], view, target);
    } catch (const Unknown&) {
      // An operand is that of an operator with a problem; or it is never computed.
      if (problems.texts.empty())
        problems.add(place_of(model, i), "reads a tensor that is not computed");
    } catch (const Error& error) {
      problems.add(place_of(model, i), error.what());
    }
  }
}

void read_outputs(const OperatorView& view, LayerTarget& target, Problems& problems) {
  for (const int32_t index : view.model().outputs) {
    const std::string place = fmt::format("output '{}'", printable(view.tensor(index).name));
    if (!target.has_value(index)) {
      if (problems.texts.empty()) problems.add(place, "is not computed");
      continue;
    }
    if (!problems.texts.empty()) continue;
    try {
      target.add_output(index);
    } catch (const GraphError& error) {
      problems.add(place, error.what());
    }
  }
}

}  // namespace

std::array<std::span<const OperatorReader>, 4> all_readers() {
  return {product_readers(), pointwise_readers(), window_readers(), structure_readers()};
}

void read_model(OperatorView& view, LayerTarget& target) {
  const TfliteModel& model = view.model();
  require<FormatError>(!model.inputs.empty(), "there are no inputs");
  require<FormatError>(!model.outputs.empty(), "there are no outputs");
  Problems problems;
  read_inputs(model, target, problems);
  read_operators(view, target, problems);
  read_outputs(view, target, problems);
  problems.settle();
}

}  // namespace qtape::tflite
