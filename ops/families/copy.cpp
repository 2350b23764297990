#include "qtape/ops/families/copy.h"

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

template <class T>
AddLoop<T> add_loop() {
  return simd::best_for<T, const T*, T*, int64_t>([](const T* x, T* y, int64_t n) {
    using S = Storage<T>;
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = S::store(S::load(y[i]) + S::load(x[i]));
  });
}

template AddLoop<float> add_loop();
template AddLoop<double> add_loop();
template AddLoop<Half> add_loop();
template AddLoop<BHalf> add_loop();

}  // namespace qtape
