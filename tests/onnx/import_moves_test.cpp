// ONNX operators that move and choose elements, against plain loops of their definitions.
#include <doctest/doctest.h>

#include <limits>
#include <utility>

#include "qtape/core/random.h"
#include "qtape/tests/support/onnx_nets.h"

using namespace qtape;
using namespace qtape::test::onnx_nets;

namespace {

/// Returns random extents after the batch, with the product of `shape`.
Numbers regrouped(const Random& random, uint64_t& draws, const Numbers& shape) {
  Numbers primes;
  for (int64_t rest = count(shape), p = 2; rest > 1;) {
    if (rest % p == 0) {
      primes.push_back(p);
      rest /= p;
    } else {
      ++p;
    }
  }
  Numbers result = {1};
  for (const int64_t p : primes) {
    if (result.size() == 1 || (result.size() < 6 && random.below(draws++, 2) == 0)) {
      result.push_back(1);
    }
    result.back() *= p;
  }
  return result;
}

}  // namespace

TEST_CASE("onnx moves: chains of Reshape and Transpose keep every element in its place") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Random random(seed, 5);
    uint64_t draws = 0;
    OnnxGiven x = numbered(seed % 2 == 0 ? Numbers{1, 4, 3, 6} : Numbers{1, 12, 1, 2});
    const OnnxGiven input = x;
    OnnxNet model(x.shape);
    for (int step = 0; step < 4; ++step) {
      if (random.below(draws++, 2) == 0) {
        x.shape = regrouped(random, draws, x.shape);
        Numbers shape = x.shape;
        shape[0] = 0;
        model.reshape(shape);
      }
      Numbers perm(x.shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      for (size_t k = perm.size() - 1; k > 1; --k) {
        std::swap(perm[k], perm[1 + random.below(draws++, k)]);
      }
      model.add("Transpose").set("perm", perm);
      x = transposed(x, perm);
      if (random.below(draws++, 4) == 0) model.add("Relu");  // needs the elements in some order
    }
    CHECK(model.answer(input) == x.values);
  }
}

TEST_CASE("onnx moves: nothing is transposed where elements can stay") {
  const SavedModel tokens = OnnxNet({1, 4, 3, 3})
                                .add("Transpose")
                                .set("perm", {0, 2, 3, 1})
                                .add("Relu")
                                .add("Transpose")
                                .set("perm", {0, 3, 1, 2})
                                .add("Relu")
                                .imported();
  CHECK(number_of<Transpose>(tokens) == 0);
  const SavedModel patches = OnnxNet({1, 4, 3, 3})
                                 .reshape({0, 4, 9})
                                 .add("Transpose")
                                 .set("perm", {0, 2, 1})
                                 .add("Relu")
                                 .add("Transpose")
                                 .set("perm", {0, 2, 1})
                                 .reshape({0, 4, 3, 3})
                                 .add("Relu")
                                 .imported();
  CHECK(number_of<Transpose>(patches) == 0);
  const SavedModel shuffle = OnnxNet({1, 6, 3, 3})
                                 .reshape({0, 2, 3, 3, 3})
                                 .add("Transpose")
                                 .set("perm", {0, 2, 1, 3, 4})
                                 .reshape({0, 6, 3, 3})
                                 .add("Relu")
                                 .imported();
  CHECK(number_of<Transpose>(shuffle) == 0);
  CHECK(number_of<Gather>(shuffle) == 1);
  CHECK(shuffle.graph.size() == 4);
  const SavedModel head = OnnxNet({1, 10, 3, 4})
                              .reshape({0, 2, 5, 3, 4})
                              .add("Transpose")
                              .set("perm", {0, 1, 3, 4, 2})
                              .reshape({0, -1, 5})
                              .add("Relu")
                              .imported();
  CHECK(number_of<Transpose>(head) == 1);
  OnnxNet blocks({1, 8, 3, 4});
  const SavedModel depth =
      blocks.add("DepthToSpace").set("blocksize", 2).add("Relu").imported();
  CHECK(number_of<Transpose>(depth) == 1);
}

