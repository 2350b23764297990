#include "qtape/tools/qtape/data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "qtape/core/printable.h"
#include "qtape/data/files.h"
#include "qtape/data/holdout.h"
#include "qtape/engine/channel_axis.h"
#include "qtape/engine/labels.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/targets.h"
#include "qtape/programs/console/standard_output.h"

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
    needs.indexed_classes = std::max(needs.indexed_classes, indexed_classes(graph, id));
    needs.answers.push_back(answer_named(
        answer_name(graph, id), sample_of(graph[id].type, true), has_channel_axis(graph, id)));
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
    needs.indexed_classes = std::max(needs.indexed_classes, indexed_classes(program, id));
    needs.answers.push_back(answer_named(output_name(program, id),
                                         sample_of(program[id].value.type, true),
                                         has_channel_axis(program, id)));
    if (!has_channels_first(program, id)) continue;
    needs.answers.back().has_channels = false;
    needs.answers.back().channels_first = true;
  }
  return needs;
}

namespace {

/// Throws ArgumentError for labels of samples that are no classes of any answer.
void require_known_classes(const data::Dataset& set, size_t index, std::string_view option,
                           const std::string& file, const DataNeeds& needs) {
  if (set.columns()[index].classes == 0) return;
  std::vector<std::string> names;
  for (const data::WantedInput& each : needs.answers) names.push_back(each.name);
  const std::vector<std::vector<size_t>> targets = targets_of(set, names);
  int64_t own = 0, most = needs.indexed_classes;
  for (size_t i = 0; i < needs.answers.size(); ++i) {
    const int64_t elements = std::max(int64_t{2}, needs.answers[i].sample.elements());
    most = std::max(most, elements);
    if (targets[i] == std::vector<size_t>{index}) own = std::max(own, elements);
  }
  if (needs.indexed_classes == 0 && own > 0) most = own;
  if (most == 0) return;
  naming<ArgumentError>(fmt::format("{}: {}", option, file),
                        [&] { require_classes(set, index, most); });
}

/// Throws ArgumentError for labels of places that are none of `classes`.
void require_known_places(const data::Dataset& set, size_t index, int64_t classes) {
  std::vector<int32_t> labels(static_cast<size_t>(set.columns()[index].sample.elements()));
  for (int64_t sample = 0; sample < set.size(); ++sample) {
    set.read(index, sample, std::span(labels));
    for (const int32_t label : labels) {
      require<ArgumentError>(label >= 0 && label < classes,
                             "label {} of sample {} is outside 0..{}", label, sample,
                             classes - 1);
    }
  }
}

/// Throws ArgumentError for labels of places of an answer with its channels first.
void require_places_last(const data::Column& column, const data::WantedInput& answer,
                         const std::string& place) {
  require<ArgumentError>(!answer.channels_first || is_float(column.sample.dtype) ||
                             column.sample.shape.rank() + 1 != answer.sample.rank(),
                         "{} has labels of places, and the channels of '{}' are first, as with "
                         "--layout nchw: labels need them last, as with nhwc",
                         place, printable(answer.name));
}

/// Throws ArgumentError, which begins with `option`, unless a target is labels, of samples or
/// of places, has the shape of an answer, or is for an input of a loss.
void check_targets(const data::Dataset& set, std::string_view option, const std::string& file,
                   const DataNeeds& needs) {
  for (const size_t index : target_columns(set)) {
    require_known_classes(set, index, option, file, needs);
    const data::Column& column = set.columns()[index];
    const auto of_column = [&](const data::WantedInput& input) {
      const bool one = input.sample.elements() == 1 && column.sample.elements() == 1;
      return (one || input.sample == column.sample.shape) &&
             (input.dtype != DType::S32 || !is_float(column.sample.dtype));
    };
    if (std::ranges::any_of(needs.others, of_column)) continue;
    std::string expected;
    for (const data::WantedInput& answer : needs.answers) {
      std::vector<int64_t> batch = {1};
      std::ranges::copy(answer.sample.extents(), std::back_inserter(batch));
      const bool classes = holds_classes(column, {DType::F32, Shape(batch)});
      require_places_last(column, answer, fmt::format("{}: {}", option, file));
      if (classes && column.classes == 0) {
        naming<ArgumentError>(fmt::format("{}: {}", option, file),
                              [&] { require_known_places(set, index, answer.sample[-1]); });
      }
      if (classes || fits(column, {.label = answer.name, .sample = answer.sample})) {
        expected.clear();
        break;
      }
      expected += fmt::format("{}'{}' {}", expected.empty() ? "" : " or ", answer.name,
                              to_string(TensorType{DType::F32, answer.sample}));
    }
    require<ArgumentError>(expected.empty() || column.classes == 0,
                           "{}: {} has a label for each sample, expected an answer with one "
                           "axis of classes, or values or labels of places for {}",
                           option, file, expected);
    require<ArgumentError>(expected.empty(),
                           "{}: {} has {} for each sample, expected one integer, or the values "
                           "of an answer, {}, or an integer for each of its places",
                           option, file, to_string(column.sample), expected);
  }
}

/// True if all samples of a target are 0 and 1 alone, with a single 1 if they have several
/// elements.
bool looks_like_classes(const data::Dataset& set, size_t index) {
  std::vector<float> values(static_cast<size_t>(set.columns()[index].sample.elements()));
  for (int64_t sample = 0; sample < set.size(); ++sample) {
    set.read(index, sample, std::span(values));
    const auto ones = std::ranges::count(values, 1.0f);
    if (ones + std::ranges::count(values, 0.0f) != std::ssize(values)) return false;
    if (values.size() > 1 && ones != 1) return false;
  }
  return true;
}

/// Names targets that may be meant as classes: floats that are all 0 or 1, as labels of two
/// classes are in PyTorch, and rows of zeros with a single 1.
void note_classes(const data::Dataset& set, std::string_view option, const std::string& file) {
  for (const size_t index : target_columns(set)) {
    const data::Column& column = set.columns()[index];
    const int64_t elements = column.sample.elements();
    const bool several = column.sample.shape.rank() == 1 && elements > 1;
    const bool one = column.classes == 0 && elements == 1;
    if ((!one && !several) || !looks_like_classes(set, index)) continue;
    console::print("{}: {} in {} are values; if they are classes, give {}\n", option,
                   one ? "the numbers 0 and 1" : "rows with a single 1", file,
                   one ? "integers of shape [samples]"
                       : "the index of the 1, one integer for each sample");
  }
}

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
  if (!options.directory.empty()) return data::mnist(options.directory, 0);
  if (!options.input.empty()) {
    const auto read = [&](const std::string& inputs, const std::string& labels,
                          const std::string& prefix) {
      std::vector<std::string> unclear;
      data::Dataset set =
          data::arrays(inputs, labels, needs.wanted, options.channels, needs.answers, &unclear);
      say_unclear(unclear);
      note_bytes(set, needs);
      require<ArgumentError>(set.size() > 0, "{}input: {} has no samples", prefix, inputs);
      check_targets(set, prefix + "labels", labels, needs);
      note_classes(set, prefix + "labels", labels);
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
