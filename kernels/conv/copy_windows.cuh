// SPDX-License-Identifier: Apache-2.0
// Copies of an image's pixels to shared memory, by 16 bytes, for convolutions and their data gradients by wgmma.
#pragma once
#include "kernels/vector.cuh"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {

// Starts the copies of this thread's chunks (Tile::Share) of one step's panel. Line i of the panel is the window
// windows[i]; a chunk is 8 channels under one tap. What lies outside of the image or beyond `depth` becomes 0.
// tap_at(d): the tap at depth d; map.inside(window, tap); source(tap): where the tap's elements begin, from a window's
// origin on.
template <class Tile, class Panel, class T, class Windows, class Map, class TapAt, class Source>
__device__ __forceinline__ void copy_windows(T* panel, const Windows& windows, int64_t step, int64_t depth,
                                             const Map& map, TapAt&& tap_at, Source&& source) {
  using Share = typename Tile::template Share<Panel>;
  const Share share;
#pragma unroll
  for (int j = 0; j < Panel::kChunks; j += Share::kChunkStep) {
    const int chunk = share.chunk + j;
    const int64_t d = step * Tile::kDepth + chunk * 8;
    const bool exists = d < depth;
    const auto tap = tap_at(exists ? d : 0);
    const T* from = source(tap);
#pragma unroll 8
    for (int i = 0; i < Panel::kLines; i += Share::kLineStep) {
      const auto window = windows[share.line + i];
      T* to = panel + Panel::offset(share.line + i, chunk);
      if (exists && map.inside(window, tap))
        cp_async16(to, from + window.origin);
      else
        store_pack(to, Pack<T>{});
    }
  }
}

}  // namespace duet::DUET_DEVICE