TEST_CASE("onnx moves: elements along an axis") {
  const OnnxGiven x = numbered({1, 4, 3, 5});
  const auto slice = [&](int64_t axis, int64_t start, int64_t end, int64_t step) {
    OnnxNet model(x.shape);
    model.add("Slice", {model.integers({start}), model.integers({end}), model.integers({axis}),
                        model.integers({step})});
    return model.answer(x);
  };
  CHECK(slice(3, 0, 5, 2) == along(x, 3, {0, 2, 4}).values);
  CHECK(slice(-1, 4, 0, -3) == along(x, 3, {4, 1}).values);
  CHECK(slice(1, -1, std::numeric_limits<int64_t>::min() + 1, -1) ==
        along(x, 1, {3, 2, 1, 0}).values);
  CHECK(slice(2, 1, 99, 1) == along(x, 2, {1, 2}).values);
  const auto gather = [&](int64_t axis, const Numbers& places, const Numbers& shape) {
    OnnxNet model(x.shape);
    model.add("Gather", {model.integers(places, shape)}).set("axis", axis);
    return model.answer(x);
  };
  CHECK(gather(1, {2, 0, -1, 2}, {4}) == along(x, 1, {2, 0, 3, 2}).values);
  CHECK(gather(3, {-2}, {}) == along(x, 3, {3}).values);
  CHECK(gather(2, {2, 1, 0, 0}, {2, 2}) == along(x, 2, {2, 1, 0, 0}).values);
  OnnxNet tiled(x.shape);
  tiled.add("Tile", {tiled.integers({1, 2, 1, 3})});
  CHECK(tiled.answer(x) == along(along(x, 1, {0, 1, 2, 3, 0, 1, 2, 3}), 3,
                                 {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4})
                               .values);
  const OnnxGiven one = numbered({1, 4, 1, 2});
  OnnxNet expanded(one.shape);
  expanded.add("Expand", {expanded.integers({3, 1})});
  CHECK(expanded.answer(one) == along(one, 2, {0, 0, 0}).values);
}

TEST_CASE("onnx moves: borders of every mode, and negative ones") {
  const OnnxGiven x = numbered({1, 2, 3, 4});
  const auto padded = [&](const char* mode, const Numbers& pads, const Numbers& axes) {
    OnnxNet model(x.shape);
    std::vector<std::string> inputs = {model.integers(pads)};
    if (!axes.empty()) inputs.insert(inputs.end(), {"", model.integers(axes)});
    model.add("Pad", inputs).set("mode", mode);
    return model.answer(x);
  };
  CHECK(padded("reflect", {0, 0, 2, 1, 0, 0, 0, 3}, {}) ==
        along(along(x, 2, {2, 1, 0, 1, 2}), 3, {1, 0, 1, 2, 3, 2, 1, 0}).values);
  CHECK(padded("edge", {2, 1}, {3}) == along(x, 3, {0, 0, 0, 1, 2, 3, 3}).values);
  CHECK(padded("wrap", {1, 2}, {-1}) == along(x, 3, {3, 0, 1, 2, 3, 0, 1}).values);
  CHECK(padded("constant", {-1, 0, 0, -1}, {2, 3}) ==
        along(along(x, 2, {1, 2}), 3, {0, 1, 2}).values);
  const OnnxGiven bordered = chosen(x, {1, 2, 3, 4}, [](Numbers at) {
    at[3] += 2;
    return at[3] < 4 ? at : Numbers();
  });
  CHECK(padded("constant", {-2, 2}, {3}) == bordered.values);
}

TEST_CASE("onnx moves: blocks of channels and of positions") {
  const OnnxGiven x = numbered({1, 8, 3, 2});
  const auto shuffled = [&](const char* mode) {
    OnnxNet model(x.shape);
    model.add("DepthToSpace").set("blocksize", 2).set("mode", mode);
    return model.answer(x);
  };
  CHECK(shuffled("DCR") ==
        chosen(x, {1, 2, 6, 4}, [](const Numbers& at) {
          return Numbers{0, (at[2] % 2 * 2 + at[3] % 2) * 2 + at[1], at[2] / 2, at[3] / 2};
        }).values);
  CHECK(shuffled("CRD") ==
        chosen(x, {1, 2, 6, 4}, [](const Numbers& at) {
          return Numbers{0, at[1] * 4 + at[2] % 2 * 2 + at[3] % 2, at[2] / 2, at[3] / 2};
        }).values);
  const OnnxGiven y = numbered({1, 2, 4, 6});
  OnnxNet back(y.shape);
  back.add("SpaceToDepth").set("blocksize", 2);
  CHECK(back.answer(y) ==
        chosen(y, {1, 8, 2, 3}, [](const Numbers& at) {
          return Numbers{0, at[1] % 2, at[2] * 2 + at[1] / 4, at[3] * 2 + at[1] / 2 % 2};
        }).values);
}

