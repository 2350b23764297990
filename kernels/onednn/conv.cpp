#include "qtape/kernels/onednn/conv.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/kernels/onednn/call.h"
#include "qtape/kernels/onednn/conv_faults.h"
#include "qtape/kernels/onednn/filter_packing.h"
#include "qtape/kernels/onednn/onednn.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

using dnnl::memory;

using Pass = ConvPass;

// A piece with fewer multiplications is not worth a separate thread.
constexpr double piece_work = 0x1p20;
constexpr int64_t max_pieces = 64;
// Each piece of a gradient of filters has its own copy of the gradient. Their number is at most
// max_sums and, beyond four copies, their size at most max_sum_elements elements in total.
constexpr int64_t max_sums = 16;
constexpr int64_t max_sum_elements = int64_t{1} << 22;

using Type = memory::data_type;

/// Dtypes of the tensors of a primitive.
struct Types {
  Type x = Type::f32;
  Type w = Type::f32;
  Type y = Type::f32;
};

/// `bf16`: the operands are bf16 and the result is f32.
Types types_of(Pass pass, bool bf16) {
  const auto operand = bf16 ? Type::bf16 : Type::f32;
  return {pass == Pass::Data ? Type::f32 : operand, pass == Pass::Filters ? Type::f32 : operand,
          pass == Pass::Forward ? Type::f32 : operand};
}

int64_t size_of(Type type) { return type == Type::bf16 ? 2 : 4; }

memory::desc images_desc(Type type, int64_t images, int64_t channels, int64_t h, int64_t w) {
  return {{images, channels, h, w}, type, memory::format_tag::nhwc};
}

memory::dims filter_dims(const Conv& c) {
  const int64_t o = c.out_channels / c.groups;
  const int64_t i = c.in_channels / c.groups;
  if (c.groups == 1) return {o, i, c.h.kernel, c.w.kernel};
  return {c.groups, o, i, c.h.kernel, c.w.kernel};
}

/// Memory descriptor of the filters as stored by the caller.
memory::desc stored_filters(const Conv& c) {
  const int64_t o = c.out_channels / c.groups;
  const int64_t i = c.in_channels / c.groups;
  const int64_t last = c.by_input ? o : i;
  const int64_t first = c.h.kernel * c.w.kernel * last;
  memory::dims strides = {c.by_input ? 1 : first, c.by_input ? first : 1, c.w.kernel * last,
                          last};
  if (c.groups > 1) strides.insert(strides.begin(), first * (c.by_input ? i : o));
  return {filter_dims(c), memory::data_type::f32, strides};
}

/// A primitive for a given number of images, with its memory layouts.
struct Primitive {
  dnnl::primitive primitive;
  memory::desc x, y, filters, scratchpad;
  bool reference = false;  ///< True for the slow reference implementation of oneDNN
};

ConvolutionDescription describe(const Conv& c, int64_t images, const Types& types) {
  return {.x = images_desc(types.x, images, c.in_channels, c.h.in, c.w.in),
          .w = memory::desc(filter_dims(c), types.w, memory::format_tag::any),
          .y = images_desc(types.y, images, c.out_channels, c.h.out, c.w.out),
          .strides = {c.h.stride, c.w.stride},
          .dilates = {c.h.dilation - 1, c.w.dilation - 1},
          .begin = {c.h.begin, c.w.begin},
          .end = {c.h.end, c.w.end}};
}

template <class Make, class Descriptor>
Primitive primitive_of(const Descriptor& pd, const ConvolutionDescription& d,
                       const memory::desc& filters) {
  const bool reference = std::string_view(pd.impl_info_str()).starts_with("ref");
  return {Make(pd), d.x, d.y, filters, pd.scratchpad_desc(), reference};
}

