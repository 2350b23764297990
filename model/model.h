// Model: a network with its values, as a user holds it from training to integers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qtape/arrays/named_tensors.h"
#include "qtape/data/dataset.h"
#include "qtape/deploy/convert.h"
#include "qtape/deploy/verify.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/exact.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/value.h"

namespace qtape {

class Model;
namespace detail {
/// The values for what reads them through a tape, and leaves them as they are.
Parameters& values_of(const Model& model);
/// Throws GraphError, which names the entry, where `found` is of another type.
void check_same_type(const ParameterEntry& wanted, const ParameterEntry& found);
}  // namespace detail

/// Owns graph and values. What does not change them is const. Movable, not copyable.
class Model {
 public:
  /// The network that `answer` is the result of, its parameters drawn by `seed`. Without a loss
  /// it cannot be trained.
  explicit Model(const Value& answer, uint64_t seed = 1);
  Model(const Value& answer, const Loss& loss, uint64_t seed = 1);
  /// The same with a loss that is built already.
  Model(const Value& answer, const Value& loss, uint64_t seed = 1);
  /// A network with several answers, all of which ship. Throws GraphError for none.
  explicit Model(const std::vector<Value>& answers, uint64_t seed = 1);
  Model(const std::vector<Value>& answers, const Value& loss, uint64_t seed = 1);
  /// The outputs of `graph` that are no losses are the answers; its first loss is what training
  /// minimises. Throws GraphError for a graph without answers.
  explicit Model(Graph graph, uint64_t seed = 1);
  explicit Model(SavedModel saved);
  /// The same with the values that `values` holds of it, see take_over.
  Model(Graph graph, const Parameters& values);

  /// Reads a model file, as `load_model` does, or a checkpoint. Throws IoError or FormatError.
  static Model load(const std::string& path);
  /// Writes a model file. Throws IoError or FormatError.
  void save(const std::string& path) const;

  const Graph& graph() const { return graph_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }
  /// The answers, in order: all of them ship. See Graph::answers.
  const std::vector<NodeId>& outputs() const { return outputs_; }
  /// The first of outputs(), which metrics score.
  NodeId answer() const { return outputs_[0]; }
  /// What training minimises: the first of Graph::losses.
  const std::optional<NodeId>& loss() const { return loss_; }
  /// What a checkpoint adds: settings, optimizer, schedule and progress.
  const std::map<std::string, Section>& sections() const { return sections_; }

  /// Replaces a value. Throws GraphError for an unknown name, another dtype or shape, or
  /// another number of values.
  template <Element T>
  void set(std::string_view name, std::span<const T> values) {
    parameters_->set(name, Tensor::of<T>(parameters_->at(name).type.shape, values));
  }

  /// Takes over what `other` holds of this model's parameters and states, by name; how many.
  /// Throws GraphError for one of another type, which changes nothing.
  int64_t take_over(const Parameters& other);

  /// The integer program that the model converts to. Throws GraphError as `convert` does.
  IntegerProgram integers(Requantization requantization) const;

 private:
  friend Parameters& detail::values_of(const Model& model);

  Graph graph_;
  std::unique_ptr<Parameters> parameters_;
  std::map<std::string, Section> sections_;
  std::vector<NodeId> outputs_;
  std::optional<NodeId> loss_;
};

/// How well the model answers `dataset`. Throws ArgumentError for data that do not fit.
Evaluation evaluate(const Model& model, const data::Dataset& dataset,
                    int threads = default_threads());
/// The accuracy alone, in percent. Throws ArgumentError for data without labels.
double accuracy(const Model& model, const data::Dataset& dataset,
                int threads = default_threads());
/// The score of the first answer by a metric: `score(model, test, MetricKind::AreaUnderCurve)`.
/// Throws ArgumentError for data that the metric cannot compare.
double score(const Model& model, const data::Dataset& dataset, MetricKind metric,
             int threads = default_threads());
/// The first answer of the model: f32 [size, ...], sample after sample. Its numbers:
///
///   const Tensor answers = predict(model, dataset);
///   for (float y : answers.values<float>()) fmt::print("{}\n", y);
Tensor predict(const Model& model, const data::Dataset& dataset,
               int threads = default_threads());

/// The same of an integer program that yields floats.
Tensor predict(const IntegerProgram& program, const data::Dataset& dataset,
               int threads = default_threads());

/// All answers of the model by label, each f32 [size, ...], sample after sample.
NamedTensors predict_all(const Model& model, const data::Dataset& dataset,
                         int threads = default_threads());

/// The same of an integer program, by output_name; outputs of integers keep their dtype.
NamedTensors predict_all(const IntegerProgram& program, const data::Dataset& dataset,
                         int threads = default_threads());

/// Runs the data through every level of arithmetic. What came of it is the verifier's:
/// `verify(model, test, rounding).mismatches()`. Throws GraphError for a model that has no
/// integers, ArgumentError for data that do not fit.
Verifier verify(const Model& model, const data::Dataset& dataset,
                Requantization requantization = Requantization::FloatMultiply,
                int threads = default_threads());

}  // namespace qtape
