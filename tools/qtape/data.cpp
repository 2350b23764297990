#include "qtape/tools/qtape/data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "qtape/core/printable.h"
#include "qtape/data/files.h"
#include "qtape/data/holdout.h"
#include "qtape/data/non_finite.h"
#include "qtape/engine/channel_axis.h"
#include "qtape/engine/labels.h"
#include "qtape/integer/ops/quantize.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/targets.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/tools/qtape/data_targets.h"

namespace qtape::tool {
namespace {

Shape sample_of(const TensorType& type, bool batched) {
  return batched && type.shape.rank() > 0 ? type.shape.without_first() : type.shape;
}

/// Returns `'x' f32[784]`.
std::string text_of(const std::string& label, const TensorType& type, bool batched) {
  return fmt::format("'{}' {}", printable(label),
                     to_string(TensorType{type.dtype, sample_of(type, batched)}));
}

/// Returns an answer. Data may also have the label of its quantizer, which calibration adds.
data::WantedInput answer_named(const std::string& name, const Shape& sample,
                               bool has_channels) {
  const std::string value = value_label(name);
  return {.name = name,
          .sample = sample,
          .other_name = value.empty() ? name + ".quantized" : value,
          .has_channels = has_channels};
}

}  // namespace

std::vector<std::string> DataOptions::paths() const {
  std::vector<std::string> paths;
  for (const std::string& place : {input, labels, test_input, test_labels}) {
    std::ranges::move(data::array_files(place), std::back_inserter(paths));
  }
  if (!directory.empty())
    std::ranges::move(data::mnist_files(directory), std::back_inserter(paths));
  return paths;
}

DataNeeds needs_of(const std::string& file, const Graph& graph) {
  DataNeeds needs{.file = file, .inputs = {}};
  const std::vector<bool> needed = needed_for(graph, shipped_answers(graph));
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    const auto* input = std::get_if<Input>(&node.op);
    if (input == nullptr) continue;
    if (!needed[at(id)]) {
      needs.others.push_back({.name = node.label,
                              .sample = sample_of(node.type, input->batch),
                              .dtype = node.type.dtype});
      continue;
    }
    needs.inputs.push_back(text_of(node.label, node.type, input->batch));
    needs.wanted.push_back({.name = node.label,
                            .sample = sample_of(node.type, input->batch),
                            .dtype = node.type.dtype});
  }
  for (const NodeId id : graph.answers()) {
    needs.answers.push_back(answer_named(
        answer_name(graph, id), sample_of(graph[id].type, true), has_channel_axis(graph, id)));
    needs.answers.back().classes = indexed_classes(graph, id);
  }
  return needs;
}

DataNeeds needs_of(const std::string& file, const IntegerProgram& program) {
  DataNeeds needs{.file = file, .inputs = {}};
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    const auto* input = std::get_if<integer::Input>(&node.op);
    if (input == nullptr) continue;
    needs.inputs.push_back(text_of(node.label, node.value.type, input->batch));
    const bool first = has_channels_first(program, id);
    needs.wanted.push_back({.name = node.label,
                            .sample = sample_of(node.value.type, input->batch),
                            .dtype = node.value.type.dtype,
                            .has_channels = !first,
                            .channels_first = first});
  }
  for (const ProgramNodeId id : program.outputs()) {
    needs.answers.push_back(answer_named(output_name(program, id),
                                         sample_of(program[id].value.type, true),
                                         has_channel_axis(program, id)));
    needs.answers.back().classes = indexed_classes(program, id);
    if (!has_channels_first(program, id)) continue;
    needs.answers.back().has_channels = false;
    needs.answers.back().channels_first = true;
  }
  return needs;
}

namespace {

/// Names the arrays whose order of channels is not known.
void say_unclear(const std::vector<std::string>& places) {
  for (const std::string& place : places) {
    console::print(
        "{}: samples fit with channels first and last, and are read in the order of the model, "
        "channels last; if they are first, as those of images and of Conv1d in PyTorch, use "
        "--channels First\n",
        place);
  }
}

/// Prints which inputs in floats have samples of bytes, which are scaled.
void note_bytes(const data::Dataset& set, const DataNeeds& needs) {
  for (const data::Column& column : set.columns()) {
    const bool floats = std::ranges::any_of(needs.wanted, [&](const data::WantedInput& each) {
      const bool own = each.name == column.name || needs.wanted.size() == 1;
      return own && each.dtype == DType::F32;
    });
    if (floats && !column.target && column.sample.dtype == DType::U8) {
      console::print("bytes of '{}' are divided by 255\n", printable(column.name));
    }
  }
}

/// Throws ArgumentError if labels are missing that a loss of the model compares.
void require_labels(const DataOptions& options, const DataNeeds& needs) {
  if (!options.trains || options.input.empty() || !options.labels.empty()) return;
  for (const data::WantedInput& each : needs.others) {
    require<ArgumentError>(
        each.dtype != DType::S32,
        "--labels is missing: the loss of {} compares an output with '{}' {}", needs.file,
        printable(each.name), to_string(TensorType{each.dtype, each.sample}));
  }
}

}  // namespace