Primitive make_primitive(const dnnl::engine& engine, const Conv& c, int64_t images, Pass pass,
                         bool bf16) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Strict regardless of the environment, so that replays give equal bits.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  const auto d = describe(c, images, types_of(pass, bf16));
  const auto faulty = [&](const char* name) { return is_faulty(name, c, pass); };
  if (pass == Pass::Forward) {
    const auto pd = describe_convolution(engine, d, attributes, faulty);
    return primitive_of<dnnl::convolution_forward>(pd, d, pd.weights_desc());
  }
  const Type same = bf16 ? Type::bf16 : Type::f32;
  const auto hint = describe_convolution(engine, describe(c, images, {same, same, same}),
                                         attributes, [](const char*) { return false; });
  if (pass == Pass::Data) {
    const auto pd = describe_convolution_gradient<dnnl::convolution_backward_data>(
        engine, d, hint, attributes, faulty);
    return primitive_of<dnnl::convolution_backward_data>(pd, d, pd.weights_desc());
  }
  const auto pd = describe_convolution_gradient<dnnl::convolution_backward_weights>(
      engine, d, hint, attributes, faulty);
  return primitive_of<dnnl::convolution_backward_weights>(pd, d, pd.diff_weights_desc());
}

int64_t count_pieces(const Conv& c, Pass pass) {
  const double work = static_cast<double>(c.images * c.h.out * c.w.out) *
                      static_cast<double>(c.filter_elements());
  int64_t wanted = 1;
  while (wanted < max_pieces && work / static_cast<double>(2 * wanted) >= piece_work)
    wanted *= 2;
  if (pass == Pass::Filters) {
    const int64_t fitting = std::max<int64_t>(4, max_sum_elements / c.filter_elements());
    wanted = std::min({wanted, max_sums, fitting});
  }
  return std::min(wanted, c.images);
}

/// A range of images and the offsets of its part of the scratch.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  Primitive how;
  int64_t scratchpad = 0;
  int64_t filters = 0;  ///< offset of the filters in the layout of the primitive
};

/// All pieces of a pass, and the layouts into which filters are packed for them.
struct Layout {
  struct Filters {
    memory::desc desc;
    int64_t at;
  };
  std::vector<Piece> pieces;
  std::vector<Filters> packed;
  int64_t sum = 0;  ///< offset of the gradient of filters in the layout of the caller
  int64_t bytes = 0;

  Layout(const dnnl::engine& engine, const Conv& c, Pass pass, bool bf16) {
    const int64_t count = count_pieces(c, pass);
    const memory::desc stored = stored_filters(c);
    for (int64_t i = 0; i < count; ++i) {
      Piece piece{.begin = c.images * i / count, .end = c.images * (i + 1) / count};
      piece.how = make_primitive(engine, c, piece.end - piece.begin, pass, bf16);
      piece.scratchpad = take(piece.how.scratchpad);
      if (pass == Pass::Filters) {
        piece.filters = take(piece.how.filters);
      } else if (piece.how.filters != stored) {
        piece.filters = packed_at(piece.how.filters);
      }
      pieces.push_back(std::move(piece));
    }
    if (pass == Pass::Filters) sum = take(stored);
  }

 private:
  int64_t take(const memory::desc& desc) {
    const int64_t at = bytes;
    bytes += aligned_size(static_cast<int64_t>(desc.get_size()));
    return at;
  }

  int64_t packed_at(const memory::desc& desc) {
    const auto known = std::ranges::find(packed, desc, &Filters::desc);
    if (known != packed.end()) return known->at;
    packed.push_back({desc, take(desc)});
    return packed.back().at;
  }
};

using AddLoop = void (*)(const float*, float*, int64_t);
AddLoop add_loop() {
  return simd::best<const float*, float*, int64_t>([](const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  });
}

// Elements that are summed over all pieces at once.
constexpr int64_t sum_block = 1024;

