// State of an import: the values of an ONNX graph by name, and the graph that is built.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/onnx/import/batch_numbers.h"
#include "qtape/onnx/import/data_files.h"
#include "qtape/onnx/import/moved.h"
#include "qtape/onnx/import/problems.h"
#include "qtape/onnx/onnx_node.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {

/// Memory layout of a value, relative to its ONNX shape.
enum class OnnxLayout : uint8_t {
  Same,          ///< as in ONNX
  ChannelsLast,  ///< [n, c, ...] is stored as [n, ..., c]
  Flat,          ///< a ChannelsLast value with all axes after n joined as stored
  Moved          ///< permuted in any way, see OnnxValue::moved
};

/// A value of an ONNX graph.
struct OnnxValue {
  NodeId id;
  /// Shape in ONNX. Axis 0 has this many rows for each sample: 1 unless axes are joined with
  /// it.
  std::vector<int64_t> shape;
  OnnxLayout layout = OnnxLayout::Same;
  std::vector<int64_t> flat = {};  ///< Flat only: [c, ...] before the axes were joined
  /// Axis of the batch in `shape`. It is always the first axis as stored; the other axes of a
  /// value whose batch is not axis 0 have the layout Same.
  int batch = 0;
  /// If not 0, the rows of axis 0 are this many steps of all samples, the steps first. They are
  /// stored with the steps of a sample together.
  int64_t steps = 0;
  MovedAxes moved = {};  ///< Moved only

  int rank() const { return static_cast<int>(shape.size()); }
};

/// Place of scales in the order of a parameter.
struct OnnxBlocks {
  Shape shape;   ///< of the scales
  int axis = 0;  ///< along which they differ
  /// Returns scales in this order; empty if it is that of the file.
  std::function<std::vector<float>(const std::vector<float>&)> order = {};
};

/// Thrown for constants that nodes read without a quantizer, although a QuantizeLinear rounds
/// them. Another import must round them at once.
struct OnnxUnrounded {
  std::set<std::string> names;  ///< outputs of QuantizeLinear
};

class OnnxImporter {
 public:
  /// `opset` is that of the default domain. The constants and parameters that nodes create are
  /// limited by the number of `bytes` of the file. `needed` are the names of the values that
  /// outputs need. Constants in `rounded`, outputs of QuantizeLinear, are rounded by it; others
  /// stay floats that a quantizer rounds.
  OnnxImporter(int64_t opset, int64_t bytes, std::set<std::string> needed, OnnxDataFiles files,
               std::set<std::string> rounded)
      : opset_(opset),
        elements_left_(elements_for(bytes) + (1 << 16)),
        needed_(std::move(needed)),
        rounded_(std::move(rounded)),
        files_(std::move(files)) {}

  /// Adds a constant of the file.
  void add_tensor(const onnx::TensorProto& tensor);
  /// Adds an input as declared in the file. An input of rank 3 is channels-last if `one_axis`.
  /// `by_steps`: see onnx_batch_axis.
  void add_input(const onnx::ValueInfoProto& input, bool one_axis,
                 const std::set<std::string>& by_steps);
  /// Adds the node at `index` of the graph, or records why it cannot be read.
  void add_node(int64_t index, const OnnxNode& node);
  /// Adds a node if it can be read. Returns false otherwise.
  bool add_if_supported(const OnnxNode& node);
  /// Records why the node at `index` of the graph cannot be read.
  void refuse_node(int64_t index, const OnnxNode& node, const std::string& reason);
  /// Records the shape of a value as declared in the file, which is used to check nodes that
  /// follow a refused one.
  void declare(const onnx::ValueInfoProto& value);
  /// Records that the tensor `name` is not supported.
  void refuse_tensor(const std::string& name, const std::string& reason);
  /// True if a node reads only constants, so that it can be computed before inputs are known.
  bool reads_constants(const OnnxNode& node) const;
  /// Returns the constant of that name, or null.
  const OnnxConstant* find_constant(const std::string& name) const;
  /// Returns the graph with the outputs of the ONNX model. Throws FormatError that lists
  /// everything that is not supported, and OnnxUnrounded.
  Graph finish(const std::vector<std::string>& outputs);
  /// Returns the values of the parameters and states of the graph.
  const std::map<std::string, Tensor>& values() const { return parameters_; }

