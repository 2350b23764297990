#include "qtape/c99/c_test_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/c99/c_functions.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

constexpr std::string_view generator = R"(
/* Makes integers of one input: low to low + span - 1, of which `rest` stands for 0. */
typedef struct {{
  uint32_t state, kind, span;
  int32_t low, rest, width, channels;
  int32_t top, bottom, left, right, value; /* of a rectangle */
}} {0}_generator;

/* 0 to below - 1, and to 65,535 at most. */
static uint32_t {0}_random({0}_generator *g, uint32_t below) {{
  g->state = g->state * 1664525u + 1013904223u;
  return ((g->state >> 16) * (below < 65536u ? below : 65536u)) >> 16;
}}

static void {0}_start({0}_generator *g, uint32_t seed, int32_t height, int32_t width,
{1:{2}}int32_t channels, int32_t low, uint32_t span, int32_t rest) {{
  g->state = seed;
  g->kind = {0}_random(g, 4);
  g->span = span;
  g->low = low;
  g->rest = rest;
  g->width = width;
  g->channels = channels;
  g->top = (int32_t){0}_random(g, (uint32_t)height);
  g->bottom = g->top + (int32_t){0}_random(g, (uint32_t)(height - g->top));
  g->left = (int32_t){0}_random(g, (uint32_t)width);
  g->right = g->left + (int32_t){0}_random(g, (uint32_t)(width - g->left));
  g->value = low + (int32_t){0}_random(g, span);
}}

static int32_t {0}_next({0}_generator *g, int32_t i) {{
  const int32_t any = g->low + (int32_t){0}_random(g, g->span);
  const uint32_t choice = {0}_random(g, 16);
  int32_t row, column;
  if (g->kind == 0) return any;
  if (g->kind == 1) {{
    if (choice < 8) return g->rest;
    return choice < 14 ? g->low + (int32_t)(g->span - 1) : g->low;
  }}
  if (g->kind == 2) return choice == 0 ? any : g->rest;
  row = i / (g->width * g->channels);
  column = i / g->channels % g->width;
  return row >= g->top && row <= g->bottom && column >= g->left && column <= g->right ? g->value
                                                                                      : g->rest;
}}
)";

/// Height, width and channels of a shape, taken from its last axes; all other axes count as
/// rows.
struct Extents {
  int64_t height = 1;
  int64_t width = 1;
  int64_t channels = 1;

  explicit Extents(const Shape& shape) {
    const int rank = shape.rank();
    if (rank > 2) channels = std::max<int64_t>(1, shape[-1]);
    if (rank > 0) width = std::max<int64_t>(1, shape[rank > 2 ? -2 : -1]);
    height = std::max<int64_t>(1, shape.elements() / (width * channels));
  }
};

/// Returns the smallest power of 2 of which `count` steps reach from `low` to `high`.
double step_between(double low, double high, double count) {
  int exponent = 0;
  std::frexp((high - low) / count, &exponent);
  return std::ldexp(1.0, std::clamp(exponent, -120, 100));
}

/// Sets the float range: the range that quantizers of input `id` distinguish, extended by an
/// eighth on either side, in multiples of a power of 2.
void set_floats(const IntegerProgram& program, ProgramNodeId id, CTestInput& made) {
  double low = 0;
  double high = 0;
  for (const IntegerNode& node : program.nodes()) {
    const auto* op = std::get_if<integer::Quantize>(&node.op);
    if (op == nullptr || node.operands[0] != id) continue;
    low = std::min(low, op->grid.scale * (op->grid.low - op->grid.zero_point));
    high = std::max(high, op->grid.scale * (op->grid.high - op->grid.zero_point));
  }
  if (low == high) high = 1;
  const double more = (high - low) / 8;
  made.float_step = step_between(low - more, high + more, 60000);
  made.float_range.low = static_cast<int32_t>(std::floor((low - more) / made.float_step));
  made.float_range.high = static_cast<int32_t>(std::floor((high + more) / made.float_step));
}

}  // namespace

CTestInput c_test_input(const IntegerProgram& program, const CProgram& written,
                        ProgramNodeId id) {
  CTestInput made{.node = id, .shape = program[id].value.type.shape};
  if (program[id].value.type.dtype == DType::S32) {
    constexpr int64_t most = 65535;
    made.indices = true;
    made.code_range.high = static_cast<int32_t>(std::min(largest_index(program, id), most));
    return made;
  }
  set_floats(program, id, made);
  if (!written.takes_codes) return made;
  made.codes = c_codes_of(program, written, id);
  const IntegerValue& v = program[*made.codes].value;
  const auto low = static_cast<int32_t>(v.low);
  const auto high = static_cast<int32_t>(v.high);
  made.code_range = {low, high, std::clamp(v.zero_point, low, high)};
  return made;
}

CTestGenerator::CTestGenerator(uint32_t seed, const Shape& shape, const CTestRange& range)
    : range_(range), width_(1), channels_(1), state_(seed) {
  const Extents extents(shape);
  width_ = extents.width;
  channels_ = extents.channels;
  kind_ = random(4);
  top_ = random(extents.height);
  bottom_ = top_ + random(extents.height - top_);
  left_ = random(extents.width);
  right_ = left_ + random(extents.width - left_);
  value_ = range_.low + random(span());
}

int32_t CTestGenerator::random(int64_t below) {
  state_ = state_ * 1664525u + 1013904223u;
  const auto factor = static_cast<uint32_t>(std::min<int64_t>(below, 65536));
  return static_cast<int32_t>(((state_ >> 16) * factor) >> 16);
}

int32_t CTestGenerator::next(int64_t i) {
  const int32_t any = range_.low + random(span());
  const int32_t choice = random(16);
  if (kind_ == 0) return any;
  if (kind_ == 1) {
    if (choice < 8) return range_.rest;
    return choice < 14 ? range_.high : range_.low;
  }
  if (kind_ == 2) return choice == 0 ? any : range_.rest;
  const int64_t row = i / (width_ * channels_);
  const int64_t column = i / channels_ % width_;
  const bool inside = row >= top_ && row <= bottom_ && column >= left_ && column <= right_;
  return inside ? value_ : range_.rest;
}

uint32_t c_test_seed(int64_t sample, int64_t inputs, int64_t input) {
  return static_cast<uint32_t>(sample * inputs + input) * 2654435761u;
}

std::string c_test_generator(std::string_view name) {
  return fmt::format(generator, fmt::format("{}_test", name), "", name.size() + 24);
}

std::string c_test_arguments(const Shape& shape, const CTestRange& range) {
  const Extents extents(shape);
  return fmt::format("{}, {}, {}, {}, {}u, {}", extents.height, extents.width, extents.channels,
                     range.low, int64_t{range.high} - range.low + 1, range.rest);
}

}  // namespace qtape