/// A bound pass: packs filters, runs the pieces and sums their gradients of filters.
class Convolution {
 public:
  Convolution(const Conv& c, Pass pass, bool bf16, const void* x, const void* w, const void* y,
              const ConvRun& run)
      : engine_(dnnl::engine::kind::cpu, 0),
        run_(run),
        pass_(pass),
        types_(types_of(pass, bf16)) {
    const Layout layout(engine_, c, pass, bf16);
    for (const auto& filters : layout.packed) {
      packing_.emplace_back(engine_, stored_filters(c), as_floats(w), filters.desc,
                            run.scratch + filters.at);
    }
    if (run.accumulate && pass != Pass::Filters) {
      const void*& result = pass == Pass::Forward ? y : x;
      const int64_t elements = pass == Pass::Forward ? c.y_elements() : c.x_elements();
      added_ = AlignedBuffer(elements * int64_t{sizeof(float)});
      sums_.push_back({{as_floats(result), as_floats(added_.data())}, elements});
      result = added_.data();
    }
    for (const Piece& piece : layout.pieces) bind(c, piece, x, w, y);
    if (pass == Pass::Filters) bind_sums(c, layout, w);
  }

  void operator()() const {
    for (const FilterPacking& packing : packing_) packing.run(run_.threads);
    const auto count = static_cast<int64_t>(pieces_.size());
    parallel_for(run_.threads, count, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (const Call& call : pieces_[static_cast<size_t>(i)]) call.run();
      }
    });
    for (const Sum& sum : sums_) {
      add_up(sum);
      if (sum.store) sum.store->run();
    }
  }

 private:
  /// Adds all parts to the first in order, then copies the sum by `store`.
  struct Sum {
    std::vector<float*> parts;
    int64_t elements = 0;
    std::optional<Call> store = std::nullopt;
  };

  static float* as_floats(const void* data) {
    return static_cast<float*>(const_cast<void*>(data));
  }
  memory at(const memory::desc& desc, const void* data) const {
    return memory(desc, engine_, const_cast<void*>(data));
  }

  void bind(const Conv& c, const Piece& piece, const void* x, const void* w, const void* y) {
    const Primitive& how = piece.how;
    const auto from = [&](const void* data, int64_t elements, Type type) -> const void* {
      const int64_t skipped = piece.begin * (elements / c.images);
      return static_cast<const std::byte*>(data) + skipped * size_of(type);
    };
    x = from(x, c.x_elements(), types_.x);
    y = from(y, c.y_elements(), types_.y);
    const memory::desc stored = stored_filters(c);
    const bool own_filters = pass_ == Pass::Filters || how.filters != stored;
    const void* filters =
        own_filters ? static_cast<const void*>(run_.scratch + piece.filters) : w;
    const memory of_filters = at(how.filters, filters);
    const memory scratchpad = at(how.scratchpad, run_.scratch + piece.scratchpad);
    std::vector<Call::Argument> arguments;
    arguments.reserve(4);
    const auto add = [&](int name, const memory& each) { arguments.emplace_back(name, each); };
    add(DNNL_ARG_SCRATCHPAD, scratchpad);
    switch (pass_) {
      case Pass::Forward:
        add(DNNL_ARG_SRC, at(how.x, x));
        add(DNNL_ARG_WEIGHTS, of_filters);
        add(DNNL_ARG_DST, at(how.y, y));
        break;
      case Pass::Data:
        add(DNNL_ARG_DIFF_SRC, at(how.x, x));
        add(DNNL_ARG_WEIGHTS, of_filters);
        add(DNNL_ARG_DIFF_DST, at(how.y, y));
        break;
      case Pass::Filters:
        add(DNNL_ARG_SRC, at(how.x, x));
        add(DNNL_ARG_DIFF_WEIGHTS, of_filters);
        add(DNNL_ARG_DIFF_DST, at(how.y, y));
        break;
    }
    std::vector<Call> calls;
    calls.emplace_back(engine_, how.primitive, std::move(arguments));
    pieces_.push_back(std::move(calls));
  }

  /// Sums gradients of filters in the layouts of the primitives, one layout after another. Only
  /// the sums are reordered to the layout of dw.
  void bind_sums(const Conv& c, const Layout& layout, const void* dw) {
    const memory::desc stored = stored_filters(c);
    const void* between = run_.scratch + layout.sum;
    std::vector<memory::desc> known;
    for (const Piece& piece : layout.pieces) {
      const memory::desc& desc = piece.how.filters;
      float* part = as_floats(run_.scratch + piece.filters);
      const auto found = std::ranges::find(known, desc);
      if (found != known.end()) {
        sums_[static_cast<size_t>(2 * (found - known.begin()))].parts.push_back(part);
        continue;
      }
      const bool adds = run_.accumulate || !known.empty();
      known.push_back(desc);
      sums_.push_back({{part},
                       static_cast<int64_t>(desc.get_size() / sizeof(float)),
                       make_reorder(engine_, at(desc, part), at(stored, adds ? between : dw))});
      sums_.push_back({{as_floats(dw)}, c.filter_elements()});
      if (adds) sums_.back().parts.push_back(as_floats(between));
    }
  }

  void add_up(const Sum& sum) const {
    if (sum.parts.size() < 2) return;
    parallel_for(run_.threads, sum.elements, sum_block, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   for (size_t i = 1; i < sum.parts.size(); ++i) {
                     add_(sum.parts[i] + begin, sum.parts[0] + begin, end - begin);
                   }
                 });
  }

  dnnl::engine engine_;
  ConvRun run_;
  Pass pass_;
  Types types_;
  std::vector<FilterPacking> packing_;
  std::vector<std::vector<Call>> pieces_;
  AlignedBuffer added_;    // previous value of y or dx, which is added
  std::vector<Sum> sums_;  // executed after the pieces, in order
  AddLoop add_ = add_loop();
};

