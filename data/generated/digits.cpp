#include "qtape/data/generated/digits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/error.h"

namespace qtape::data {
namespace {

constexpr int side = 28;
constexpr size_t pixel_count = size_t{side} * side;
constexpr int classes = 10;
constexpr int64_t max_count = 10'000'000;

struct Point {
  double x;
  double y;
};

/// Ranges of the random variation between images of one kind and the clean forms.
struct Style {
  double warp;  ///< relative to the unit square
  double min_ink, max_ink;
  int min_strays, max_strays;
  bool strays_by_pen;  ///< true: with the digit's width and ink, else thinner
  double min_noise, max_noise;
};

constexpr Style plain{0.16, 0.55, 1.0, 0, 1, false, 0.05, 0.2};
constexpr Style hard{0.28, 0.25, 0.7, 2, 5, true, 0.2, 0.5};

/// One movement of the pen through points of the unit square, y downwards.
struct Stroke {
  bool curved;
  std::vector<Point> points;
};

/// One way of writing a digit: strokes C (curve) or L (straight lines), each through points
/// "x,y" in hundredths of the unit square.
struct Form {
  int digit;
  std::string_view strokes;
};

/// Sorted by digit.
constexpr auto forms = std::to_array<Form>({
    {0, "C 50,0 20,12 10,50 20,88 50,100 80,88 90,50 80,12 50,0"},
    {0, "C 65,5 35,10 22,50 35,92 55,100 75,70 75,30 45,0"},
    {1, "L 50,0 50,100"},
    {1, "L 25,25 55,0 55,100"},
    {1, "L 30,20 50,0 50,100 L 20,100 80,100"},
    {2, "C 15,25 30,3 65,3 80,30 50,65 10,100 L 10,100 90,100"},
    {2, "C 15,20 40,0 75,10 75,40 45,80 20,98 15,80 35,78 60,95 95,90"},
    {3, "C 15,12 45,0 80,15 75,40 40,48 C 40,48 80,55 85,82 50,100 10,88"},
    {3, "L 15,0 80,0 40,42 C 40,42 80,50 85,80 50,100 10,90"},
    {4, "L 30,0 15,58 90,58 L 70,10 65,100"},
    {4, "L 70,100 70,0 10,65 95,65"},
    {4, "C 20,5 15,40 35,55 65,50 80,40 L 80,0 70,100"},
    {5, "L 85,0 25,0 20,45 C 20,45 55,38 85,58 80,88 45,100 10,90"},
    {5, "C 90,3 45,3 25,20 40,42 70,55 75,82 45,100 10,92"},
    {6, "C 75,0 40,20 18,60 30,95 65,98 85,75 65,52 35,58 20,75"},
    {6, "C 30,0 22,40 20,80 45,100 75,88 70,62 40,60 22,75"},
    {7, "L 10,0 90,0 40,100"},
    {7, "L 10,5 85,0 40,100 L 30,50 85,48"},
    {7, "C 12,22 15,5 50,8 88,2 60,45 50,100"},
    {8, "C 75,12 45,0 20,20 45,45 80,72 50,100 18,78 45,50 75,30 75,12 50,0"},
    {8,
     "C 50,0 25,12 30,38 50,46 72,36 75,12 50,0 C 50,46 18,60 20,90 50,100 82,90 "
     "82,60 50,46"},
    {9, "C 75,20 50,0 20,15 22,42 50,52 75,35 75,15 L 77,10 70,100"},
    {9, "C 80,20 55,0 25,12 20,38 45,50 75,35 80,15 78,60 60,95 20,92"},
});

std::vector<Stroke> parse_strokes(std::string_view text) {
  std::vector<Stroke> strokes;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int hundredths = 0;
    at = std::from_chars(at, end, hundredths).ptr;
    return hundredths / 100.0;
  };
  while (at != end) {
    if (*at == ' ') {
      ++at;
    } else if (*at == 'C' || *at == 'L') {
      strokes.push_back({*at++ == 'C', {}});
    } else {
      const double x = number();
      ++at;  // the comma
      strokes.back().points.push_back({x, number()});
    }
  }
  return strokes;
}

/// A random number is a hash of (key, number of previous draws): splitmix64 by Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014.
class Random {
 public:
  explicit Random(uint64_t key) : key_(key) {}

  static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t bits() { return mix(key_ + 0x9e3779b97f4a7c15 * count_++); }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Bell-shaped in (-spread, spread), standard deviation spread / 3: a sum of three uniforms.
  double bell(double spread) {
    // One statement per draw: the evaluation order of operands is unspecified, and the sum
    // rounds.
    double sum = uniform();
    sum += uniform();
    sum += uniform();
    return spread * (sum - 1.5) * (2.0 / 3.0);
  }

  /// Uniform in 0..n-1.
  int below(int n) { return static_cast<int>(uniform() * n); }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

/// Smoothly varying displacement over the unit square, random at the corners of a 3x3 grid.
class Warp {
 public:
  Warp(Random& random, double spread) {
    for (Point& corner : corners_) corner = {random.bell(spread), random.bell(spread)};
  }

