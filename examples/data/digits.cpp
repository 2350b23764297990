#include "qtape/examples/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "qtape/ops/core/error.h"

namespace qtape::data {
namespace {

constexpr int side = 28;
constexpr int classes = 10;
constexpr int64_t max_count = 10'000'000;

struct Point {
  double x;
  double y;
};

/// One movement of the pen through `count` points of the unit square, y downwards.
struct Stroke {
  bool curved;
  int count;
  std::array<Point, 12> points;
};

/// One way of writing a digit.
struct Form {
  int digit;
  int count;
  std::array<Stroke, 3> strokes;
};

constexpr auto forms = std::to_array<Form>({
    {0,
     1,
     {{{true,
        9,
        {{{.5, .0},
          {.2, .12},
          {.1, .5},
          {.2, .88},
          {.5, 1.},
          {.8, .88},
          {.9, .5},
          {.8, .12},
          {.5, .0}}}}}}},
    {0,
     1,
     {{{true,
        8,
        {{{.65, .05},
          {.35, .1},
          {.22, .5},
          {.35, .92},
          {.55, 1.},
          {.75, .7},
          {.75, .3},
          {.45, .0}}}}}}},
    {1, 1, {{{false, 2, {{{.5, .0}, {.5, 1.}}}}}}},
    {1, 1, {{{false, 3, {{{.25, .25}, {.55, .0}, {.55, 1.}}}}}}},
    {1,
     2,
     {{{false, 3, {{{.3, .2}, {.5, .0}, {.5, 1.}}}}, {false, 2, {{{.2, 1.}, {.8, 1.}}}}}}},
    {2,
     2,
     {{{true, 6, {{{.15, .25}, {.3, .03}, {.65, .03}, {.8, .3}, {.5, .65}, {.1, 1.}}}},
       {false, 2, {{{.1, 1.}, {.9, 1.}}}}}}},
    {2,
     1,
     {{{true,
        10,
        {{{.15, .2},
          {.4, .0},
          {.75, .1},
          {.75, .4},
          {.45, .8},
          {.2, .98},
          {.15, .8},
          {.35, .78},
          {.6, .95},
          {.95, .9}}}}}}},
    {3,
     2,
     {{{true, 5, {{{.15, .12}, {.45, .0}, {.8, .15}, {.75, .4}, {.4, .48}}}},
       {true, 5, {{{.4, .48}, {.8, .55}, {.85, .82}, {.5, 1.}, {.1, .88}}}}}}},
    {3,
     2,
     {{{false, 3, {{{.15, .0}, {.8, .0}, {.4, .42}}}},
       {true, 5, {{{.4, .42}, {.8, .5}, {.85, .8}, {.5, 1.}, {.1, .9}}}}}}},
    {4,
     2,
     {{{false, 3, {{{.3, .0}, {.15, .58}, {.9, .58}}}}, {false, 2, {{{.7, .1}, {.65, 1.}}}}}}},
    {4, 1, {{{false, 4, {{{.7, 1.}, {.7, .0}, {.1, .65}, {.95, .65}}}}}}},
    {4,
     2,
     {{{true, 5, {{{.2, .05}, {.15, .4}, {.35, .55}, {.65, .5}, {.8, .4}}}},
       {false, 2, {{{.8, .0}, {.7, 1.}}}}}}},
    {5,
     2,
     {{{false, 3, {{{.85, .0}, {.25, .0}, {.2, .45}}}},
       {true, 6, {{{.2, .45}, {.55, .38}, {.85, .58}, {.8, .88}, {.45, 1.}, {.1, .9}}}}}}},
    {5,
     1,
     {{{true,
        8,
        {{{.9, .03},
          {.45, .03},
          {.25, .2},
          {.4, .42},
          {.7, .55},
          {.75, .82},
          {.45, 1.},
          {.1, .92}}}}}}},
    {6,
     1,
     {{{true,
        9,
        {{{.75, .0},
          {.4, .2},
          {.18, .6},
          {.3, .95},
          {.65, .98},
          {.85, .75},
          {.65, .52},
          {.35, .58},
          {.2, .75}}}}}}},
    {6,
     1,
     {{{true,
        8,
        {{{.3, .0},
          {.22, .4},
          {.2, .8},
          {.45, 1.},
          {.75, .88},
          {.7, .62},
          {.4, .6},
          {.22, .75}}}}}}},
    {7, 1, {{{false, 3, {{{.1, .0}, {.9, .0}, {.4, 1.}}}}}}},
    {7,
     2,
     {{{false, 3, {{{.1, .05}, {.85, .0}, {.4, 1.}}}}, {false, 2, {{{.3, .5}, {.85, .48}}}}}}},
    {7,
     1,
     {{{true, 6, {{{.12, .22}, {.15, .05}, {.5, .08}, {.88, .02}, {.6, .45}, {.5, 1.}}}}}}},
    {8,
     1,
     {{{true,
        11,
        {{{.75, .12},
          {.45, .0},
          {.2, .2},
          {.45, .45},
          {.8, .72},
          {.5, 1.},
          {.18, .78},
          {.45, .5},
          {.75, .3},
          {.75, .12},
          {.5, .0}}}}}}},
    {8,
     2,
     {{{true,
        7,
        {{{.5, .0}, {.25, .12}, {.3, .38}, {.5, .46}, {.72, .36}, {.75, .12}, {.5, .0}}}},
       {true,
        7,
        {{{.5, .46}, {.18, .6}, {.2, .9}, {.5, 1.}, {.82, .9}, {.82, .6}, {.5, .46}}}}}}},
    {9,
     2,
     {{{true,
        7,
        {{{.75, .2}, {.5, .0}, {.2, .15}, {.22, .42}, {.5, .52}, {.75, .35}, {.75, .15}}}},
       {false, 2, {{{.77, .1}, {.7, 1.}}}}}}},
    {9,
     1,
     {{{true,
        10,
        {{{.8, .2},
          {.55, .0},
          {.25, .12},
          {.2, .38},
          {.45, .5},
          {.75, .35},
          {.8, .15},
          {.78, .6},
          {.6, .95},
          {.2, .92}}}}}}},
});

/// A random number is a hash of (key, how many were drawn before): splitmix64 by Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014.
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
    const double sum = uniform() + uniform() + uniform();
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
    const Point* c = corners_.data() + 3 * y.index + x.index;
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

/// Turn, slant, scale and shift from the unit square to pixels.
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
  static constexpr double max_shift = 3.0;

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
        double& value = ink_[static_cast<size_t>(row * side + column)];
        value = std::max(value, ink * std::clamp(reach - d, 0.0, 1.0));
      }
    }
  }

  /// Adds noise to every pixel and writes it as 0..255.
  void develop(Random& random, double noise, std::span<uint8_t> pixels) const {
    for (size_t i = 0; i < pixels.size(); ++i) {
      const double value = ink_[i] + random.bell(noise);
      pixels[i] = static_cast<uint8_t>(255.0 * std::clamp(value, 0.0, 1.0) + 0.5);
    }
  }

 private:
  static int pixel(double coordinate) {
    return static_cast<int>(std::clamp(coordinate, 0.0, side - 1.0));
  }

  std::array<double, side* side> ink_ = {};
};

