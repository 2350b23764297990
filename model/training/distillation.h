// Knowledge distillation: a student model learns the outputs of a teacher, for example a
// quantized model those of its float form.
#pragma once

#include <memory>
#include <span>

#include "qtape/data/batches.h"
#include "qtape/model/model.h"

namespace qtape {

class Feed;

/// With logits s of the student and t of the teacher over c classes and p = softmax(t / T):
///
///   loss = (1 - share) own loss
///          - share T^2 mean over samples of sum_c p_c log softmax(s / T)_c
///
/// A single logit, or the operand of a last Sigmoid, is that of class 1 of two classes; that of
/// class 0 is 0.
/// Hinton, Vinyals and Dean, arXiv 1503.02531; for quantized students Mishra and Marr, arXiv
/// 1711.05852.
struct Distillation {
  const Model* teacher = nullptr;  ///< its answers are [batch, classes]; must outlive the
                                   ///< training
  double temperature = 2;          ///< T, finite and above 0
  double share = 0.5;              ///< in [0, 1]
};

/// A graph with a distillation loss, and the input for the teacher's p.
struct DistilledGraph {
  Graph graph;
  NodeId loss;           ///< a scalar: start of the gradients
  NodeId probabilities;  ///< the input for p, f32 [batch, c]
};

/// Returns `graph` with the nodes of the distillation loss appended. Throws ArgumentError for
/// settings out of range, and if student and teacher do not both have one answer,
/// [batch, classes], with the same number of classes.
DistilledGraph distilled(const Graph& graph, NodeId answer, NodeId loss,
                         const Distillation& distillation);

/// Runs the teacher. The inputs are the samples that the student reads.
class Teacher {
 public:
  /// `probabilities`, [rows, classes], receives the results for the samples of `shards` and
  /// must outlive the teacher.
  Teacher(const Distillation& distillation, const data::Dataset& dataset, int64_t rows,
          const Shards& shards, int threads, std::span<float> probabilities);
  ~Teacher();

  /// Writes p for the samples of training step `step`.
  void answer(std::span<const int64_t> samples, int64_t step, data::Augmenter& augmenter);

 private:
  std::unique_ptr<Tape> tape_;
  std::unique_ptr<Feed> feed_;
  NodeId output_;
  std::span<float> probabilities_;
};

}  // namespace qtape
