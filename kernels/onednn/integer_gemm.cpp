#include "qtape/kernels/onednn/integer_gemm.h"

#include <algorithm>
#include <array>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/kernels/onednn/onednn.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

using dnnl::memory;

// oneDNN multiplies u8 by s8. It also accepts s8 by s8, but then corrects the accumulators of
// shifted codes in f32, which is wrong beyond 2^24, and on AVX-512 without VNNI computes wrong
// accumulators for n = 1 even for small weights. Therefore s8 codes are shifted here and the
// accumulators corrected in integers, modulo 2^32.
constexpr int32_t code_shift = 128;

/// Number of terms that oneDNN sums; terms after k are 0. On AMX, oneDNN 2.6 and 2.7 crash with
/// an illegal instruction if 125 to 127 terms are multiplied by two primitives with different
/// numbers of rows, one after the other.
constexpr int64_t padded_terms(int64_t k) { return k >= 125 && k <= 127 ? 128 : k; }

using ShiftLoop = void (*)(const int8_t*, uint8_t*, int64_t);
using RestoreLoop = void (*)(int32_t*, const int32_t*, int64_t, int64_t);

ShiftLoop shift_loop() {
  return simd::best<const int8_t*, uint8_t*, int64_t>(
      [](const int8_t* x, uint8_t* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(x[i] ^ -code_shift);
      });
}

/// acc [rows, n] -= excess [n].
RestoreLoop restore_loop() {
  return simd::best<int32_t*, const int32_t*, int64_t, int64_t>(
      [](int32_t* acc, const int32_t* excess, int64_t rows, int64_t n) {
        for (int64_t r = 0; r < rows; ++r) {
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < n; ++c) {
            acc[r * n + c] = static_cast<int32_t>(static_cast<uint32_t>(acc[r * n + c]) -
                                                  static_cast<uint32_t>(excess[c]));
          }
        }
      });
}

/// Computes the excess that shifted codes add to the accumulators of each channel, modulo 2^32.
void load_excess(int64_t n, int64_t k, const int8_t* w, bool rows, std::vector<int32_t>& to) {
  for (int64_t c = 0; c < n; ++c) {
    const int8_t* first = w + (rows ? c * k : c);
    const int64_t step = rows ? 1 : n;
    int64_t sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += first[i * step];
    to[static_cast<size_t>(c)] = static_cast<int32_t>(code_shift * sum);
  }
}

memory::desc matrix(int64_t rows, int64_t columns, memory::data_type type, int64_t row_stride,
                    int64_t column_stride) {
  return {{rows, columns}, type, memory::dims{row_stride, column_stride}};
}

}  // namespace

struct BoundInt8Product::State {
  int64_t rows = 0;
  int64_t n = 0;
  int64_t k = 0;
  int32_t* acc = nullptr;

  // Set if oneDNN cannot read x directly.
  const std::byte* codes = nullptr;
  AlignedBuffer copy;  // u8 [rows, padded_terms(k)]

  // Set if x is s8.
  std::shared_ptr<const std::vector<int32_t>> excess;
  ShiftLoop shift = nullptr;
  RestoreLoop restore = nullptr;

  // Set unless the product is empty.
  dnnl::stream stream;
  dnnl::matmul primitive;
  std::array<memory, 4> memories;
  std::array<dnnl_exec_arg_t, 4> arguments{};

  void set_memories(const memory& x, const memory& w, const memory& accumulators,
                    const memory& scratchpad) {
    memories = {x, w, accumulators, scratchpad};
    arguments = {{{DNNL_ARG_SRC, memories[0].get()},
                  {DNNL_ARG_WEIGHTS, memories[1].get()},
                  {DNNL_ARG_DST, memories[2].get()},
                  {DNNL_ARG_SCRATCHPAD, memories[3].get()}}};
  }

  /// Copies the codes as u8, followed by zeros after each row.
  void copy_codes() const {
    const int64_t padded = padded_terms(k);
    const int64_t lines = padded == k ? 1 : rows;
    const int64_t length = padded == k ? rows * k : k;
    for (int64_t line = 0; line < lines; ++line) {
      const std::byte* from = codes + line * k;
      std::byte* to = copy.data() + line * padded;
      if (shift == nullptr) {
        std::copy_n(from, length, to);
      } else {
        shift(reinterpret_cast<const int8_t*>(from), reinterpret_cast<uint8_t*>(to), length);
      }
    }
  }

  bool run() const {
    if (!primitive) {
      std::fill_n(acc, rows * n, 0);
      return true;
    }
    if (codes != nullptr) copy_codes();
    const bool good = dnnl_primitive_execute(primitive.get(), stream.get(),
                                             static_cast<int>(arguments.size()),
                                             arguments.data()) == dnnl_success;
    if (restore != nullptr) restore(acc, excess->data(), rows, n);
    return good;
  }
};

bool BoundInt8Product::operator()() const { return state_ == nullptr || state_->run(); }

