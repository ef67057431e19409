// SPDX-License-Identifier: Apache-2.0
// mma.sync: products of small matrices whose elements are spread over the lanes. PTX ISA, "Matrix fragments for
// mma.m16n8k8, .m16n8k16, .m16n8k32": with g = lane / 4 and q = lane % 4, an element's row and column follow from the
// register and its place in it, as the functions below say.
//
// Products are exact and summed in double precision, then added to c and rounded once to f32. A GPU truncates in
// between in ways that NVIDIA does not document; tolerances of our ops allow for f32 sums.
#include <bit>
#include <cstring>
#include <string>

#include "softgpu/forms.h"
#include "softgpu/half.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

// Operands of an mma: 4 registers of d, then kA of a, kB of b and 4 of c.
constexpr int kResults = 4;

// Element types: how many of them a register of 32 bits has, and the value of one.
struct Bf16 {
  using Value = float;
  using Sum = double;
  using Result = float;
  static constexpr int kEach = 2;
  static float value(uint32_t bits, int e) { return f32_of_bf16(static_cast<uint16_t>(bits >> (16 * e))); }
};
struct F16 {
  using Value = float;
  using Sum = double;
  using Result = float;
  static constexpr int kEach = 2;
  static float value(uint32_t bits, int e) { return f32_of_f16(static_cast<uint16_t>(bits >> (16 * e))); }
};
struct E4m3 {
  using Value = float;
  using Sum = double;
  using Result = float;
  static constexpr int kEach = 4;
  static float value(uint32_t bits, int e) { return f32_of_e4m3(static_cast<uint8_t>(bits >> (8 * e))); }
};
struct Tf32 {
  using Value = float;
  using Sum = double;
  using Result = float;
  static constexpr int kEach = 1;
  static float value(uint32_t bits, int) { return std::bit_cast<float>(bits & ~uint32_t{0x1fff}); }
};
template <class T>
struct Int8 {
  using Value = int32_t;
  using Sum = int32_t;
  using Result = int32_t;
  static constexpr int kEach = 4;
  static int32_t value(uint32_t bits, int e) { return static_cast<T>(bits >> (8 * e)); }
};

// d = a b + c, with a (16, kDepth), b (kDepth, 8), c and d (16, 8).
template <class T, int kDepth>
void multiply(Warp& w, const Instruction& i, uint32_t) {
  constexpr int kRows = 16, kColumns = 8, kEach = T::kEach,
                kQuad = 4 * kEach;  // kQuad: elements of four lanes' registers
  constexpr int kB = kDepth / kQuad, kA = 2 * kB;
  const int* places = w.kernel->operands.data() + i.more;
  const int *d = places, *a = d + kResults, *b = a + kA, *c = b + kB;
  typename T::Value left[kRows][kDepth], right[kDepth][kColumns];
  typename T::Result sums[kRows][kColumns];
  for (int l = 0; l < kLanes; ++l) {
    const int g = l / 4, q = l % 4;
    for (int r = 0; r < kA; ++r)  // rows g and g + 8, alternating
      for (int e = 0; e < kEach; ++e)
        left[g + 8 * (r % 2)][q * kEach + e + kQuad * (r / 2)] = T::value(w.at<uint32_t>(a[r])[l], e);
    for (int r = 0; r < kB; ++r)
      for (int e = 0; e < kEach; ++e) right[q * kEach + e + kQuad * r][g] = T::value(w.at<uint32_t>(b[r])[l], e);
    for (int r = 0; r < kResults; ++r) sums[g + 8 * (r / 2)][2 * q + r % 2] = w.at<typename T::Result>(c[r])[l];
  }
  for (int row = 0; row < kRows; ++row) {
    typename T::Sum sum[kColumns] = {};
    for (int k = 0; k < kDepth; ++k)
      for (int column = 0; column < kColumns; ++column)
        sum[column] += static_cast<typename T::Sum>(left[row][k]) * right[k][column];
    for (int column = 0; column < kColumns; ++column)
      sums[row][column] = static_cast<typename T::Result>(sums[row][column] + sum[column]);
  }
  for (int l = 0; l < kLanes; ++l)
    for (int r = 0; r < kResults; ++r)
      w.at<typename T::Result>(d[r])[l] = sums[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2];
}
}  // namespace

void add_matrix(Forms& table) {
  const auto put = [&](const std::string& shape, const std::string& types, Handler handler) {
    table["mma.sync.aligned." + shape + ".row.col." + types] = {
        .shape = Shape::matrix, .handler = handler, .flow = Flow::aligned};
  };
  put("m16n8k16", "f32.bf16.bf16.f32", multiply<Bf16, 16>);
  put("m16n8k8", "f32.bf16.bf16.f32", multiply<Bf16, 8>);
  put("m16n8k16", "f32.f16.f16.f32", multiply<F16, 16>);
  put("m16n8k8", "f32.f16.f16.f32", multiply<F16, 8>);
  put("m16n8k8", "f32.tf32.tf32.f32", multiply<Tf32, 8>);
  put("m16n8k4", "f32.tf32.tf32.f32", multiply<Tf32, 4>);
  put("m16n8k32", "f32.e4m3.e4m3.f32", multiply<E4m3, 32>);
  put("m16n8k32", "s32.s8.s8.s32", multiply<Int8<int8_t>, 32>);
  put("m16n8k16", "s32.s8.s8.s32", multiply<Int8<int8_t>, 16>);
  put("m16n8k32", "s32.u8.u8.s32", multiply<Int8<uint8_t>, 32>);
  put("m16n8k16", "s32.u8.u8.s32", multiply<Int8<uint8_t>, 16>);
}

}  // namespace duet::softgpu
