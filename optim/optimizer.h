// Optimizers: update rules that change parameters by their gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/fields.h"
#include "qtape/core/section.h"
#include "qtape/core/thread_count.h"
#include "qtape/engine/parameters.h"
#include "qtape/optim/update.h"

namespace qtape {

/// Gradient descent, with g = dp + weight_decay p and learning rate r:
/// m = momentum m + g, p -= r m; with Nesterov momentum p -= r (g + momentum m).
/// Sutskever et al., ICML 2013, in PyTorch's form.
struct Sgd {
  static constexpr std::string_view name = "Sgd";
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  static constexpr auto fields() {
    return std::tuple{field("momentum", &Sgd::momentum, "in [0, 1); 0 keeps no moment"),
                      field("nesterov", &Sgd::nesterov, "look ahead; needs momentum > 0"),
                      field("weight_decay", &Sgd::weight_decay, "L2 factor, finite and >= 0")};
  }
  bool operator==(const Sgd&) const = default;
};

/// At step t = 1, 2, ..., with g = dp + weight_decay p:
/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p -= r m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
/// Kingma and Ba, arXiv 1412.6980, algorithm 1.
struct Adam {
  static constexpr std::string_view name = "Adam";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  static constexpr auto fields() {
    return std::tuple{field("beta1", &Adam::beta1, "decay of the first moment, in [0, 1)"),
                      field("beta2", &Adam::beta2, "decay of the second moment, in [0, 1)"),
                      field("epsilon", &Adam::epsilon, "in [1e-30, 1]"),
                      field("weight_decay", &Adam::weight_decay, "L2 factor, finite and >= 0")};
  }
  bool operator==(const Adam&) const = default;
};

/// Adam with g = dp and decoupled weight decay: p *= 1 - r weight_decay precedes the update.
/// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2.
struct AdamW {
  static constexpr std::string_view name = "AdamW";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  static constexpr auto fields() {
    return std::tuple{
        field("beta1", &AdamW::beta1, "decay of the first moment, in [0, 1)"),
        field("beta2", &AdamW::beta2, "decay of the second moment, in [0, 1)"),
        field("epsilon", &AdamW::epsilon, "in [1e-30, 1]"),
        field("weight_decay", &AdamW::weight_decay, "decoupled factor, finite and >= 0")};
  }
  bool operator==(const AdamW&) const = default;
};

/// With g = dp + weight_decay p:
/// v = alpha v + (1 - alpha) g^2, m = momentum m + g / (sqrt(v) + epsilon), p -= r m.
/// Hinton, Neural Networks for Machine Learning, lecture 6e, in PyTorch's form.
struct RmsProp {
  static constexpr std::string_view name = "RmsProp";
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  static constexpr auto fields() {
    return std::tuple{
        field("alpha", &RmsProp::alpha, "decay of the second moment, in [0, 1)"),
        field("epsilon", &RmsProp::epsilon, "in [1e-30, 1]"),
        field("momentum", &RmsProp::momentum, "in [0, 1); 0 keeps no first moment"),
        field("weight_decay", &RmsProp::weight_decay, "L2 factor, finite and >= 0")};
  }
  bool operator==(const RmsProp&) const = default;
};

/// Update rule of an optimizer.
using Rule = std::variant<Sgd, Adam, AdamW, RmsProp>;

/// Separate settings for the parameters whose names match `pattern`.
struct ParameterGroup {
  std::string pattern = {};  ///< `*` matches any text, including none; `?` any single byte
  double learning_rate_scale = 1;  ///< factor on the learning rate, finite and >= 0
  /// Replaces the weight decay of the rule; finite and >= 0.
  std::optional<double> weight_decay = std::nullopt;
  /// Does not change the values and keeps no moments. Observers and batch norms of frozen
  /// layers still change their states, and scales of weights follow the norms (WeightCodes):
  /// QuantizationSchedule::freeze and freeze_norms stop these.
  bool frozen = false;
  bool operator==(const ParameterGroup&) const = default;
};

/// Returns the first group whose pattern matches `name`; null if there is none.
const ParameterGroup* group_of(std::span<const ParameterGroup> groups, std::string_view name);

/// A rule bound to the trainable entries of a Parameters, with its moments. f64 parameters are
/// updated in double, f32 ones in float with factors computed in double. A moment below the
/// smallest normal number becomes 0. The bits depend neither on the threads nor on the
/// processor. Movable, not copyable. Not for concurrent use by two threads.
class Optimizer {
 public:
  /// `parameters` must outlive the optimizer and may be moved. A name belongs to the first
  /// group whose pattern matches it; other names follow the rule alone. Throws ArgumentError
  /// for a setting out of range, for a group to which no trainable entry belongs and for
  /// `threads` < 1.
  Optimizer(Parameters& parameters, Rule rule, std::vector<ParameterGroup> groups = {},
            int threads = default_threads());

  /// Updates the values from the gradients, which it does not change. A gradient that is not
  /// finite makes its value and moments not finite. Allocates nothing. Throws ArgumentError,
  /// changing nothing, unless `learning_rate` is finite and >= 0, and GraphError if the
  /// parameters no longer exist.
  void step(double learning_rate);

  /// Number of steps, including those before a load.
  int64_t steps() const { return steps_; }
  const Rule& rule() const { return rule_; }

  /// Settings, groups, steps and moments for a checkpoint, without the values.
  Section save() const;
  /// Restores the result of `save`, so that further steps give the same bits as without the
  /// interruption. Throws FormatError, changing nothing, unless rule, settings, groups, names,
  /// dtypes and shapes equal those of this optimizer.
  void load(const Section& section);

 private:
  /// One trained entry, at [start, start + elements) of the elements of all parts.
  struct Part {
    std::string name;
    TensorType type;
    size_t group = 0;
    int64_t start = 0;
    detail::UpdateSpan span;
    detail::UpdateLoop loop = nullptr;
  };

  void add_parts(const Parameters& parameters);
  void place_moments();
  void update(int64_t begin, int64_t end) const;
  template <class Visit>
  void visit_moments(const Visit& visit) const;

  ParametersLink parameters_;
  Rule rule_;
  std::vector<ParameterGroup> groups_;  // the given groups, and one for all other names
  int threads_ = 1;
  int64_t steps_ = 0;
  int64_t elements_ = 0;  // elements of all parts, each rounded up to whole cache lines
  std::vector<Part> parts_;
  std::vector<detail::UpdateFactors> factors_;  // by group
  AlignedBuffer moments_;
};

}  // namespace qtape