class Int8Product::Impl {
 public:
  Impl(int64_t n, int64_t k, DType x, const int8_t* w, Int8Weights weights)
      : n_(n),
        k_(k),
        padded_(padded_terms(k)),
        signed_(x == DType::S8),
        w_(w),
        kind_(weights),
        engine_(dnnl::engine::kind::cpu, 0) {
    if (signed_) {
      excess_ = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(n));
      shift_ = shift_loop();
      restore_ = restore_loop();
    }
    if (padded_ != k_) weights_ = AlignedBuffer(n * padded_);
    if (kind_ == Int8Weights::Constant) load();
  }

  void load() {
    if (signed_) load_excess(n_, k_, w_, kind_ != Int8Weights::Columns, *excess_);
    if (padded_ == k_) return;
    const int64_t lines = kind_ == Int8Weights::Columns ? 1 : n_;
    const int64_t length = n_ * k_ / std::max<int64_t>(1, lines);
    for (int64_t line = 0; line < lines; ++line) {
      std::copy_n(reinterpret_cast<const std::byte*>(w_) + line * length, length,
                  weights_.data() + line * padded_);
    }
  }

  std::shared_ptr<const BoundInt8Product::State> bind(int64_t rows, const void* x,
                                                      int32_t* acc) {
    auto state = std::make_shared<BoundInt8Product::State>();
    state->rows = rows;
    state->n = n_;
    state->k = k_;
    state->acc = acc;
    if (rows * n_ * k_ == 0) return state;
    auto* source = const_cast<void*>(x);
    if (signed_ || padded_ != k_) {
      state->codes = static_cast<const std::byte*>(x);
      state->copy = AlignedBuffer(rows * padded_);
      source = state->copy.data();
    }
    if (signed_) {
      state->excess = excess_;
      state->shift = shift_;
      state->restore = restore_;
    }
    const Version& version = version_of(rows);
    state->stream = dnnl::stream(engine_);
    state->primitive = version.primitive;
    state->set_memories(memory(version.description.src_desc(), engine_, source),
                        version.weights, memory(version.description.dst_desc(), engine_, acc),
                        memory(version.description.scratchpad_desc(), engine_));
    return state;
  }

 private:
  /// Shared state of all runs with the same number of rows.
  struct Version {
    int64_t rows;
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
    memory weights;
  };

  const Version& version_of(int64_t rows) {
    const auto known = std::ranges::find(versions_, rows, &Version::rows);
    if (known != versions_.end()) return *known;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto description = describe_matmul(
        engine_, matrix(rows, padded_, memory::data_type::u8, padded_, 1), weights_layout(),
        matrix(rows, n_, memory::data_type::s32, n_, 1), attributes);
    versions_.push_back({rows, description, dnnl::matmul(description),
                         packed_weights(description.weights_desc())});
    return versions_.back();
  }

  memory::desc weights_layout() const {
    switch (kind_) {
      case Int8Weights::Rows:
        return matrix(padded_, n_, memory::data_type::s8, 1, padded_);
      case Int8Weights::Columns:
        return matrix(padded_, n_, memory::data_type::s8, n_, 1);
      case Int8Weights::Constant:
        break;
    }
    return {{padded_, n_}, memory::data_type::s8, memory::format_tag::any};
  }

  /// Unpacked weights: [n, padded], or [padded, n] for Columns.
  void* plain_weights() const {
    return padded_ == k_ ? const_cast<void*>(static_cast<const void*>(w_)) : weights_.data();
  }

  memory packed_weights(const memory::desc& layout) const {
    if (kind_ != Int8Weights::Constant) {
      return memory(layout, engine_, plain_weights());
    }
    for (const Version& version : versions_) {
      if (version.weights.get_desc() == layout) return version.weights;
    }
    memory plain(matrix(padded_, n_, memory::data_type::s8, 1, padded_), engine_,
                 plain_weights());
    memory packed(layout, engine_);
    dnnl::stream stream(engine_);
    dnnl::reorder(plain, packed).execute(stream, plain, packed);
    stream.wait();
    return packed;
  }

  int64_t n_;
  int64_t k_;
  int64_t padded_;
  bool signed_;
  const int8_t* w_;
  AlignedBuffer weights_;  // copy of w with zeros after its terms, if padded
  Int8Weights kind_;
  dnnl::engine engine_;
  std::shared_ptr<std::vector<int32_t>> excess_;
  ShiftLoop shift_ = nullptr;
  RestoreLoop restore_ = nullptr;
  std::vector<Version> versions_;
};

Int8Product::Int8Product(int64_t n, int64_t k, DType x, const int8_t* w, Int8Weights weights) {
  require<GraphError>(
      n >= 0 && k >= 0 && (x == DType::U8 || x == DType::S8),
      "an int8 product needs non-negative extents and x in u8 or s8, got n = {}, k = {} and {}",
      n, k, to_string_view(x));
  try {
    impl_ = std::make_unique<Impl>(n, k, x, w, weights);
  } catch (const dnnl::error& error) {
    fail<GraphError>("oneDNN has no engine for int8 products: {}", error.what());
  }
}

Int8Product::~Int8Product() = default;
Int8Product::Int8Product(Int8Product&&) noexcept = default;
Int8Product& Int8Product::operator=(Int8Product&&) noexcept = default;

BoundInt8Product Int8Product::bind(int64_t rows, const void* x, int32_t* acc) {
  require<GraphError>(rows >= 0, "an int8 product needs a non-negative number of rows, got {}",
                      rows);
  const ComputingThread serial;
  try {
    return BoundInt8Product(impl_->bind(rows, x, acc));
  } catch (const dnnl::error& error) {
    fail<GraphError>("oneDNN refuses the int8 product of {} rows: {}", rows, error.what());
  }
}

void Int8Product::load() { impl_->load(); }

}  // namespace qtape::kernels
