// Arena: packs buffers with known lifetimes into one block of memory.
#pragma once

#include <cstdint>
#include <vector>

namespace qtape {

struct Lifetime;

/// Fills in the offsets so that buffers in use at the same time never overlap, each a
/// multiple of `step`, with at least `guard` bytes after it, and returns the bytes of the block. Without
/// `share` no two buffers overlap at all. Sweeps over time with best fit, in both directions,
/// packs up to 2,000 buffers by size besides, tries other orders of up to 100 unless nothing
/// can be smaller, and takes the smallest block.
int64_t assign_arena_offsets(std::vector<Lifetime>& buffers, bool share, int64_t guard,
                             int64_t step = 64);

}  // namespace qtape
