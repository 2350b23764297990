/* y of sign h + bias by channel, where h = 2^16 d / root of v, d being a code of x less the mean of
 * its set, times n. A set has the channels of one group, at `positions` places. */
static void @self(const @X *restrict x, @Y *restrict y, int32_t outer, int32_t positions,
                  int32_t groups, int32_t width, int32_t zero_point, int32_t centered,
                  int32_t shift, int64_t epsilon, int64_t least, const int8_t *restrict signs,
                  const int32_t *restrict bias, const @TO *restrict to) {
  const int32_t channels = groups * width;
  const int32_t n = positions * width;
  int32_t set, p, i;
  for (set = 0; set < outer * groups; ++set) {
    const int32_t channel = set % groups * width;
    const int32_t first = set / groups * positions * channels + channel;
    int64_t sum = 0, squares = 0, v, root = (int64_t)1 << 31, factor, half, above;
    int32_t down = 45 - shift;
    for (p = 0; p < positions; ++p) {
      for (i = 0; i < width; ++i) {
        const int64_t q = (int32_t)x[first + p * channels + i] - zero_point;
        sum += q;
        squares += q * q;
      }
    }
    sum = centered != 0 ? sum : 0;
    v = (n * squares - sum * sum) * ((int64_t)1 << 2 * shift) + epsilon;
    v = v < least ? least : v;
    for (; v < (int64_t)1 << 60; --down) v *= 4;
    /* Newton's steps from above, which reach the root or its successor. */
    for (i = 0; i < 6; ++i) root = (root + v / root) / 2;
    root -= root * root > v;
    factor = (((int64_t)1 << 61) - 1) / root;
    half = (int64_t)1 << (down - 1);
    above = (int64_t)1 << 62;
    for (p = 0; p < positions; ++p) {
      for (i = 0; i < width; ++i) {
        const int32_t at = first + p * channels + i;
        const int32_t d = n * ((int32_t)x[at] - zero_point) - (int32_t)sum;
        /* Not negative before the shift, so that it rounds down. */
        const uint64_t rounded = (uint64_t)(d * factor + half + above) >> down;
        const int32_t h = (int32_t)((int64_t)rounded - (above >> down));
        y[at] = (@Y)@STORE(signs[channel + i] * h + bias[channel + i], to, channel + i);
      }
    }
  }
}
