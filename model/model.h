// Model: a network with its values, the user's handle from training to deployment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/held.h"
#include "qtape/data/dataset.h"
#include "qtape/deploy/convert.h"
#include "qtape/deploy/verify.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/training/exact.h"
#include "qtape/io/arrays/named_tensors.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/value.h"

namespace qtape {

class Model;
namespace detail {
/// Throws GraphError, which names the entry, if `found` has another type.
void check_same_type(const ParameterEntry& wanted, const ParameterEntry& found);
}  // namespace detail

/// Owns graph and values. Functions that do not change them are const. Movable, not copyable;
/// a moved-from model can be assigned to or destroyed, everything else throws GraphError.
class Model {
 public:
  /// The network with the result `answer`, with parameters initialized by `seed`. Without a
  /// loss it cannot be trained.
  explicit Model(const Value& answer, uint64_t seed = 1);
  Model(const Value& answer, const Loss& loss, uint64_t seed = 1);
  /// The network with a loss that is already built.
  Model(const Value& answer, const Value& loss, uint64_t seed = 1);
  /// A network with several answers, all of which are deployed. Throws GraphError for none.
  explicit Model(const std::vector<Value>& answers, uint64_t seed = 1);
  Model(const std::vector<Value>& answers, const Value& loss, uint64_t seed = 1);
  /// The answers are the outputs of `graph` that are not losses; training minimizes the first
  /// loss. Throws GraphError for a graph without answers.
  explicit Model(Graph graph, uint64_t seed = 1);
  explicit Model(SavedModel saved);
  /// The model of `graph`, with the values that `values` contains for it, see take_over.
  Model(Graph graph, const Parameters& values);

  /// Reads a model file, like `load_model`, or a checkpoint. Throws IoError or FormatError.
  static Model load(const std::string& path);
  /// Writes a model file: graph and values. Sections of a checkpoint are not written. Throws
  /// IoError or FormatError.
  void save(const std::string& path) const;

  const Graph& graph() const& { return parts_->graph; }
  Graph graph() && { return std::move(parts_->graph); }
  Parameters& parameters() & { return parts_->parameters; }
  const Parameters& parameters() const& { return parts_->parameters; }
  Parameters parameters() && { return std::move(parts_->parameters); }
  /// Returns the answers, in order; all of them are deployed. See Graph::answers.
  const std::vector<NodeId>& outputs() const& { return parts_->outputs; }
  std::vector<NodeId> outputs() && { return parts_->outputs; }
  /// Returns the first of outputs(), which metrics score.
  NodeId answer() const { return outputs()[0]; }
  /// Returns the node that training minimizes: the first of Graph::losses.
  std::optional<NodeId> loss() const { return parts_->loss; }
  /// Returns the sections of a checkpoint: settings, optimizer, schedule and progress. Empty
  /// after a run of `fit` that was not stopped.
  const std::map<std::string, Section>& sections() const& { return parts_->sections; }
  std::map<std::string, Section> sections() && { return std::move(parts_->sections); }

  /// Replaces the sections, as `fit` does.
  void set_sections(std::map<std::string, Section> sections) {
    parts_->sections = std::move(sections);
  }

  /// Replaces a value. Throws GraphError for an unknown name, another dtype or shape, or a
  /// wrong number of elements.
  template <Element T>
  void set(std::string_view name, std::span<const T> values) {
    parameters().set(name, Tensor::of<T>(parameters().at(name).type.shape, values));
  }

  /// Copies, by name, the parameters and states of this model that `other` contains; returns
  /// their number. Throws GraphError, changing nothing, if one has another type.
  int64_t take_over(const Parameters& other);

  /// Converts the model to an integer program. A last Softmax or LogSoftmax is left out, as by
  /// `qtape convert`: the answer is its operand, with the same order of classes. Throws
  /// GraphError like `convert`.
  IntegerProgram integers(Requantization requantization) const;

 private:
  struct Parts {
    Graph graph;
    Parameters parameters;
    std::map<std::string, Section> sections;
    std::vector<NodeId> outputs = {};
    std::optional<NodeId> loss = {};
  };

  Held<Parts> parts_;
};

/// Evaluates the model on `dataset`. Throws ArgumentError for data that do not fit.
Evaluation evaluate(const Model& model, const data::Dataset& dataset,
                    int threads = default_threads());
/// Returns only the accuracy, in percent. Throws ArgumentError for data without labels.
double accuracy(const Model& model, const data::Dataset& dataset,
                int threads = default_threads());
/// Returns the score of the first answer by a metric:
/// `score(model, test, MetricKind::AreaUnderCurve)`. Throws ArgumentError for data with which
/// the metric cannot compare.
double score(const Model& model, const data::Dataset& dataset, MetricKind metric,
             int threads = default_threads());
/// Returns the first answer of the model: f32 [size, ...], in sample order. To read the
/// numbers:
///
///   const Tensor answers = predict(model, dataset);
///   for (float y : answers.values<float>()) fmt::print("{}\n", y);
Tensor predict(const Model& model, const data::Dataset& dataset,
               int threads = default_threads());

/// Returns the first output of an integer program, which must be floats.
Tensor predict(const IntegerProgram& program, const data::Dataset& dataset,
               int threads = default_threads());

/// Returns all answers of the model by label, each f32 [size, ...], in sample order.
NamedTensors predict_all(const Model& model, const data::Dataset& dataset,
                         int threads = default_threads());

/// Returns all outputs of an integer program by output_name; integer outputs keep their dtype.
NamedTensors predict_all(const IntegerProgram& program, const data::Dataset& dataset,
                         int threads = default_threads());

/// Runs the data at all levels of arithmetic and returns the verifier with the results:
/// `verify(model, test, rounding).mismatches()`. A last Softmax is left out, as by
/// Model::integers. Throws GraphError for a model without an integer form, ArgumentError for
/// data that do not fit.
Verifier verify(const Model& model, const data::Dataset& dataset,
                Requantization requantization = Requantization::FloatMultiply,
                int threads = default_threads());

}  // namespace qtape
