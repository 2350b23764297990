// Arrays for files, and randomly damaged files.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/io/arrays/named_tensors.h"

namespace qtape::test {

/// Returns a tensor whose bytes are all different if there are few of them.
inline Tensor some_tensor(DType dtype, const Shape& shape) {
  Tensor tensor{.type = {dtype, shape}};
  tensor.data.resize(static_cast<size_t>(tensor.type.bytes()));
  for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = std::byte(i * 37 & 0xff);
  return tensor;
}

/// Returns one tensor for each of `dtypes`, with common shapes, a scalar or an empty one.
inline NamedTensors some_tensors(const std::vector<DType>& dtypes) {
  NamedTensors tensors;
  for (const DType dtype : dtypes) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{2, 3}, Shape{4, 0, 5}}) {
      tensors.push_back({to_string(TensorType{dtype, shape}), some_tensor(dtype, shape)});
    }
  }
  return tensors;
}

/// Damages files by changing, inserting, removing and truncating bytes, a few at a time.
class Mutations {
 public:
  explicit Mutations(std::string_view letters) : letters_(letters), random_(1, 0) {}

  std::string of(std::string bytes) {
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      const size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
          break;
        case 2:
          if (below(4) == 0) bytes.resize(at + 1);
          break;
        case 3:
          bytes.insert(at, 1, letters_[below(letters_.size())]);
          break;
        default:
          bytes.erase(at, bytes.size() > 1 ? 1 : 0);
          break;
      }
    }
    return bytes;
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_.below(draws_++, n)); }

  std::string_view letters_;
  Random random_;
  uint64_t draws_ = 0;
};

/// Returns the number of 10,000 mutations of `files` that `parse` refuses; others must be read
/// as tensors of the right size. `letters` are inserted.
template <class Parse>
int refused_mutations(const std::vector<std::string>& files, std::string_view letters,
                      Parse parse) {
  Mutations mutations(letters);
  int refused = 0;
  for (size_t i = 0; i < 10000; ++i) {
    const std::string bytes = mutations.of(files[i % files.size()]);
    try {
      const NamedTensors tensors = parse(bytes);
      for (const auto& each : tensors) {
        REQUIRE(static_cast<int64_t>(each.tensor.data.size()) == each.tensor.type.bytes());
      }
    } catch (const FormatError&) {
      ++refused;
    }
  }
  return refused;
}

}  // namespace qtape::test
