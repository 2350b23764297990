/* `hash` with elements of `size` bytes more, the same in any byte order. A change of one element
 * changes it. */
uint32_t @_hash(uint32_t hash, const void *elements, int32_t count, int32_t size) {
  const uint8_t *at = (const uint8_t *)elements;
  for (; count > 0; --count, at += size) {
    uint64_t v8 = 0;
    uint32_t v = *at;
    uint16_t v2;
    if (size == 2) {
      memcpy(&v2, at, 2);
      v = v2;
    } else if (size == 4) {
      memcpy(&v, at, 4);
    } else if (size == 8) {
      memcpy(&v8, at, 8);
      v = (uint32_t)v8;
    }
    hash = (hash ^ v) * 16777619u;
    hash ^= hash >> 15;
    if (size == 8) {
      hash = (hash ^ (uint32_t)(v8 >> 32)) * 16777619u;
      hash ^= hash >> 15;
    }
  }
  return hash;
}
