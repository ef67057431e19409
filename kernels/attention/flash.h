// SPDX-License-Identifier: Apache-2.0
// Flash attention (Dao et al., arXiv:2205.14135) on raw pointers: its parameters and its launches by precision. Called
// by attention_tuned.cu; attention_materialised.cu uses the parameters and the row dots. Start reading at flash_f32.cu.
#pragma once
#include <algorithm>

#include "ops/attention/attention_packed.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

struct Flash {
  static constexpr bool kMasked = false, kPacked = false;
  int64_t heads, group, Tq, Tk, D;  // heads: B H, of q; group: heads of q that share one head of k and v
  bool causal;
  float scale;
  explicit Flash(const AttentionShape& p)
      : heads(p.B * p.H),
        group(p.group()),
        Tq(p.Tq),
        Tk(p.Tk),
        D(p.D),
        causal(p.causal),
        scale(static_cast<float>(p.factor())) {}
  // Elements from row to row of a head, and to the first of a head: of q, k, v and their gradients, and of y and dy.
  __device__ int64_t line() const { return D; }
  __device__ int64_t y_line() const { return D; }
  __device__ int64_t q_head(int64_t head) const { return head * Tq * D; }
  __device__ int64_t k_head(int64_t head) const { return head * Tk * D; }
  __device__ int64_t y_head(int64_t head) const { return head * Tq * D; }
  // How many keys the sequence of a head of q has.
  __device__ int64_t keys_of(int64_t) const { return Tk; }
  // The first key that query i sees.
  __device__ int64_t first_key(int64_t) const { return 0; }
  // The queries before which all lie that see one of `count` keys from `first` on. keys: keys_of their head.
  __device__ int64_t last_query(int64_t, int64_t, int64_t) const { return Tq; }
  // Whether key j takes part in the softmax of query i: both exist and the mask allows it.
  __device__ bool sees(int64_t i, int64_t j, int64_t keys) const { return i < Tq && j < keys && !(causal && j > i); }
};

// With a window or lengths: kernels have an instance of their own for it, so that they cost the others nothing.
struct MaskedFlash : Flash {
  static constexpr bool kMasked = true;
  int64_t heads_of_sequence;  // H
  int64_t window;             // query i sees no key before i - window + 1; without a window, a very large number
  const int32_t* lengths;     // of the sequences, (B); null: each has Tk keys
  MaskedFlash(const AttentionShape& p, const int32_t* lengths)
      : Flash(p), heads_of_sequence(p.H), window(p.window > 0 ? p.window : INT64_MAX / 2), lengths(lengths) {}
  __device__ int64_t keys_of(int64_t head) const {
    return lengths == nullptr ? Tk : min(Tk, max(int64_t{1}, int64_t{lengths[head / heads_of_sequence]}));
  }
  __device__ int64_t first_key(int64_t i) const { return max(int64_t{0}, i + 1 - window); }
  __device__ int64_t last_query(int64_t first, int64_t count, int64_t keys) const {
    return first < keys ? min(Tq, first + count - 1 + window) : 0;
  }
  __device__ bool sees(int64_t i, int64_t j, int64_t keys) const {
    return Flash::sees(i, j, keys) && j >= first_key(i);
  }
};

// Heads that lie beside each other in each token (ops/attention/attention_packed.h).
struct PackedFlash : Flash {
  static constexpr bool kPacked = true;
  int heads_of_sequence;  // H
  int64_t width;          // H D
  explicit PackedFlash(const PackedAttentionShape& p)
      : Flash(p.unpacked()), heads_of_sequence(static_cast<int>(p.H)), width(p.H * p.D) {}
  __device__ int64_t line() const { return 3 * width; }
  __device__ int64_t y_line() const { return width; }
  __device__ int64_t q_head(int64_t head) const { return first(head, line()); }
  __device__ int64_t k_head(int64_t head) const { return first(head, line()); }
  __device__ int64_t y_head(int64_t head) const { return first(head, width); }
  // token: elements of one. There are fewer than 2^31 heads, and a division of 64 bits branches.
  __device__ int64_t first(int64_t head, int64_t token) const {
    const int sequence = static_cast<int>(head) / heads_of_sequence;
    return sequence * Tq * token + (head - sequence * heads_of_sequence) * D;
  }
};

