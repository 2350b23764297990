// ONNX operators that move and choose elements, against plain loops of their definitions.
#include <limits>
#include <utility>

#include "qtape/core/random.h"
#include "qtape/tests/onnx/onnx_arrays.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Returns random extents after the batch, with the product of `shape`.
Extents regrouped(const Random& random, uint64_t& draws, const Extents& shape) {
  Extents primes;
  for (int64_t rest = count(shape), p = 2; rest > 1;) {
    if (rest % p == 0) {
      primes.push_back(p);
      rest /= p;
    } else {
      ++p;
    }
  }
  Extents result = {1};
  for (const int64_t p : primes) {
    if (result.size() == 1 || (result.size() < 6 && random.below(draws++, 2) == 0)) {
      result.push_back(1);
    }
    result.back() *= p;
  }
  return result;
}

/// Returns a model of one operator, which reads x and `others`.
OnnxModel of(const OnnxGiven& x, const char* type, const OnnxInputs& others = {}) {
  return OnnxModel(x.shape, 18).then(type, others);
}

}  // namespace

TEST_CASE("onnx moves: chains of Reshape and Transpose keep every element in its place") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Random random(seed, 5);
    uint64_t draws = 0;
    OnnxGiven x = numbered(seed % 2 == 0 ? Extents{1, 4, 3, 6} : Extents{1, 12, 1, 2});
    const OnnxGiven input = x;
    OnnxModel model(x.shape, 18);
    for (int step = 0; step < 4; ++step) {
      if (random.below(draws++, 2) == 0) {
        x.shape = regrouped(random, draws, x.shape);
        Extents shape = x.shape;
        shape[0] = 0;
        model.then("Reshape", {ints(shape)});
      }
      Extents perm(x.shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      for (size_t k = perm.size() - 1; k > 1; --k) {
        std::swap(perm[k], perm[1 + random.below(draws++, k)]);
      }
      model.then("Transpose").with("perm", perm);
      x = transposed(x, perm);
      if (random.below(draws++, 4) == 0)
        model.then("Relu");  // needs the elements in some order
    }
    CHECK(answer(model, input) == x.values);
  }
}

TEST_CASE("onnx moves: nothing is transposed where elements can stay") {
  const auto turned = [](OnnxModel& model, const Extents& perm) -> OnnxModel& {
    return model.then("Transpose").with("perm", perm);
  };
  OnnxModel tokens({1, 4, 3, 3}, 18);
  turned(tokens, {0, 2, 3, 1}).then("Relu");
  turned(tokens, {0, 3, 1, 2}).then("Relu");
  CHECK(number_of<Transpose>(tokens) == 0);
  OnnxModel patches = OnnxModel({1, 4, 3, 3}, 18).then("Reshape", {ints({0, 4, 9})});
  turned(patches, {0, 2, 1}).then("Relu");
  turned(patches, {0, 2, 1}).then("Reshape", {ints({0, 4, 3, 3})}).then("Relu");
  CHECK(number_of<Transpose>(patches) == 0);
  OnnxModel shuffled = OnnxModel({1, 6, 3, 3}, 18).then("Reshape", {ints({0, 2, 3, 3, 3})});
  turned(shuffled, {0, 2, 1, 3, 4}).then("Reshape", {ints({0, 6, 3, 3})}).then("Relu");
  const SavedModel shuffle = shuffled.imported();
  CHECK(number_of<Transpose>(shuffle) == 0);
  CHECK(number_of<Gather>(shuffle) == 1);
  CHECK(shuffle.graph.size() == 4);
  OnnxModel head = OnnxModel({1, 10, 3, 4}, 18).then("Reshape", {ints({0, 2, 5, 3, 4})});
  turned(head, {0, 1, 3, 4, 2}).then("Reshape", {ints({0, -1, 5})}).then("Relu");
  CHECK(number_of<Transpose>(head) == 1);
  const OnnxModel depth =
      OnnxModel({1, 8, 3, 4}, 18).then("DepthToSpace").with("blocksize", 2).then("Relu");
  CHECK(number_of<Transpose>(depth) == 1);
}