  Point apply(Point p) const {
    const Cell x = cell(p.x);
    const Cell y = cell(p.y);
    const Point* c = corners_.data() + ptrdiff_t{3} * y.index + x.index;
    const Point top = blend(c[0], c[1], x.weight);
    const Point bottom = blend(c[3], c[4], x.weight);
    const Point shift = blend(top, bottom, y.weight);
    return {p.x + shift.x, p.y + shift.y};
  }

 private:
  struct Cell {
    int index;
    double weight;
  };

  static Cell cell(double v) {
    const double scaled = 2.0 * std::clamp(v, 0.0, 1.0);
    const int index = scaled < 1.0 ? 0 : 1;
    const double t = scaled - index;
    return {index, t * t * (3.0 - 2.0 * t)};
  }

  static Point blend(Point a, Point b, double t) {
    return {a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t};
  }

  std::array<Point, 9> corners_;
};

/// Maps the unit square to pixels by rotation, slant, scale and shift.
class Placement {
 public:
  explicit Placement(Random& random) {
    const double t = random.bell(max_half_turn);  // tan(angle / 2)
    const double cosine = (1.0 - t * t) / (1.0 + t * t);
    const double sine = 2.0 * t / (1.0 + t * t);
    const double width = random.uniform(min_width, max_width);
    const double height = random.uniform(min_height, max_height);
    const double slant = random.bell(max_slant);
    xx_ = cosine * width;
    xy_ = (cosine * slant - sine) * height;
    yx_ = sine * width;
    yy_ = (sine * slant + cosine) * height;
    shift_ = {0.5 * side + random.bell(max_shift), 0.5 * side + random.bell(max_shift)};
  }

  Point apply(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    return {xx_ * x + xy_ * y + shift_.x, yx_ * x + yy_ * y + shift_.y};
  }

 private:
  static constexpr double max_half_turn = 0.20;
  static constexpr double min_width = 10.0;
  static constexpr double max_width = 18.0;
  static constexpr double min_height = 15.0;
  static constexpr double max_height = 21.0;
  static constexpr double max_slant = 0.45;
  static constexpr double max_shift = 3.3;

  double xx_ = 0;
  double xy_ = 0;
  double yx_ = 0;
  double yy_ = 0;
  Point shift_ = {};
};

double distance_to_segment(Point p, Point a, Point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  double t = 0.0;
  if (length2 > 0.0) {
    t = std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0, 1.0);
  }
  const double ex = p.x - (a.x + t * dx);
  const double ey = p.y - (a.y + t * dy);
  return std::sqrt(ex * ex + ey * ey);
}

/// Ink per pixel, 0 to 1; overlapping strokes do not add up.
class Canvas {
 public:
  void draw_segment(Point a, Point b, double radius, double ink) {
    const double reach = radius + 0.5;
    const int left = pixel(std::min(a.x, b.x) - reach);
    const int right = pixel(std::max(a.x, b.x) + reach);
    const int top = pixel(std::min(a.y, b.y) - reach);
    const int bottom = pixel(std::max(a.y, b.y) + reach);
    for (int row = top; row <= bottom; ++row) {
      for (int column = left; column <= right; ++column) {
        const double d = distance_to_segment({column + 0.5, row + 0.5}, a, b);
        double& value = ink_[static_cast<size_t>(int64_t{row} * side + column)];
        value = std::max(value, ink * std::clamp(reach - d, 0.0, 1.0));
      }
    }
  }

  /// Adds noise to every pixel and writes it as 0..255.
  void develop(Random& random, double noise, std::span<uint8_t> pixels) const {
    for (size_t i = 0; i < pixels.size(); ++i) {
      const double value = ink_[i] + random.bell(noise);
      pixels[i] = static_cast<uint8_t>(std::floor(255.0 * std::clamp(value, 0.0, 1.0) + 0.5));
    }
  }

 private:
  static int pixel(double coordinate) {
    return static_cast<int>(std::clamp(coordinate, 0.0, side - 1.0));
  }