// Which tile of which head is a block's work. Either the tiles of a head are neighbours, or each is followed by the
// same tile of other heads, of as many as have what they read again in the L2 cache.
struct Order {
  int64_t tiles, heads, section;  // tiles of a head; heads whose tiles are taken together
  // bytes_of_head: what is read again; 0: the tiles of a head are neighbours.
  Order(int64_t tiles, int64_t heads, int64_t bytes_of_head) : tiles(tiles), heads(heads), section(1) {
    constexpr int64_t kCacheBytes = int64_t{16} << 20;
    if (bytes_of_head > 0) section = std::clamp<int64_t>(kCacheBytes / bytes_of_head, 1, std::max<int64_t>(1, heads));
  }
  // last_first: a head's last tile comes first.
  __device__ void place(int64_t block, bool last_first, int& head, int& tile) const {
    const int64_t first = block / (section * tiles) * section, within = block - first * tiles;
    const int64_t together = min(section, heads - first);
    head = static_cast<int>(first + within % together);
    tile = static_cast<int>(last_first ? tiles - 1 - within / together : within / together);
  }
};

// Of a backward pass with tiles of `keys` keys, whose blocks take turns to add to dq: those that run at the same time
// are of different heads where that is possible, so that they do not wait for each other. Of a head, q, dy and the sums
// of dq, which are f32, are read for each tile of keys.
inline Order backward_order(const Flash& p, int64_t keys, int64_t element_bytes) {
  const int64_t bytes = p.group * p.Tq * p.D * (2 * element_bytes + int64_t{sizeof(float)});
  return {ceil_div(p.Tk, keys), p.heads / p.group, std::max<int64_t>(1, bytes)};
}

// The tiles [first, last] of `keys` keys each that a query of the tile from `query` on sees.
template <class F>
struct Visitors {
  int first, last;
  __device__ Visitors(const F& p, int64_t query, int64_t length, int keys)
      : first(static_cast<int>(p.first_key(query) / keys)),
        last(static_cast<int>((p.causal ? min(length - 1, query) : length - 1) / keys)) {}
};

// Calls f(Flash) or f(MaskedFlash), as the problem needs. lengths: where they stand in t.
template <class F>
void for_mask(const AttentionShape& p, const Args& t, Slot lengths, F&& f) {
  if (p.padded || p.window > 0)
    f(MaskedFlash(p, p.padded ? t[lengths].as<const int32_t>() : nullptr));
  else
    f(Flash(p));
}

inline constexpr float kLog2e = 1.4426950408889634f;

// Queries or keys of a head: the forward pass indexes a head's elements in 32 bits.
inline constexpr int64_t kMaxFlashRows = int64_t{1} << 23;
inline constexpr int64_t kMaxFlashDepth = 128;  // features of a head: limited by shared memory and registers of a tile

// q, dq, y, dy: Tq rows of D for each head; k, v, dk, dv: Tk rows for each of heads / group; they lie as Flash or
// PackedFlash says. lse, delta: (heads, Tq). delta: the sums of dy y over D.
template <class T>
struct FlashTensors {
  const T *q, *k, *v;
  T* y;
  float* lse;
};
template <class T>
struct FlashGradients {
  const T *q, *k, *v, *y, *dy;
  const float* lse;
  float* delta = nullptr;
  T *dq, *dk, *dv;
  float* dq_sums = nullptr;        // where blocks add up dq; flash_f32.cu: dq itself
  int32_t* dq_counters = nullptr;  // how they take turns; all are 0
};

struct FlashDqSpace {
  int64_t sums, counters;  // elements of dq_sums and dq_counters
};
struct FlashDevice {
  int capability;  // chooses the kernel
  cudaStream_t stream;
};
// flash_f32.cu. The shared memory of a block, forward and backward, may exceed that of the device.
int64_t flash_shared_bytes(int64_t D);
int64_t flash_backward_shared_bytes(int64_t D);
FlashDqSpace flash_dq_space_f32(const AttentionShape& p);
template <class F>  // Flash, MaskedFlash, PackedFlash
void enqueue_flash(const F& p, const FlashTensors<float>& t, const FlashDevice& on);
template <class F>
void enqueue_flash_backward(const F& p, const FlashGradients<float>& t, cudaStream_t stream);
// flash_half.cu and flash_half_backward.cu, for __nv_bfloat16 and __half.
template <class F, class T>
void enqueue_flash(const F& p, const FlashTensors<T>& t, const FlashDevice& on);
FlashDqSpace flash_dq_space_half(const AttentionShape& p);
template <class F, class T>  // shared_bytes: those that a block may have
void enqueue_flash_backward(const F& p, const FlashGradients<T>& t, int64_t shared_bytes, cudaStream_t stream);

// attention_tuned.cu. delta[row] = sum_c dy[row,c] y[row,c], of all rows.
template <class F, class T>  // Flash, PackedFlash
void enqueue_row_dots(const F& p, const T* y, const T* dy, float* delta, cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