TEST_CASE("onnx moves: elements along an axis") {
  const OnnxGiven x = numbered({1, 4, 3, 5});
  const auto slice = [&](int64_t axis, int64_t start, int64_t end, int64_t step) {
    return answer(of(x, "Slice", {ints({start}), ints({end}), ints({axis}), ints({step})}), x);
  };
  CHECK(slice(3, 0, 5, 2) == along(x, 3, {0, 2, 4}).values);
  CHECK(slice(-1, 4, 0, -3) == along(x, 3, {4, 1}).values);
  CHECK(slice(1, -1, std::numeric_limits<int64_t>::min() + 1, -1) ==
        along(x, 1, {3, 2, 1, 0}).values);
  CHECK(slice(2, 1, 99, 1) == along(x, 2, {1, 2}).values);
  const auto gather = [&](int64_t axis, const Extents& places, const Extents& shape) {
    const auto indices = codes(shape, places, onnx::TensorProto::INT64);
    return answer(of(x, "Gather", {indices}).with("axis", axis), x);
  };
  CHECK(gather(1, {2, 0, -1, 2}, {4}) == along(x, 1, {2, 0, 3, 2}).values);
  CHECK(gather(3, {-2}, {}) == along(x, 3, {3}).values);
  CHECK(gather(2, {2, 1, 0, 0}, {2, 2}) == along(x, 2, {2, 1, 0, 0}).values);
  CHECK(answer(of(x, "Tile", {ints({1, 2, 1, 3})}), x) ==
        along(along(x, 1, {0, 1, 2, 3, 0, 1, 2, 3}), 3,
              {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4})
            .values);
  const OnnxGiven one = numbered({1, 4, 1, 2});
  CHECK(answer(of(one, "Expand", {ints({3, 1})}), one) == along(one, 2, {0, 0, 0}).values);
}

TEST_CASE("onnx moves: elements of a sequence") {
  const OnnxGiven x = numbered({1, 4, 3, 5});
  const auto model = [&](const OnnxInputs& sizes, int64_t axis, int64_t keep, int64_t index) {
    OnnxInputs inputs = {"x"};
    inputs.insert(inputs.end(), sizes.begin(), sizes.end());
    return OnnxModel({-1, 4, 3, 5})
        .node("SplitToSequence", inputs, {"parts"})
        .with("axis", axis)
        .with("keepdims", keep)
        .node("SequenceAt", {"parts", codes({}, {index}, onnx::TensorProto::INT64)});
  };
  const auto scalar = [](int64_t size) { return codes({}, {size}, onnx::TensorProto::INT64); };
  struct Row {
    OnnxInputs sizes;
    int64_t axis, keep, index;
    std::vector<int64_t> places;
    bool squeezed = false;
  };
  for (const Row& row :
       {Row{{}, 1, 1, -1, {3}}, Row{{}, 3, 0, 2, {2}, true},
        Row{{scalar(1)}, -2, 0, -3, {0}, true}, Row{{scalar(1)}, 2, 1, 1, {1}},
        Row{{scalar(2)}, 3, 0, 2, {4}}, Row{{ints({1, 3})}, 1, 0, -1, {1, 2, 3}},
        Row{{ints({2, 2, 1})}, 3, 1, 1, {2, 3}}}) {
    CAPTURE(row.axis);
    CAPTURE(row.index);
    const OnnxModel made = model(row.sizes, row.axis, row.keep, row.index);
    const auto axis = static_cast<size_t>(row.axis < 0 ? row.axis + 4 : row.axis);
    CHECK(answer(made, x) == along(x, axis, row.places).values);
    CHECK(answer_shape(made).rank() == (row.squeezed ? 3 : 4));
  }
  const std::string unsupported = " (SequenceAt): the operator is not supported";
  for (const OnnxModel& each : {model({scalar(2)}, 3, 1, -1), model({ints({2, 3})}, 3, 1, 2),
                                model({ints({-2, 7})}, 3, 1, 1), model({"x"}, 3, 1, 1)}) {
    CHECK(error_of(each).find(unsupported) != std::string::npos);
  }
}

