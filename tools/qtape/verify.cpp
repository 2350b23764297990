#include "qtape/deploy/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "qtape/core/printable.h"
#include "qtape/engine/serialize.h"
#include "qtape/model/feed.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/verify_samples.h"

namespace qtape::tool {
namespace {

constexpr auto levels = {Level::Float, Level::Exact, Level::Reference, Level::Backend};
constexpr int64_t usual_random = 1000;

void print_layers(const Verifier& verifier) {
  fmt::print("{:<28} {:>12} {:>12} {:>12} {:>12}\n", "mismatching integers", "compared",
             "L0 and L1", "L1 and L2", "L2 and L3");
  for (const LayerComparison& layer : verifier.layers()) {
    const bool accumulators = layer.accumulators;
    fmt::print("{:<28} {:>12} {:>12} {:>12} {:>12}\n",
               printable(layer.label) + (accumulators ? " (accumulators)" : ""), layer.compared,
               accumulators ? "" : fmt::format("{}", layer.float_exact), layer.exact_reference,
               accumulators ? "" : fmt::format("{}", layer.reference_backend));
  }
  fmt::print("{:<28} {:>12} {:>12} {:>12}\n", "outputs, f32", "",
             verifier.float_output_mismatches(), verifier.output_mismatches());
}

void print_certificates(const Verifier& verifier) {
  for (const IntegerNode& node : verifier.program().nodes()) {
    const QuantizedWeights* weights = weights_of(node.op);
    if (weights == nullptr) continue;
    fmt::print("certificate of {}: {}\n", printable(node.label),
               to_string(weights->certificate));
  }
  fmt::print("L3 runs\n{}", verifier.report());
}

/// The attributes that differ; empty for equal ops.
template <class T>
std::string differing(const T& a, const IntegerOp& other) {
  const T* b = std::get_if<T>(&other);
  if (b == nullptr) return " op";
  std::string names;
  for_each_field<T>([&](const auto& each) {
    if (!(a.*each.member == b->*each.member))
      names += fmt::format("{}{}", names.empty() ? " " : ", ", each.key);
  });
  return names;
}

/// `%6 'fc3' and %2`, or `none`.
std::string names_of(const IntegerProgram& program, std::span<const NodeId> ids) {
  std::string text;
  for (NodeId id : ids) {
    text += fmt::format("{}%{}", text.empty() ? "" : " and ", id.index);
    if (!program[id].label.empty()) text += fmt::format(" '{}'", printable(program[id].label));
  }
  return text.empty() ? "none" : text;
}

/// Where two programs differ first.
std::string difference(const IntegerProgram& saved, const IntegerProgram& converted) {
  for (int32_t i = 0; i < std::min(saved.size(), converted.size()); ++i) {
    const NodeId id{i};
    if (saved[id] == converted[id]) continue;
    const std::string names = std::visit(
        [&](const auto& op) { return differing(op, converted[id].op); }, saved[id].op);
    return fmt::format("{} differs in{}", saved.describe(id),
                       names.empty() ? " label or operands" : names);
  }
  if (saved.size() != converted.size())
    return fmt::format("it has {} nodes, expected {}", saved.size(), converted.size());
  return fmt::format("its outputs are {}, expected {}", names_of(saved, saved.outputs()),
                     names_of(converted, converted.outputs()));
}

bool has_integer_outputs(const IntegerProgram& program) {
  return std::ranges::any_of(
      program.outputs(), [&](NodeId id) { return program[id].value.type.dtype != DType::F32; });
}

void compare_program(const Verifier& verifier, SavedModel& model, int64_t batch,
                     const std::string& path) {
  const IntegerProgram saved = load_program(path);
  if (saved.requantization() != verifier.program().requantization()) {
    fail<GraphError>("{}: is of requantization {}, verified is {}", path,
                     to_string_view(saved.requantization()),
                     to_string_view(verifier.program().requantization()));
  }
  const IntegerProgram batched = saved.with_batch(batch);
  const IntegerProgram converted =
      has_integer_outputs(saved)
          ? convert(model.graph.with_batch(batch), model.parameters,
                    {.requantization = saved.requantization(), .integer_outputs = true})
          : verifier.program();
  if (batched != converted) {
    fail<GraphError>("{}: is not what the model converts to: {}", path,
                     difference(batched, converted));
  }
  fmt::print("{} is what the model converts to\n", path);
}

void print_accuracies(const Right& right, int64_t samples) {
  for (Level level : levels) {
    fmt::print("{}: accuracy {:.2f} %\n", to_string_view(level),
               100.0 * static_cast<double>(right.samples[static_cast<size_t>(level)]) /
                   static_cast<double>(std::max<int64_t>(1, samples)));
  }
}

/// Whether the data are for the model: those that the command names have to be.
bool takes(Verifier& verifier, const data::Dataset& dataset, const VerifyCommand& command) {
  try {
    (void)Feed(inputs_of(verifier), dataset);
    return true;
  } catch (const ArgumentError&) {
    if (command.data.given()) throw;
    return false;
  }
}

/// Runs what the model takes and prints what came of it.
void run_samples(Samples samples, const data::Dataset& dataset, const VerifyCommand& command) {
  Verifier& verifier = samples.verifier;
  const bool seen = takes(verifier, dataset, command);
  const int64_t random = command.random.value_or(seen ? 0 : usual_random);
  const std::optional<Right> right = seen ? samples.run_data(dataset) : std::nullopt;
  samples.run_random(random, command.seed);
  print_layers(verifier);
  if (right) print_accuracies(*right, dataset.size());
  const std::string what = seen ? fmt::format("{} samples and ", dataset.size()) : "";
  fmt::print(
      "{}{} random inputs: {} mismatches between L1, L2 and L3{}\n\n", what, random,
      verifier.mismatches(),
      right ? fmt::format("; L0 and L1 see {} samples differently", right->float_differs) : "");
}

bool verify_requantization(SavedModel& model, const data::Dataset& images,
                           const VerifyCommand& command, Requantization requantization) {
  const int64_t batch = verification_batch(model.graph);
  Verifier verifier(model.graph, model.parameters,
                    {.convert = {.requantization = requantization},
                     .batch = batch,
                     .threads = command.threads});
  fmt::print("requantization {}, {} thread{}\n", to_string_view(requantization),
             command.threads, command.threads == 1 ? "" : "s");
  if (!command.program.empty()) compare_program(verifier, model, batch, command.program);
  print_certificates(verifier);
  run_samples({verifier, batch}, images, command);
  if (verifier.mismatches() == 0) return true;
  if (verifier.first_mismatch()) {
    fmt::print(stderr, "qtape: mismatch: {}\n", to_string(*verifier.first_mismatch()));
  } else {
    fmt::print(stderr, "qtape: mismatch: outputs differ in their bits\n");
  }
  return false;
}

}  // namespace

bool verify(const VerifyCommand& command) {
  SavedModel model = load_model(command.model);
  const data::Dataset images = load_data(command.data, features_of(model.graph)).test;
  bool equal = true;
  for (Requantization requantization : command.requantizations) {
    equal = verify_requantization(model, images, command, requantization) && equal;
  }
  return equal;
}

}  // namespace qtape::tool