  // For operators.
  int64_t opset() const { return opset_; }
  const Graph& graph() const { return graph_; }
  int64_t declared_batch() const { return declared_batch_; }
  bool is_rounded(const std::string& name) const { return rounded_.contains(name); }
  bool is_needed(const std::string& name) const { return needed_.contains(name); }
  /// True for codes that a QuantizeLinear computes, or that nodes only moved since.
  bool holds_codes(const std::string& name) const { return coded_.contains(name); }
  void mark_codes(const std::string& name) { coded_.insert(name); }
  /// Records that the codes of the constant `name` have a quantizer, or that other constants
  /// have them.
  void keep_codes(const std::string& name) { kept_codes_.insert(name); }
  /// Records that the file stores the codes of a quantizer as `codes`, which have more bits.
  void keep_storage(NodeId quantizer, OnnxCodes codes) {
    storage_.insert_or_assign(quantizer, std::move(codes));
  }
  /// Returns the codes recorded for a quantizer, or null.
  const OnnxCodes* storage_of(NodeId quantizer) const {
    const auto found = storage_.find(quantizer);
    return found == storage_.end() ? nullptr : &found->second;
  }
  /// Returns notes about inputs and codes that the model has otherwise.
  const std::vector<std::string>& notes() const { return notes_; }
  /// True for an output of a refused node.
  bool is_unknown(const std::string& name) const { return unknown_.contains(name); }
  /// Returns the value of that name, or null.
  const OnnxValue* find_value(const std::string& name) const;
  /// Throws FormatError if that many elements exceed the limit.
  void expect_room(int64_t elements) const;
  /// Throws FormatError if `steps` of a recurrent operator, of `each` nodes, exceed the limit
  /// of nodes.
  void spend_steps(int64_t steps, int64_t each);
  /// Throw FormatError if the limit of elements is exceeded.
  void spend(int64_t elements);
  void add_constant(const std::string& name, OnnxConstant constant);
  /// Declares that the constant `name` is a copy of `of`: a parameter that is read by both
  /// names is one.
  void set_origin(const std::string& name, const std::string& of);
  void add_note(std::string note) { notes_.push_back(std::move(note)); }

  /// Returns a tensor of the file; its data may lie in another file.
  OnnxConstant read_tensor(const onnx::TensorProto& tensor);

  // Inputs of nodes.
  /// Returns a value that is not Moved.
  OnnxValue value(const OnnxNode& node, int k);
  /// Returns a value in any layout.
  const OnnxValue& moved_value(const OnnxNode& node, int k) const;
  bool is_constant(const std::string& name) const { return constants_.contains(name); }
  bool has_input(const OnnxNode& node, int k) const { return !node.input(k).empty(); }
  /// Returns an input that is a constant. Throws FormatError if it depends on the number of
  /// samples, unless it has the batch extent where `node` repeats it for each sample.
  const OnnxConstant& constant(const OnnxNode& node, int k) const;
  std::vector<float> floats(const OnnxNode& node, int k, int64_t count) const;
  std::vector<int64_t> integers(const OnnxNode& node, int k) const;
  /// Returns a constant integer, or `fallback` if the node has no input `k`.
  int64_t integer(const OnnxNode& node, int k, int64_t fallback) const;
  /// Returns an integer list that is an attribute in old opsets and an input in later ones.
  std::optional<std::vector<int64_t>> integers_or(const OnnxNode& node, const char* name,
                                                  int k) const;

  // Outputs of nodes.
  void give(const OnnxNode& node, OnnxValue value, int k = 0);
  /// Calls `convert` while `show` has changed the values that `node` reads.
  void while_shown(const OnnxNode& node, const std::function<void(OnnxValue&)>& show,
                   const std::function<void()>& convert);
  /// Converts a node that computes each row by itself; its operands and its result have
  /// `steps`.
  void with_plain_rows(const OnnxNode& node, int64_t steps,
                       const std::function<void()>& convert);
  /// Calls `convert` while the values that `node` reads are shown with the batch first; then
  /// moves the batch of its first output to axis `batch`.
  void with_batch_first(const OnnxNode& node, int batch, const std::function<void()>& convert);
  /// Adds a node. A Slice of joined parts becomes these parts, if it selects whole ones.
  NodeId add(Op op, std::vector<NodeId> operands, std::string label = {});
  /// Adds the constant `name` as a parameter, followed by its quantizer if it has codes; these
  /// may have several scales if axis 0 of the parameter is their axis. If its name was
  /// generated by an exporter, the label is built from `layer` and `part`.
  NodeId add_parameter(const std::string& name, Shape shape, std::vector<float> numbers,
                       const std::string& layer = {}, std::string_view part = {});
  /// Adds a parameter like `add_parameter`, without the quantizer.
  NodeId add_float_parameter(const std::string& name, Shape shape, std::vector<float> numbers,
                             const std::string& layer = {}, std::string_view part = {});
  NodeId add_state(const std::string& name, Shape shape, std::vector<float> numbers);
  /// Returns the label of a layer: the name of its weight without `.weight`, or else the module
  /// in the node's name, or else its kind and a number: `conv3`.
  std::string layer_label(const OnnxNode& node);
  /// Returns the module in the node's name; empty if it has none or cannot be a label.
  std::string module_label(const OnnxNode& node) const;
  /// Returns the label of a node without weights: its module and `part`.
  std::string node_label(const OnnxNode& node, const std::string& part) const;