TEST_CASE("onnx moves: what cannot be moved is refused by its node") {
  const Numbers image = {1, 2, 4, 4};
  const auto refused = [&](const std::string& text,
                           const std::function<void(OnnxNet&)>& build) {
    OnnxNet model(image);
    build(model);
    CHECK(model.refusal() == "m.onnx: " + text);
  };
  refused("node 'the Slice' (Slice): it leaves no elements of axis 2", [](OnnxNet& m) {
    m.add("Slice", {m.integers({1}), m.integers({3}), m.integers({2}), m.integers({-1})});
  });
  refused("node 'the Slice' (Slice): a step of 0 is not supported", [](OnnxNet& m) {
    m.add("Slice", {m.integers({1}), m.integers({3}), m.integers({2}), m.integers({0})});
  });
  refused("node 'the Slice' (Slice): it leaves no elements of axis 0", [](OnnxNet& m) {
    m.add("Slice", {m.integers({0}), m.integers({1}), m.integers({0})});
  });
  refused("node 'the Gather' (Gather): index 4 is out of range for 4", [](OnnxNet& m) {
    m.add("Gather", {m.integers({0, 4})}).set("axis", 3);
  });
  refused("node 'the Gather' (Gather): axis 0 would split the batch",
          [](OnnxNet& m) { m.add("Gather", {m.integers({0})}); });
  refused(
      "node 'the GatherElements' (GatherElements): the operator is not supported: replace it with operators listed in docs/limits.md",
      [](OnnxNet& m) { m.add("GatherElements", {m.integers({0})}); });
  refused("node 'the Pad' (Pad): mode MODE is not supported", [](OnnxNet& m) {
    m.add("Pad", {m.integers({0, 0, 0, 0, 0, 0, 0, 0})}).set("mode", "MODE");
  });
  refused("node 'the Pad' (Pad): axis 0 cannot be padded by 1 and 0", [](OnnxNet& m) {
    m.add("Pad", {m.integers({1, 0, 0, 0, 0, 0, 0, 0})});
  });
  refused("node 'the Pad' (Pad): pads -2 and -2 leave no elements of axis 3", [](OnnxNet& m) {
    m.add("Pad", {m.integers({0, 0, 0, -2, 0, 0, 0, -2})});
  });
  refused("node 'the Pad' (Pad): expected 8 pads for 4 axes",
          [](OnnxNet& m) { m.add("Pad", {m.integers({1})}); });
  refused(
      "node 'the Tile' (Tile): repeats [2, 1, 1, 1] must have one number for each of 4 axes, and 1 for axis 0",
      [](OnnxNet& m) {
        m.add("Tile", {m.integers({2, 1, 1, 1})});
      });
  refused("node 'the Tile' (Tile): 0 repeats are not supported", [](OnnxNet& m) {
    m.add("Tile", {m.integers({1, 0, 1, 1})});
  });
  refused("node 'the Tile' (Tile): the constants that nodes compute are too large for the file",
          [](OnnxNet& m) {
            m.add("Tile", {m.integers({1, 1, 1, 1 << 24})});
          });
  refused("node 'the Expand' (Expand): [1, 2, 4, 4] cannot be expanded to [1, 4, 4, 4]",
          [](OnnxNet& m) {
            m.add("Expand", {m.integers({1, 4, 4, 4})});
          });
  refused(
      "node 'the Expand' (Expand): [2, 1, 2, 4, 4] has more axes than [1, 2, 4, 4]: they would come before the samples",
      [](OnnxNet& m) {
        m.add("Expand", {m.integers({2, 1, 2, 4, 4})});
      });
  refused("node 'the DepthToSpace' (DepthToSpace): blocks of 2 do not fit [1, 2, 4, 4]",
          [](OnnxNet& m) { m.add("DepthToSpace").set("blocksize", 2); });
  refused("node 'the SpaceToDepth' (SpaceToDepth): a blocksize of 0 is not supported",
          [](OnnxNet& m) { m.add("SpaceToDepth"); });
  refused("node 'the Resize' (Resize): mode cubic is not supported: use nearest or linear",
          [](OnnxNet& m) {
            m.add("Resize", {"", "", m.integers({1, 2, 8, 8})}).set("mode", "cubic");
          });
  refused(
      "node 'the Resize' (Resize): coordinate_transformation_mode tf_crop_and_resize is not supported, attribute antialias is 1, only 0 is supported",
      [](OnnxNet& m) {
        m.add("Resize", {"", "", m.integers({1, 2, 8, 8})})
            .set("coordinate_transformation_mode", "tf_crop_and_resize")
            .set("antialias", 1);
      });
  refused("node 'the Resize' (Resize): axis 1 cannot be resized: only spatial axes are",
          [](OnnxNet& m) {
            m.add("Resize", {"", "", m.integers({1, 4, 8, 8})});
          });
  refused("node 'the Resize' (Resize): 4 elements resized to 0 are not supported",
          [](OnnxNet& m) {
            m.add("Resize", {"", "", m.integers({1, 2, 0, 8})});
          });
  refused("node 'the Resize' (Resize): a scale of 1e-09 is not a ratio of small integers",
          [](OnnxNet& m) {
            m.add("Resize", {"", m.floats({1, 1, 1e-9f, 2})});
          });
}