  std::array<double, pixel_count> ink_ = {};
};

/// Returns the point of the Catmull-Rom curve between p1 (t = 0) and p2 (t = 1).
Point on_curve(Point p0, Point p1, Point p2, Point p3, double t) {
  const auto along = [t](double a, double b, double c, double d) {
    const double linear = c - a;
    const double square = 2.0 * a - 5.0 * b + 4.0 * c - d;
    const double cube = 3.0 * b - a - 3.0 * c + d;
    return b + 0.5 * t * (linear + t * (square + t * cube));
  };
  return {along(p0.x, p1.x, p2.x, p3.x), along(p0.y, p1.y, p2.y, p3.y)};
}

/// Random variation of one image.
struct Hand {
  Warp warp;
  Placement placement;
  double radius;
  double ink;
};

void draw_stroke(const Stroke& stroke, const Hand& hand, Random& random, Canvas& canvas) {
  constexpr double point_jitter = 0.05;
  constexpr int pieces = 4;
  std::vector<Point> p = stroke.points;
  const int last = static_cast<int>(p.size()) - 1;
  for (Point& point : p) {
    point = {point.x + random.bell(point_jitter), point.y + random.bell(point_jitter)};
  }
  const auto at = [&](int i) { return p[static_cast<size_t>(std::clamp(i, 0, last))]; };
  Point from = hand.placement.apply(hand.warp.apply(at(0)));
  for (int i = 0; i < last; ++i) {
    for (int piece = 1; piece <= pieces; ++piece) {
      const double t = static_cast<double>(piece) / pieces;
      const Point straight = {at(i).x + (at(i + 1).x - at(i).x) * t,
                              at(i).y + (at(i + 1).y - at(i).y) * t};
      const Point next =
          stroke.curved ? on_curve(at(i - 1), at(i), at(i + 1), at(i + 2), t) : straight;
      const Point to = hand.placement.apply(hand.warp.apply(next));
      canvas.draw_segment(from, to, hand.radius, hand.ink);
      from = to;
    }
  }
}

/// Draws a short stroke that belongs to no digit.
void draw_stray(const Style& style, const Hand& hand, Random& random, Canvas& canvas) {
  const Point a = {random.uniform(0.0, side), random.uniform(0.0, side)};
  const Point b = {a.x + random.bell(7.0), a.y + random.bell(7.0)};
  const double radius = random.uniform(0.3, 0.8);
  const double ink = random.uniform(0.3, 0.8);
  canvas.draw_segment(a, b, style.strays_by_pen ? hand.radius : radius,
                      style.strays_by_pen ? hand.ink : ink);
}

const Form& pick_form(int digit, Random& random) {
  const auto first = std::find_if(forms.begin(), forms.end(),
                                  [digit](const Form& form) { return form.digit == digit; });
  const auto end = std::find_if(first, forms.end(),
                                [digit](const Form& form) { return form.digit != digit; });
  return first[random.below(static_cast<int>(end - first))];
}

void draw_digit(int digit, const Style& style, Random& random, std::span<uint8_t> pixels) {
  Canvas canvas;
  const Form& form = pick_form(digit, random);
  const Warp warp(random, style.warp);
  const Placement placement(random);
  const double radius = random.uniform(0.6, 1.8);
  const double ink = random.uniform(style.min_ink, style.max_ink);
  const Hand hand = {warp, placement, radius, ink};
  for (const Stroke& stroke : parse_strokes(form.strokes)) {
    draw_stroke(stroke, hand, random, canvas);
  }
  const int choices = style.max_strays - style.min_strays + 1;
  const int strays = style.max_strays - random.below(choices);
  for (int i = 0; i < strays; ++i) draw_stray(style, hand, random, canvas);
  canvas.develop(random, random.uniform(style.min_noise, style.max_noise), pixels);
}

/// Returns element `index` of a sequence in which every ten elements are a permutation of 0..9.
int balanced_label(uint64_t key, int64_t index) {
  Random random(Random::mix(key ^ static_cast<uint64_t>(index / classes)));
  std::array<int, classes> order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (int i = classes - 1; i > 0; --i) {
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  }
  return order[static_cast<size_t>(index % classes)];
}

Dataset draw_set(uint64_t seed, uint64_t part, int64_t count, const Style& style) {
  const uint64_t label_key = Random::mix(Random::mix(seed) + 2 * part);
  const uint64_t image_key = Random::mix(Random::mix(seed) + 2 * part + 1);
  constexpr size_t features = size_t{side} * side;
  std::vector<uint8_t> pixels(static_cast<size_t>(count) * features);
  std::vector<int32_t> labels(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    Random random(Random::mix(image_key ^ at));
    labels[at] = balanced_label(label_key, i);
    draw_digit(labels[at], style, random, std::span(pixels).subspan(at * features, features));
  }
  Dataset set;
  set.add("x", Tensor::of<uint8_t>({count, side, side}, pixels));
  set.add_target("labels", Tensor::of<int32_t>({count}, labels), classes);
  return set;
}

}  // namespace

Split generate_digits(uint64_t seed, int64_t train_count, int64_t test_count, DigitKind kind) {
  for (const int64_t count : {train_count, test_count}) {
    require<ArgumentError>(count >= 0 && count <= max_count,
                           "generate_digits: expected a count within 0..{}, got {}", max_count,
                           count);
  }
  const Style& style = kind == DigitKind::Hard ? hard : plain;
  return {draw_set(seed, 0, train_count, style), draw_set(seed, 1, test_count, style)};
}

Split example_digits(int64_t train_count, DigitKind kind) {
  const int64_t test_count = kind == DigitKind::Hard ? 4000 : 1000;
  return generate_digits(1, train_count, test_count, kind);
}

}  // namespace qtape::data