[[noreturn]] void fail_refused(const Conv& c, const dnnl::error& error) {
  fail<GraphError>(
      "oneDNN refuses the convolution of [{}, {}, {}, {}] with {} filters of [{}, {}, {}]: {}",
      c.images, c.h.in, c.w.in, c.in_channels, c.out_channels, c.h.kernel, c.w.kernel,
      c.in_channels / c.groups, error.what());
}

std::function<void()> prepare(const Conv& c, Pass pass, bool bf16, const void* x, const void* w,
                              const void* y, const ConvRun& run) {
  if (c.images == 0) {
    if (pass != Pass::Filters || run.accumulate) return [] {};
    return [dw = static_cast<float*>(const_cast<void*>(w)), n = c.filter_elements()] {
      std::fill_n(dw, n, 0.0f);
    };
  }
  const ComputingThread serial;
  try {
    return [convolution = std::make_shared<const Convolution>(c, pass, bf16, x, w, y, run)] {
      (*convolution)();
    };
  } catch (const dnnl::error& error) {
    fail_refused(c, error);
  }
}

/// Calls `body(x, w, y)` with the indices of every product in y, in order.
template <class Body>
void for_each_product(const Conv& c, const Body& body) {
  const int64_t outputs = c.out_channels / c.groups;
  const int64_t inputs = c.in_channels / c.groups;
  const auto filter = [&](int64_t o, int64_t i, int64_t tap) {
    const int64_t taps = c.h.kernel * c.w.kernel;
    if (c.by_input) {
      const int64_t channel = o / outputs * inputs + i;
      return (channel * taps + tap) * outputs + o % outputs;
    }
    return (o * taps + tap) * inputs + i;
  };
  for (int64_t pixel = 0; pixel < c.images * c.h.out * c.w.out; ++pixel) {
    const int64_t image = pixel / (c.h.out * c.w.out);
    const int64_t top = pixel / c.w.out % c.h.out * c.h.stride - c.h.begin;
    const int64_t left = pixel % c.w.out * c.w.stride - c.w.begin;
    for (int64_t o = 0; o < c.out_channels; ++o) {
      for (int64_t tap = 0; tap < c.h.kernel * c.w.kernel; ++tap) {
        const int64_t row = top + tap / c.w.kernel * c.h.dilation;
        const int64_t column = left + tap % c.w.kernel * c.w.dilation;
        if (row < 0 || row >= c.h.in || column < 0 || column >= c.w.in) continue;
        const int64_t first =
            ((image * c.h.in + row) * c.w.in + column) * c.in_channels + o / outputs * inputs;
        for (int64_t i = 0; i < inputs; ++i) {
          body(first + i, filter(o, i, tap), pixel * c.out_channels + o);
        }
      }
    }
  }
}

