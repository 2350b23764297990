// Knowledge distillation: a model learns what another one answers, a quantized one what its
// float form does.
#pragma once

#include <memory>
#include <span>

#include "qtape/data/batches.h"
#include "qtape/model/feed.h"
#include "qtape/model/model.h"

namespace qtape {

/// With logits s of the student and t of the teacher over c classes and p = softmax(t / T):
///
///   loss = (1 - share) own loss
///          - share T^2 mean over samples of sum_c p_c log softmax(s / T)_c
///
/// Hinton, Vinyals and Dean, arXiv 1503.02531; of quantized students Mishra and Marr, arXiv
/// 1711.05852.
struct Distillation {
  const Model* teacher = nullptr;  ///< answers [batch, classes]; must outlive the training
  double temperature = 2;          ///< T, finite and above 0
  double share = 0.5;              ///< in [0, 1]
};

/// A graph with the loss of a distillation, and where the teacher's p goes.
struct DistilledGraph {
  Graph graph;
  NodeId loss;           ///< a scalar: where gradients start
  NodeId probabilities;  ///< the input, f32 [batch, classes], that takes p
};

/// `graph` with nodes behind its own. Throws ArgumentError for settings out of their range and
/// where student and teacher do not answer [batch, classes] of the same classes.
DistilledGraph distilled(const Graph& graph, NodeId answer, NodeId loss,
                         const Distillation& distillation);

/// The teacher at work. The student's inputs are read as the student reads them.
class Teacher {
 public:
  /// `probabilities`, [batch, classes], is where answers go; it must outlive the teacher.
  Teacher(const Distillation& distillation, const data::Dataset& dataset, int64_t batch,
          int threads, std::span<float> probabilities);

  /// Writes p for the samples of training step `step`.
  void answer(std::span<const int64_t> samples, int64_t step, data::Augmenter& augmenter);

 private:
  std::unique_ptr<Tape> tape_;
  std::unique_ptr<Feed> feed_;
  NodeId output_;
  std::span<float> probabilities_;
};

}  // namespace qtape