  // Layouts.
  /// Returns `id` with its axes permuted, except axis 0: a Reshape if only extents of 1 move.
  NodeId permuted(NodeId id, std::vector<int> permutation);
  OnnxValue to_same(OnnxValue value);
  OnnxValue to_channels_last(OnnxValue value);
  /// Returns the position of ONNX axis `axis` in the stored value; not for Flat values.
  static int physical_axis(const OnnxValue& value, int64_t axis);
  /// Returns the origin of the elements of a Flat value: stored element k is ONNX element
  /// order[k].
  static std::vector<size_t> flat_order(const std::vector<int64_t>& flat);
  OnnxValue reshaped(const OnnxValue& value, const std::vector<int64_t>& shape);
  /// Return Moved values: no node is added until one is needed.
  OnnxValue reshaped_later(const OnnxValue& value, const std::vector<int64_t>& shape);
  OnnxValue permuted_later(const OnnxValue& value, const std::vector<int>& axes);
  /// Returns indices first, first + step, ... of ONNX axis `axis` of a value whose axes can be
  /// addressed, `count` in all; any indices.
  OnnxValue taken(OnnxValue value, int axis, int64_t first, int64_t step, int64_t count);
  OnnxValue taken(OnnxValue value, int axis, std::vector<int64_t> indices);
  /// Returns a value whose axes can be addressed with ONNX axis `axis`, of extent 1, repeated.
  OnnxValue repeated(OnnxValue value, size_t axis, int64_t count);
  /// Returns a Moved value in another layout, without a Transpose if one allows that.
  OnnxValue settled(const OnnxValue& value);