TEST_CASE("onnx moves: borders of every mode, and negative ones") {
  const OnnxGiven x = numbered({1, 2, 3, 4});
  const auto padded = [&](const char* mode, const Extents& pads, const Extents& axes) {
    OnnxInputs inputs = {ints(pads)};
    if (!axes.empty()) inputs.insert(inputs.end(), {"", ints(axes)});
    return answer(of(x, "Pad", inputs).with("mode", mode), x);
  };
  CHECK(padded("reflect", {0, 0, 2, 1, 0, 0, 0, 3}, {}) ==
        along(along(x, 2, {2, 1, 0, 1, 2}), 3, {1, 0, 1, 2, 3, 2, 1, 0}).values);
  CHECK(padded("edge", {2, 1}, {3}) == along(x, 3, {0, 0, 0, 1, 2, 3, 3}).values);
  CHECK(padded("wrap", {1, 2}, {-1}) == along(x, 3, {3, 0, 1, 2, 3, 0, 1}).values);
  CHECK(padded("constant", {-1, 0, 0, -1}, {2, 3}) ==
        along(along(x, 2, {1, 2}), 3, {0, 1, 2}).values);
  const OnnxGiven bordered = chosen(x, {1, 2, 3, 4}, [](Extents at) {
    at[3] += 2;
    return at[3] < 4 ? at : Extents();
  });
  CHECK(padded("constant", {-2, 2}, {3}) == bordered.values);
}

TEST_CASE("onnx moves: blocks of channels and of positions") {
  const OnnxGiven x = numbered({1, 8, 3, 2});
  const auto shuffled = [&](const char* mode) {
    return answer(of(x, "DepthToSpace").with("blocksize", 2).with("mode", mode), x);
  };
  CHECK(shuffled("DCR") ==
        chosen(x, {1, 2, 6, 4}, [](const Extents& at) {
          return Extents{0, (at[2] % 2 * 2 + at[3] % 2) * 2 + at[1], at[2] / 2, at[3] / 2};
        }).values);
  CHECK(shuffled("CRD") ==
        chosen(x, {1, 2, 6, 4}, [](const Extents& at) {
          return Extents{0, at[1] * 4 + at[2] % 2 * 2 + at[3] % 2, at[2] / 2, at[3] / 2};
        }).values);
  const OnnxGiven y = numbered({1, 2, 4, 6});
  CHECK(answer(of(y, "SpaceToDepth").with("blocksize", 2), y) ==
        chosen(y, {1, 8, 2, 3}, [](const Extents& at) {
          return Extents{0, at[1] % 2, at[2] * 2 + at[1] / 4, at[3] * 2 + at[1] / 2 % 2};
        }).values);
}

TEST_CASE("onnx moves: a slice of all samples is left out") {
  const OnnxModel model =
      OnnxModel({1, 3}).then("Slice", {ints({0, 1}), ints({INT64_MAX, 3}), ints({0, 1})});
  const SavedModel read = model.imported();
  CHECK(read.graph[read.graph.outputs()[0]].type.shape == Shape{1, 2});
}

