// SPDX-License-Identifier: Apache-2.0
// Fetches from textures where kernels run on the host.
#pragma once
#include <cstdint>

#include "simt/host/words.h"

namespace duet::simt {

constexpr int64_t max_texture_elements() { return int64_t{1} << 28; }  // of sm_90

namespace host {
// Stops where the index is behind the texture, for which a GPU gives 0, or before it, where a GPU may read what lies
// before the tensor, and where the launch has written the element: the cache of textures does not see that.
void check_fetch(const void* data, int64_t count, int64_t index, int64_t element_bytes, const void* pc);
}  // namespace host

}  // namespace duet::simt