 private:
  /// Returns the number of elements that nodes may create for a file with this number of bytes.
  static int64_t elements_for(int64_t bytes) { return 4 * bytes; }
  /// Records the batch extent of an input, 0 if it is dynamic, and a problem or a note if
  /// another input has another one.
  void require_batch(const std::string& place, int64_t batch);
  void read(const OnnxNode& node, std::vector<std::string>& reasons);
  /// Adds a node, or returns false and why it cannot be read. Outputs of a node that reads
  /// unknown values become unknown.
  bool attempt(const OnnxNode& node, std::vector<std::string>& reasons);
  /// Adds a node of a file with a fixed batch that cannot read a constant with equal rows for
  /// all samples, with one of the rows. Returns false, without a change, if there is no such
  /// constant or the node cannot be read either.
  bool add_with_one_row(const OnnxNode& node);
  /// Adds a node that cannot read a constant, with values that hold the constant for each
  /// sample. Returns false, without a change, if there is no such constant or the node cannot
  /// be read either.
  bool add_with_samples(const OnnxNode& node);
  /// Returns the axis of the batch in input `k` of a node, a constant that is the same for each
  /// sample, and its rows for each sample; else nullopt.
  std::optional<std::pair<int, int64_t>> samples_of(const OnnxNode& node, int k) const;
  /// Returns the constant `name` for each sample, with its batch at axis `batch`; nullopt if
  /// there is no input of floats.
  std::optional<OnnxValue> sampled(const std::string& name, const OnnxConstant& constant,
                                   int batch, int64_t rows);
  /// Returns zeros [batch, elements] that depend on an input; nullopt if none has floats.
  std::optional<NodeId> zeros(int64_t elements);
  /// Returns the branch of an If that its constant condition selects, else null.
  const onnx::GraphProto* selected_branch(const OnnxNode& node) const;
  /// Adds the nodes of a branch, and gives the outputs of `node` its results.
  void add_branch(int64_t index, const OnnxNode& node, const onnx::GraphProto& branch);
  /// Replaces the outputs of a refused node by values of the declared shapes, so that following
  /// nodes can be checked, or by unknown values.
  void stand_in(const OnnxNode& node);
  void stand_in(const std::string& name);
  /// True unless `constant` has the batch extent where `node` would not repeat it.
  bool repeats_for_samples(const OnnxNode& node, const OnnxConstant& constant) const;
  /// Returns an existing parameter of that name with equal values.
  std::optional<NodeId> known_parameter(const std::string& name, const Tensor& tensor) const;
  /// Returns the parts of joined values that the Slice selects, in its shape, if it selects
  /// whole ones.
  std::optional<NodeId> selected_parts(const Slice& op, NodeId x);
  NodeId add_leaf(Op leaf, const std::string& name, Tensor tensor);
  /// Adds notes about constants and outputs whose codes are not kept, and problems of those
  /// that the codes would change.
  void note_codes(const std::vector<std::string>& outputs);
  /// Returns the axis of the output channels in the weights, of that rank, of the current
  /// node; -1 if none.
  int channels_axis(int rank) const;
  /// Returns the quantizer of the parameter, if the constant `name` has codes, or itself.
  NodeId with_quantizer(const std::string& name, NodeId parameter);
  NodeId add_quantizer(NodeId parameter, const OnnxCodes& codes, const OnnxBlocks& blocks);
  OnnxBlocks stored_blocks(const std::string& name, const OnnxConstant& constant,
                           NodeId parameter) const;
  /// Returns the axes of `value` as factors of its elements.
  static MovedAxes moved_axes(const OnnxValue& value);
  /// Returns the elements of `value` with its axes after the batch in `order`.
  NodeId arranged(const OnnxValue& value, std::span<const int> order);
  /// Returns `id` with the extents `shape`, of which the first is the batch.
  NodeId shaped(NodeId id, std::vector<int64_t> shape);
  std::string free_label(const std::string& wanted) const;
  /// Gives `value` the name of an output.
  NodeId named_output(NodeId value, const std::string& name);

  int64_t opset_;
  Graph graph_;
  int64_t declared_batch_ = 0;    // of the first input; 0 if it is dynamic
  std::string batch_place_ = {};  // that input
  std::map<std::string, OnnxValue> values_;
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, Tensor> parameters_;
  std::multimap<std::string, NodeId> leaves_;   // by the name of the constant
  std::map<std::string, std::string> origins_;  // of constants that are copies of others
  std::map<int32_t, NodeId> quantizers_;        // by the index of their parameter
  int64_t elements_left_;
  int64_t unrolled_ = 0;  // nodes of recurrent operators
  std::set<std::string> needed_;
  std::set<std::string> rounded_;
  std::set<std::string> coded_;
  std::set<std::string> kept_codes_;
  std::map<NodeId, OnnxCodes> storage_;  // of quantizers with codes of fewer bits
  std::vector<std::string> notes_;
  OnnxDataFiles files_;
  const OnnxNode* current_ = nullptr;      // the node that is being added
  std::map<std::string, int64_t> layers_;  // number of layers without a name, by their kind
  mutable std::map<std::string, int64_t> numbers_;  // least that may be free, by the label
  std::map<std::string, std::vector<int64_t>> declared_;  // shapes of floats
  std::set<std::string> unknown_;                         // outputs of refused nodes
  OnnxProblems problems_;
  bool one_axis_ = false;  // true if values of rank 3 have channels
};

/// Returns a b. Throws FormatError for negative operands and for results beyond the size of any
/// tensor.
int64_t onnx_product(int64_t a, int64_t b);
/// Returns the product of extents, with the same errors.
int64_t onnx_product(std::span<const int64_t> extents);
/// Replaces an open extent, -1. Returns false unless the product is then `elements`.
bool onnx_fill(std::span<int64_t> extents, int64_t elements);

/// Returns `axis` counted from the front. Throws FormatError outside -rank..rank-1.
int onnx_axis(int64_t axis, int rank);

/// Returns the axis of the batch of an input: axis 1 if recurrent operators read the values
/// `by_steps`, and either axis 1 is not fixed and axis 0 is, or all extents are fixed and the
/// input is one of these values; or if axis 1 of three is the only one that is not fixed; else
/// axis 0.
int onnx_batch_axis(const onnx::ValueInfoProto& input, const std::set<std::string>& by_steps);

}  // namespace qtape
