// Every operator that the importer reads, in models with one thing wrong: each gives one line
// of error, or a model that runs, within a second and with little memory.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <iterator>
#include <limits>
#include <sstream>

#include "qtape/core/printable.h"
#include "qtape/tests/onnx/operator_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

using Proto = onnx::AttributeProto;
using Words = std::vector<std::string>;

Words words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Attributes of operators by type, each of which gets all wrong values.
const Words of_integers = words(
    "axis keepdims group ceil_mode blocksize num_groups size hidden_size num_outputs allowzero "
    "transB p layout stash_type to start end transA count_include_pad channels_last block_size "
    "output_dtype");
const Words of_lists =
    words("axes pads strides dilations kernel_shape perm split output_padding starts ends");
const Words of_texts = words(
    "mode auto_pad equation direction approximate nearest_mode coordinate_transformation_mode");
const Words of_floats =
    words("alpha beta epsilon momentum bias lambd ratio gamma min max value");

/// Imports the model; if that is possible, runs it. Errors must have one line.
void check_mutant(const std::string& bytes, const std::string& what) {
  CAPTURE(what);
  const auto begin = std::chrono::steady_clock::now();
  try {
    const SavedModel model = parse_onnx(bytes, "m.onnx");
    Parameters parameters = parameters_of(model);
    int64_t elements = 0;
    for (const Node& node : model.graph.nodes()) elements += node.type.elements();
    if (elements < (1 << 20)) {
      Tape tape(model.graph.with_batch(2), parameters, {});
      tape.forward(mode::eval);
    }
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(!text.empty());
    CHECK(text.find('\n') == std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

constexpr int64_t huge = int64_t{1} << 40;
constexpr int64_t wrong_numbers[] = {
    0, -1, 1, 7, 99, -99, -5, huge, -huge, int64_t{1} << 31, INT64_MAX, INT64_MIN};
constexpr float wrong_floats[] = {std::numeric_limits<float>::quiet_NaN(), 0, -1, 1e30f,
                                  -std::numeric_limits<float>::infinity()};
constexpr const char* wrong_texts[] = {"",        "unknown",    "ij,jk->ik",   "->",
                                       ",,->",    "a,b->",      "abc,cd->abd", "linear",
                                       "reflect", "SAME_LOWER", "reverse",     "\n\1"};
const std::vector<Extents> wrong_extents = {
    {},     {0},    {1},          {2},    {huge},    {-1},         {1, 1},
    {0, 4}, {4, 4}, {huge, huge}, {4, 1}, {1, 4, 1}, Extents(6, 1)};

/// A model, of which copies with one change are checked.
struct Mutation {
  const OperatorModel& valid;
  onnx::ModelProto model;
  int64_t checked = 0;

  explicit Mutation(const OperatorModel& of) : valid(of) {
    REQUIRE(model.ParseFromString(valid.model().bytes()));
  }

  template <class Change>
  void check(const std::string& what, const Change& change) {
    onnx::ModelProto copy = model;
    onnx::GraphProto& graph = *copy.mutable_graph();
    auto& nodes = *graph.mutable_node();
    change(graph, *std::ranges::find(nodes, valid.type, &onnx::NodeProto::op_type));
    check_mutant(copy.SerializeAsString(),
                 fmt::format("{} of opset {}: {}", valid.type, valid.opset, what));
    ++checked;
  }
  /// Checks copies whose tensor `k` is changed by `change(tensor)`.
  template <class Change>
  void check_tensor(int k, const std::string& what, const Change& change) {
    check(fmt::format("tensor {} {}", k, what),
          [&](auto& graph, auto&) { change(*graph.mutable_initializer(k)); });
  }
  /// Checks copies with attributes of the type `type` that `set(attribute, value)` fills.
  template <class Values, class Set>
  void check_attributes(const Words& names, const Values& values, Proto::AttributeType type,
                        const Set& set) {
    for (const std::string& name : names) {
      for (const auto& value : values) {
        check(printable(fmt::format("{} = {}", name, value)), [&](auto&, auto& node) {
          auto& attributes = *node.mutable_attribute();
          const auto at = std::ranges::find(attributes, name, &Proto::name);
          auto& attribute = at != attributes.end() ? *at : *attributes.Add();
          attribute.Clear();
          attribute.set_name(name);
          attribute.set_type(type);
          set(attribute, value);
        });
      }
    }
  }

  void inputs();
  void extents();
  void shapes_of_tensors();
  void contents_of_tensors();
  void attributes();
};

void Mutation::inputs() {
  check("nothing", [](auto&, auto&) {});
  check("no outputs", [](auto&, auto& node) { node.clear_output(); });
  const auto& all = model.graph().node();
  const auto own = std::ranges::find(all, valid.type, &onnx::NodeProto::op_type);
  for (int k = 0; k < own->input_size(); ++k) {
    for (const char* name : {"", "x", "none"}) {
      check(fmt::format("input {} is '{}'", k, name),
            [&](auto&, auto& node) { node.set_input(k, name); });
    }
    check(fmt::format("{} inputs", k), [&](auto&, auto& node) {
      node.mutable_input()->DeleteSubrange(k, node.input_size() - k);
    });
  }
  for (int more = 1; more <= 6; ++more) {
    check(fmt::format("{} more inputs", more), [&](auto&, auto& node) {
      for (int k = 0; k < more; ++k) node.add_input("x");
    });
  }
  check("more outputs", [](auto& graph, auto& node) {
    node.add_output("second");
    graph.add_output()->set_name("second");
  });
}

void Mutation::extents() {
  const auto type = [](onnx::GraphProto& graph) {
    return graph.mutable_input(0)->mutable_type()->mutable_tensor_type();
  };
  for (const Extents& extents : wrong_extents) {
    check(fmt::format("x of [{}]", fmt::join(extents, ", ")), [&](auto& graph, auto&) {
      auto& shape = *type(graph)->mutable_shape();
      shape.clear_dim();
      shape.add_dim()->set_dim_param("batch");
      for (const int64_t each : extents) shape.add_dim()->set_dim_value(each);
    });
  }
  for (const int element : {0, 7, 8, 99}) {
    check(fmt::format("x of type {}", element),
          [&](auto& graph, auto&) { type(graph)->set_elem_type(element); });
  }
}

/// Shapes without and with as many elements as they state.
void Mutation::shapes_of_tensors() {
  for (int k = 0; k < model.graph().initializer_size(); ++k) {
    for (const Extents& extents : wrong_extents) {
      const auto reshape = [&](onnx::TensorProto& tensor) {
        tensor.clear_dims();
        for (const int64_t each : extents) tensor.add_dims(each);
      };
      const std::string what = fmt::format("of [{}]", fmt::join(extents, ", "));
      check_tensor(k, what, reshape);
      int64_t n = 1;
      for (const int64_t each : extents) n = each < 0 || each > 64 ? 0 : n * each;
      check_tensor(k, what + ", filled", [&](onnx::TensorProto& tensor) {
        reshape(tensor);
        const bool floats = tensor.float_data_size() > 0;
        tensor.clear_float_data();
        const bool codes = tensor.int32_data_size() > 0;
        tensor.clear_int64_data();
        tensor.clear_int32_data();
        for (int64_t i = 0; i < n; ++i) {
          floats  ? tensor.add_float_data(2)
          : codes ? tensor.add_int32_data(2)
                  : tensor.add_int64_data(2);
        }
      });
    }
  }
}

void Mutation::contents_of_tensors() {
  for (int k = 0; k < model.graph().initializer_size(); ++k) {
    const int integers = model.graph().initializer(k).int64_data_size();
    for (const float number : wrong_floats) {
      check_tensor(k, fmt::format("holds {}", number), [&](auto& tensor) {
        for (float& each : *tensor.mutable_float_data()) each = number;
      });
    }
    for (const int64_t number : wrong_numbers) {
      for (int at = 0; at < integers; ++at) {
        check_tensor(k, fmt::format("holds {} at {}", number, at),
                     [&](auto& tensor) { tensor.set_int64_data(at, number); });
      }
    }
    for (const int element : {0, 1, 7, 8, 9, 11, 99}) {
      check_tensor(k, fmt::format("of type {}", element), [&](auto& tensor) {
        const int n =
            tensor.float_data_size() + tensor.int64_data_size() + tensor.int32_data_size();
        tensor.set_data_type(element);
        tensor.set_raw_data(std::string(static_cast<size_t>(n) * 8, '\1'));
      });
    }
  }
}

void Mutation::attributes() {
  check_attributes(of_integers, wrong_numbers, Proto::INT,
                   [](Proto& attribute, int64_t number) { attribute.set_i(number); });
  for (const int count : {1, 2, 4}) {
    check_attributes(of_lists, wrong_numbers, Proto::INTS,
                     [&](Proto& attribute, int64_t number) {
                       for (int k = 0; k < count; ++k) attribute.add_ints(number);
                     });
  }
  check_attributes(of_lists, Words{"nothing"}, Proto::INTS, [](auto&, auto&) {});
  check_attributes(of_lists, Words{"a graph"}, Proto::GRAPH, [](Proto& attribute, auto&) {
    attribute.mutable_g()->add_node()->add_output("y");
  });
  check_attributes(of_texts, wrong_texts, Proto::STRING,
                   [](Proto& attribute, const char* text) { attribute.set_s(text); });
  check_attributes(of_floats, wrong_floats, Proto::FLOAT,
                   [](Proto& attribute, float number) { attribute.set_f(number); });
}

}  // namespace

TEST_CASE("onnx: broken models of every operator give one line of error") {
  struct rusage before {
  }, after{};
  REQUIRE(::getrusage(RUSAGE_SELF, &before) == 0);
  int64_t checked = 0;
  for (const OperatorModel& valid : operator_models()) {
    CAPTURE(valid.type);
    const std::string error = test::error_text<Error>([&] { (void)valid.model().imported(); });
    CHECK((error == "no error" || error.ends_with("output 'unread': it is a constant")));
    Mutation mutation(valid);
    mutation.inputs();
    mutation.extents();
    mutation.shapes_of_tensors();
    mutation.contents_of_tensors();
    mutation.attributes();
    checked += mutation.checked;
  }
  CHECK(checked > 10000);
  REQUIRE(::getrusage(RUSAGE_SELF, &after) == 0);
  constexpr long max_kilobytes = 100 << 10;
  CHECK(after.ru_maxrss - before.ru_maxrss < max_kilobytes);
}