void rethrow_with_nan(const GraphError& error, const data::Dataset& dataset) {
  const std::string text = error.what();
  if (!text.ends_with(integer::nan_without_code)) throw;
  fail<GraphError>("{}{}", text, data::first_nan(dataset));
}

void check_options(const DataOptions& options) {
  require<ArgumentError>(options.directory.empty() || options.input.empty(),
                         "--input: --data is already given");
  require<ArgumentError>(options.labels.empty() || !options.input.empty(),
                         "--labels needs --input");
  require<ArgumentError>(
      options.channels == data::ChannelOrder::Detect || !options.input.empty(),
      "--channels needs --input");
  require<ArgumentError>(options.holdout == 0 || options.given(),
                         "--holdout needs --data or --input");
  require<ArgumentError>(options.test_labels.empty() || !options.test_input.empty(),
                         "--test-labels needs --test-input");
  require<ArgumentError>(
      options.test_input.empty() || options.labels.empty() || !options.test_labels.empty(),
      "--test-input needs --test-labels for a score, as --labels is given");
  require<ArgumentError>(options.test_input.empty() || options.holdout == 0,
                         "--holdout: --test-input is already given");
  require<ArgumentError>(options.test_input.empty() || !options.input.empty(),
                         "--test-input needs --input");
}

data::Dataset without_probabilities(data::Dataset set, const Graph& graph) {
  if (!set.target() || compares_classes(graph, set)) return set;
  console::print(
      "no score: the targets are values of the Softmax that is left out; if they are classes, "
      "give integers\n");
  return set.without_targets();
}

namespace {

data::Split load_all(const DataOptions& options, const DataNeeds& needs) {
  check_options(options);
  require<ArgumentError>(
      options.channels != data::ChannelOrder::Last ||
          std::ranges::none_of(needs.wanted, &data::WantedInput::channels_first),
      "--channels Last: {} was converted with --layout nchw and reads its channels first",
      needs.file);
  require_labels(options, needs);
  if (!options.directory.empty()) {
    data::Split split = data::mnist(options.directory, 0);
    // Models of several inputs refuse these files for another reason.
    for (const data::Dataset* set : {&split.train, &split.test}) {
      if (needs.wanted.size() == 1) check_classes(*set, "--data: " + options.directory, needs);
    }
    return split;
  }
  if (!options.input.empty()) {
    const auto read = [&](const std::string& inputs, const std::string& labels,
                          const std::string& prefix) {
      std::vector<std::string> unclear;
      data::Dataset set =
          data::arrays(inputs, labels, needs.wanted, options.channels, needs.answers, &unclear);
      say_unclear(unclear);
      note_bytes(set, needs);
      require<ArgumentError>(set.size() > 0, "{}input: {} has no samples", prefix, inputs);
      check_targets(set, fmt::format("{}labels: {}", prefix, labels), needs);
      if (const int64_t bytes = set.bytes_in_files(); bytes > 0) {
        console::print("{} bytes of samples stay in files and are read when used\n", bytes);
      }
      return set;
    };
    const data::Dataset set = read(options.input, options.labels, "--");
    if (options.test_input.empty()) return {set, options.trains ? data::Dataset() : set};
    return {set, read(options.test_input, options.test_labels, "--test-")};
  }
  fail<ArgumentError>(
      "{} needs data for input {}: --data FOLDER of MNIST-format files, or --input FILE and "
      "--labels FILE of arrays{}",
      needs.file, fmt::join(needs.inputs, " and "), needs.otherwise);
}

}  // namespace

data::Split load_data(const DataOptions& options, const DataNeeds& needs) {
  return data::held_out(load_all(options, needs), options.holdout);
}

}  // namespace qtape::tool
