#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "qtape/core/random.h"
#include "qtape/engine/print.h"
#include "qtape/engine/serialize.h"

using namespace qtape;

namespace {

/// Draws attribute values of any type that a field list may contain.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed, 3) {}

  uint64_t below(uint64_t n) { return random_.below(next_++, n); }

  template <class T>
  void operator()(T& value) {
    if constexpr (NamedEnum<T>) {
      value = static_cast<T>(below(enum_names<T>.size()));
    } else if constexpr (is_variant<T>) {
      variant(value);
    } else if constexpr (Described<T>) {
      for_each_field<T>([&](const auto& each) { (*this)(value.*each.member); });
    } else if constexpr (std::is_same_v<T, Shape>) {
      value = Shape{static_cast<int64_t>(below(9)), static_cast<int64_t>(below(9))};
    } else if constexpr (std::is_same_v<T, Tensor>) {
      const std::vector<float> numbers = {number(), number(), number()};
      value = Tensor::of<float>({3}, numbers);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = below(2) == 1;
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = fmt::format("text {}\"\\/\n", below(1000));
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(number()) / 3;
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(below(1000)) - 500;
    } else if constexpr (requires { value.reset(); }) {
      if (below(2) == 0) return value.reset();
      (*this)(value.emplace());
    } else {
      value.resize(below(4));
      for (auto& each : value) (*this)(each);
    }
  }

 private:
  template <class T>
  void variant(T& value) {
    const uint64_t chosen = below(alternatives<T>());
    uint64_t index = 0;
    for_each_alternative<T>([&]<class Alternative>() {
      if (index++ != chosen) return;
      Alternative alternative;
      (*this)(alternative);
      value = alternative;
    });
  }

  float number() { return static_cast<float>(below(2000)) / 7.0f - 100.0f; }

  Random random_;
  uint64_t next_ = 0;
};

/// Documentation of an op and its attributes.
struct Description {
  std::string name;
  const OpDocs* docs;
  std::vector<std::pair<std::string_view, std::string_view>> attributes;
  Op op;  ///< with default attributes
};

std::vector<Description> descriptions() {
  std::vector<Description> all;
  for_each_alternative<Op>([&]<class T>() {
    all.push_back({std::string(T::name), &T::docs, {}, T{}});
    for_each_field<T>(
        [&](const auto& each) { all.back().attributes.emplace_back(each.key, each.doc); });
  });
  return all;
}

/// Returns every op with random attributes.
std::vector<Op> drawn_ops(uint64_t seed) {
  std::vector<Op> all;
  for_each_alternative<Op>([&]<class T>() {
    T op;
    Draw{seed}(op);
    all.emplace_back(std::move(op));
  });
  return all;
}

}  // namespace

// An op that omits a part of its documentation does not compile.
static_assert(!std::default_initializable<Facts>);

TEST_CASE("ops: names are unique and every op and attribute is documented in short") {
  std::set<std::string> names;
  for (const Description& each : descriptions()) {
    CAPTURE(each.name);
    CHECK(names.insert(each.name).second);
    for_each_field<OpDocs>([&](const auto& part) {
      for (std::string_view fact : (each.docs->*part.member)) {
        CAPTURE(fact);
        CHECK(fact.ends_with('.'));
        CHECK(fact.size() <= 200);
      }
    });
    std::set<std::string_view> keys;
    for (const auto& attribute : each.attributes) {
      CHECK(keys.insert(attribute.first).second);
      CHECK(attribute.second.size() >= 4);
    }
  }
}

TEST_CASE("ops: JSON of random attributes gives the op back, and the same text again") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const Op& op : drawn_ops(seed)) {
      const std::string text = to_json(op);
      CAPTURE(text);
      const Op back = op_from_json(text);
      CHECK(back == op);
      CHECK(to_json(back) == text);
      CHECK(to_string(back) == to_string(op));
    }
  }
}

TEST_CASE("ops: missing attributes take their defaults") {
  for (const Description& each : descriptions()) {
    CHECK(op_from_json("\"" + each.name + "\"") == each.op);
    CHECK(op_from_json("{\"" + each.name + "\": {}}") == each.op);
  }
}

TEST_CASE("ops: the slots of quantizers and of ops on codes are those of their operands") {
  for_each_alternative<Op>([&]<class T>() {
    T op{};
    if constexpr (requires { op.operands(); }) {
      for (uint64_t seed = 0; seed < 50; ++seed) {
        Draw{seed}(op);
        const std::vector<Slot> slots = op.slots();
        const std::vector<QuantizerOperand> operands = op.operands();
        REQUIRE(slots.size() == operands.size() + 1);
        for (size_t i = 0; i < operands.size(); ++i) {
          CHECK(slots[i + 1].name == operands[i].name);
          CHECK(slots[i + 1].differentiable == operands[i].trained);
          CHECK((slots[i + 1].access == Access::ReadWrite) == operands[i].written);
        }
      }
    }
  });
}