void clear(const ConvRun& run, double* result, int64_t n) {
  if (!run.accumulate) std::fill_n(result, n, 0.0);
}

}  // namespace

int64_t conv_scratch(const Conv& conv) {
  if (conv.images == 0) return 0;
  const ComputingThread serial;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    int64_t bytes = 0;
    for (Pass pass : {Pass::Forward, Pass::Data, Pass::Filters}) {
      bytes = std::max(bytes, Layout(engine, conv, pass, false).bytes);
    }
    return bytes;
  } catch (const dnnl::error& error) {
    fail_refused(conv, error);
  }
}

bool has_bf16_conv(const Conv& conv, ConvPass pass) {
  if (conv.images == 0 || !onednn_has(dnnl_cpu_isa_avx512_core_bf16)) return false;
  const ComputingThread serial;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return !make_primitive(engine, conv, conv.images, pass, true).reference;
  } catch (const dnnl::error&) {
    return false;
  }
}

int64_t bf16_conv_scratch(const Conv& conv, ConvPass pass) {
  if (!has_bf16_conv(conv, pass)) return 0;
  const ComputingThread serial;
  try {
    return Layout(dnnl::engine(dnnl::engine::kind::cpu, 0), conv, pass, true).bytes;
  } catch (const dnnl::error& error) {
    fail_refused(conv, error);
  }
}

std::function<void()> prepare_conv(const Conv& conv, const float* x, const float* w, float* y,
                                   const ConvRun& run) {
  return prepare(conv, Pass::Forward, false, x, w, y, run);
}
std::function<void()> prepare_conv(const Conv& conv, const BHalf* x, const float* w, float* y,
                                   const ConvRun& run) {
  return prepare(conv, Pass::Forward, true, x, w, y, run);
}

std::function<void()> prepare_conv_data(const Conv& conv, const float* dy, const float* w,
                                        float* dx, const ConvRun& run) {
  return prepare(conv, Pass::Data, false, dx, w, dy, run);
}
std::function<void()> prepare_conv_data(const Conv& conv, const BHalf* dy, const float* w,
                                        float* dx, const ConvRun& run) {
  return prepare(conv, Pass::Data, true, dx, w, dy, run);
}

std::function<void()> prepare_conv_filters(const Conv& conv, const float* x, const float* dy,
                                           float* dw, const ConvRun& run) {
  return prepare(conv, Pass::Filters, false, x, dw, dy, run);
}
std::function<void()> prepare_conv_filters(const Conv& conv, const BHalf* x, const BHalf* dy,
                                           float* dw, const ConvRun& run) {
  return prepare(conv, Pass::Filters, true, x, dw, dy, run);
}

std::function<void()> prepare_conv(const Conv& conv, const double* x, const double* w,
                                   double* y, const ConvRun& run) {
  return [=] {
    clear(run, y, conv.y_elements());
    for_each_product(conv, [&](int64_t i, int64_t f, int64_t o) { y[o] += x[i] * w[f]; });
  };
}

std::function<void()> prepare_conv_data(const Conv& conv, const double* dy, const double* w,
                                        double* dx, const ConvRun& run) {
  return [=] {
    clear(run, dx, conv.x_elements());
    for_each_product(conv, [&](int64_t i, int64_t f, int64_t o) { dx[i] += dy[o] * w[f]; });
  };
}

std::function<void()> prepare_conv_filters(const Conv& conv, const double* x, const double* dy,
                                           double* dw, const ConvRun& run) {
  return [=] {
    clear(run, dw, conv.filter_elements());
    for_each_product(conv, [&](int64_t i, int64_t f, int64_t o) { dw[f] += x[i] * dy[o]; });
  };
}

}  // namespace qtape::kernels
