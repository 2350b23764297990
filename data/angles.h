// Sine and cosine by their series, because the last bits of a libm differ between machines.
#pragma once

#include <cmath>

namespace qtape::data {

/// sin(2 pi turns), within 1e-13, for |turns| < 2^31.
inline double sine_of_turns(double turns) {
  double r = turns - std::floor(turns + 0.5);
  if (r > 0.25) r = 0.5 - r;
  if (r < -0.25) r = -0.5 - r;
  const double x = r * 6.283185307179586;
  const double square = x * x;
  double term = x;
  double sum = x;
  for (int k = 2; k <= 18; k += 2) {
    term *= -square / static_cast<double>(k * (k + 1));
    sum += term;
  }
  return sum;
}

/// cos(2 pi turns).
inline double cosine_of_turns(double turns) { return sine_of_turns(turns + 0.25); }

}  // namespace qtape::data