/// Point of the Catmull-Rom curve between p1 (t = 0) and p2 (t = 1).
Point on_curve(Point p0, Point p1, Point p2, Point p3, double t) {
  const auto along = [t](double a, double b, double c, double d) {
    const double linear = c - a;
    const double square = 2.0 * a - 5.0 * b + 4.0 * c - d;
    const double cube = 3.0 * b - a - 3.0 * c + d;
    return b + 0.5 * t * (linear + t * (square + t * cube));
  };
  return {along(p0.x, p1.x, p2.x, p3.x), along(p0.y, p1.y, p2.y, p3.y)};
}

/// Random ways in which one image differs from the clean form.
struct Hand {
  Warp warp;
  Placement placement;
  double radius;
  double ink;
};

void draw_stroke(const Stroke& stroke, const Hand& hand, Random& random, Canvas& canvas) {
  constexpr double point_jitter = 0.05;
  constexpr int pieces = 4;
  std::array<Point, 12> p = stroke.points;
  const int last = stroke.count - 1;
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

/// A short stroke that belongs to no digit.
void draw_stray(Random& random, Canvas& canvas) {
  const Point a = {random.uniform(0.0, side), random.uniform(0.0, side)};
  const Point b = {a.x + random.bell(7.0), a.y + random.bell(7.0)};
  canvas.draw_segment(a, b, random.uniform(0.3, 0.8), random.uniform(0.3, 0.8));
}

const Form& pick_form(int digit, Random& random) {
  const auto first = std::find_if(forms.begin(), forms.end(),
                                  [digit](const Form& form) { return form.digit == digit; });
  const auto end = std::find_if(first, forms.end(),
                                [digit](const Form& form) { return form.digit != digit; });
  return first[random.below(static_cast<int>(end - first))];
}

void draw_digit(int digit, Random& random, std::span<uint8_t> pixels) {
  Canvas canvas;
  const Form& form = pick_form(digit, random);
  const Warp warp(random, 0.16);
  const Placement placement(random);
  const double radius = random.uniform(0.5, 1.6);
  const double ink = random.uniform(0.55, 1.0);
  const Hand hand = {warp, placement, radius, ink};
  for (int i = 0; i < form.count; ++i) {
    draw_stroke(form.strokes[static_cast<size_t>(i)], hand, random, canvas);
  }
  for (int strays = random.below(3); strays > 0; --strays) draw_stray(random, canvas);
  canvas.develop(random, random.uniform(0.05, 0.3), pixels);
}

/// Element `index` of a sequence in which every ten are a permutation of 0..9.
int balanced_label(uint64_t key, int64_t index) {
  Random random(Random::mix(key ^ static_cast<uint64_t>(index / classes)));
  std::array<int, classes> order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (int i = classes - 1; i > 0; --i) {
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  }
  return order[static_cast<size_t>(index % classes)];
}

Dataset draw_set(uint64_t seed, uint64_t part, int64_t count) {
  const uint64_t label_key = Random::mix(Random::mix(seed) + 2 * part);
  const uint64_t image_key = Random::mix(Random::mix(seed) + 2 * part + 1);
  Dataset set = {side, side, classes, {}, {}};
  set.pixels.resize(static_cast<size_t>(count * set.features()));
  set.labels.resize(static_cast<size_t>(count));
  const auto features = static_cast<size_t>(set.features());
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    Random random(Random::mix(image_key ^ at));
    set.labels[at] = balanced_label(label_key, i);
    draw_digit(set.labels[at], random, std::span(set.pixels).subspan(at * features, features));
  }
  return set;
}

}  // namespace

Split generate_digits(uint64_t seed, int64_t train_count, int64_t test_count) {
  for (const int64_t count : {train_count, test_count}) {
    require<ArgumentError>(count >= 0 && count <= max_count,
                           "generate_digits: expected a count within 0..{}, got {}", max_count,
                           count);
  }
  return {draw_set(seed, 0, train_count), draw_set(seed, 1, test_count)};
}

}  // namespace qtape::data
