#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "qtape/core/random.h"
#include "qtape/engine/print.h"
#include "qtape/engine/serialize.h"

using namespace qtape;

namespace {

/// Draws attribute values of any type that a field list may hold.
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

template <class F>
void for_each_op(F f) {
  for_each_alternative<Op>([&]<class T>() { f(T{}); });
}

}  // namespace

TEST_CASE("ops: names are unique and every op and attribute is documented") {
  std::set<std::string> names;
  for_each_op([&]<class T>(const T&) {
    const std::string name(T::name);
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(T::doc.size() >= 20);
    std::set<std::string> keys;
    for_each_field<T>([&](const auto& each) {
      CHECK(keys.insert(std::string(each.key)).second);
      CHECK(each.doc.size() >= 4);
    });
  });
}

TEST_CASE("ops: JSON of random attributes gives the op back, and the same text again") {
  for_each_op([&]<class T>(T op) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Draw{seed}(op);
      const std::string text = to_json(Op{op});
      CAPTURE(text);
      const Op back = op_from_json(text);
      CHECK(back == Op{op});
      CHECK(to_json(back) == text);
      CHECK(to_string(back) == to_string(Op{op}));
    }
  });
}

TEST_CASE("ops: missing attributes take their defaults") {
  for_each_op([&]<class T>(const T& op) {
    CHECK(op_from_json("\"" + std::string(T::name) + "\"") == Op{op});
    CHECK(op_from_json("{\"" + std::string(T::name) + "\": {}}") == Op{op});
  });
}