TEST_CASE("onnx moves: what cannot be moved is refused by its node") {
  const auto of = [](const char* type, const OnnxInputs& others = {}) {
    return OnnxModel({1, 2, 4, 4}, 18).then(type, others);
  };
  const auto resized = [&](const Extents& sizes) {
    return of("Resize", {"", "", ints(sizes)});
  };
  const std::pair<OnnxModel, std::string> rows[] = {
      {of("Slice", {ints({1}), ints({3}), ints({2}), ints({-1})}),
       "it leaves no elements of axis 2"},
      {of("Slice", {ints({1}), ints({3}), ints({2}), ints({0})}),
       "a step of 0 is not supported"},
      {of("Slice", {ints({0}), ints({1}), ints({0})}),
       "axis 0 would split the batch" + hidden_by_batch_of_1},
      {of("Gather", {ints({0, 4})}).with("axis", 3), "index 4 is out of range for 4"},
      {of("Gather", {ints({0})}), "axis 0 would split the batch" + hidden_by_batch_of_1},
      {of("GatherElements", {ints({0})}),
       "the operator is not supported: replace it with operators listed in docs/limits.md"},
      {of("Pad", {ints(Extents(8))}).with("mode", "MODE"), "mode MODE is not supported"},
      {of("Pad", {ints({1, 0, 0, 0, 0, 0, 0, 0})}), "axis 0 cannot be padded by 1 and 0"},
      {of("Pad", {ints({0, 0, 0, -2, 0, 0, 0, -2})}),
       "pads -2 and -2 leave no elements of axis 3"},
      {of("Pad", {ints({1})}), "expected 8 pads for 4 axes"},
      {of("Tile", {ints({2, 1, 1, 1})}),
       "repeats [2, 1, 1, 1] must have one number for each of 4 axes, and 1 for axis 0"},
      {of("Tile", {ints({1, 0, 1, 1})}), "0 repeats are not supported"},
      {of("Tile", {ints({1, 1, 1, 1 << 24})}),
       "the constants that nodes compute are too large for the file"},
      {of("Expand", {ints({1, 4, 4, 4})}), "[1, 2, 4, 4] cannot be expanded to [1, 4, 4, 4]"},
      {of("Expand", {ints({2, 1, 2, 4, 4})}),
       "[2, 1, 2, 4, 4] has more axes than [1, 2, 4, 4]: they would come before the samples" +
           hidden_by_batch_of_1},
      {of("DepthToSpace").with("blocksize", 2), "blocks of 2 do not fit [1, 2, 4, 4]"},
      {of("SpaceToDepth"), "a blocksize of 0 is not supported"},
      {resized({1, 2, 8, 8}).with("mode", "cubic"),
       "mode cubic is not supported: use nearest or linear"},
      {resized({1, 2, 8, 8})
           .with("coordinate_transformation_mode", "tf_crop_and_resize")
           .with("antialias", 1),
       "coordinate_transformation_mode tf_crop_and_resize is not supported, attribute "
       "antialias is 1, only 0 is supported"},
      {resized({1, 4, 8, 8}), "axis 1 cannot be resized: only spatial axes are"},
      {resized({1, 2, 0, 8}), "4 elements resized to 0 are not supported"},
      {of("Resize", {"", floats({4}, {1, 1, 1e-9f, 2})}),
       "a scale of 1e-09 is not a ratio of small integers"}};
  for (const auto& [model, text] : rows) {
    const std::string type = OnnxModel(model).last().op_type();
    refused(model, fmt::format("node 'the {0}' ({0}): {1}", type, text));
  }
}

TEST_CASE("onnx: slices between transposes, with the samples on axis 1") {
  const auto sliced = [](int64_t begin, int64_t end, int64_t axis) {
    OnnxModel model({-1, 3, 2});
    model.transposed("x", {1, 0, 2}, "steps")
        .node("Slice", {"steps", ints({begin}), ints({end}), ints({axis})}, {"part"})
        .transposed("part", {1, 0, 2});
    return model;
  };
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CHECK(answer(sliced(1, 3, 0), x, 2) == Numbers{3, 4, 5, 6, 9, 10, 11, 12});
  CHECK(answer(sliced(-1, 99, 0), x, 2) == Numbers{5, 6, 11, 12});
  CHECK(answer(sliced(0, 1, 2), x, 2) == Numbers{1, 3, 5, 7, 9, 11});
  CHECK(answer(sliced(0, 3, 0), x, 2) == x);
  CHECK(answer(sliced(0, INT64_MAX, 1), x, 2) == x);
  CHECK(error_of(sliced(2, 2, 0)).find("it leaves no elements of axis 0") != std::string::npos);
  CHECK(error_of(sliced(1, 9, 1)).find("it would leave out samples, which are axis 1") !=
        std::string::npos);
}
