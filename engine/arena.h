// Arena: packs buffers with known lifetimes into one block of memory.
#pragma once

#include <cstdint>
#include <vector>

namespace qtape {

struct Lifetime;

/// Assigns offsets such that buffers in use at the same time never overlap, and returns the
/// bytes of the block. Each offset is a multiple of `step`, with at least `guard` bytes after
/// each buffer. If `share` is false, no two buffers overlap at all. Takes the smallest block of
/// several heuristics: best fit in a sweep over time, in both directions; packing by size, for
/// up to 2,000 buffers; and, for up to 100 buffers, a search of other packing orders, unless
/// the block is already minimal.
int64_t assign_arena_offsets(std::vector<Lifetime>& buffers, bool share, int64_t guard,
                             int64_t step = 64);

}  // namespace qtape
