// SPDX-License-Identifier: Apache-2.0
// The matrix engine under gemm, linear and conv2d (cpu.tuned): c = finish(A B) for A (m, k) and B (k, n), sums in f32.
//
// After Goto and van de Geijn: A is cut into strips of some kernel.rows lines (rows of A), B into strips of
// kernel.columns lines (columns of B). A strip is packed so that the micro-kernel walks it contiguously:
// to[p * height + line]. Packing is also where other element types become f32, where transposition vanishes, and where
// a convolution finds its pixels. An operand that already lies well in memory is read in place instead: small and thin
// products would be mostly packing. bf16 stays bf16, in pairs, where the CPU multiplies it faster than f32.
#pragma once
#include <algorithm>
#include <string>

#include "core/cpu_context.h"
#include "core/dtype.h"
#include "core/plan.h"

namespace duet::engine {

// Where the values of A or B come from. Lines are rows of A or columns of B; each has k values.
class Operand {
 public:
  // to[(p - k0) * height + i] = value p of line (line0 + i), for i < lines and k0 <= p < k1; 0 for lines <= i <
  // height.
  virtual void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const = 0;
  // The same with pairs (k, k + 1) of bf16 for elements, `to` and the bounds of k counted in pairs; of k values in
  // all.
  virtual void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                          float* to) const;

  // Not null: value p of line i is stored[i * line_step + p * k_step], of dtype.
  const void* stored = nullptr;
  DType dtype = DType::f32;
  int64_t line_step = 0, k_step = 0;
  const float* f32() const { return static_cast<const float*>(stored); }

 protected:
  ~Operand() = default;
};

// A stored matrix of f32, bf16 or f16; line_step or k_step is 1.
class Matrix final : public Operand {
 public:
  Matrix(const void* data, DType dtype, int64_t line_step, int64_t k_step);
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;
  void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                  float* to) const override;
};

// Lines of a result that are pixels: line (image * height + i) * width + j lies at image * image_step + i * row_step +
// j * column_step.
struct Places {
  int64_t height, width, image_step, row_step, column_step;
  int64_t at(int64_t line) const {
    return line / width / height * image_step + line / width % height * row_step + line % width * column_step;
  }
  // How many lines from this one on, at most `most`, are neighbours in memory.
  int64_t neighbours(int64_t line, int64_t most) const {
    if (column_step != 1) return 1;
    return std::min(most, row_step == width ? width * height - line % (width * height) : width - line % width);
  }
};

// What becomes of the sums: c[row(i) + column(j)] = act(alpha * sum + bias[j]), rounded to dtype.
struct Result {
  void* c;
  DType dtype;
  int64_t step;  // row(i) = i * step
  float alpha = 1;
  const void* bias = nullptr;  // of dtype
  bool relu = false;
  const Places *rows = nullptr, *columns = nullptr;  // otherwise column(j) = j
};

// How an operand will come.
struct Storage {
  DType dtype = DType::f32;
  bool along_k = false;  // k_step is 1; otherwise line_step is
  bool indexed = false;  // Operand::stored will be null
  // Whether the kernel can read it without packing.
  bool in_place() const { return dtype == DType::f32 && !indexed; }
};
struct Shape {
  int64_t m, n, k;
  DType result = DType::f32;
  Storage a{}, b{};
};

// What this CPU's registers hold.
struct KernelShape {
  int64_t rows, columns, lanes;  // the largest register tile; columns is a strip's width: 2 vectors
};
KernelShape kernel_shape();

// How one product is cut up. Chosen once, when a plan is made.
struct Blocking {
  int64_t rows, columns, k;  // of a block: packed by all threads, then multiplied
  int64_t tile_rows;         // most rows of a register tile
  int64_t most_tasks;        // of a block
  bool pack_a;               // or read A in place
  // Few rows: a task takes strips of B one by one, packs the strip into a scratch of its own (unless it can be read
  // in place) and meets it with all of A. Otherwise B is packed ahead, and tasks take rows of A and some strips.
  bool strip_by_strip, pack_b;
  bool thin;                               // none of this: dot products
  bool pairs;                              // k is counted in pairs of bf16, which are packed as they are
  int64_t a_floats, b_floats, sum_floats;  // workspace; sums: of results that are not f32, when k takes several blocks
  int64_t floats() const { return a_floats + b_floats + sum_floats; }
};

class Engine {
 public:
  // For `items` independent products of this shape (a batch, images, groups), in the workspace of the plan that it is
  // made for.
  Engine(CpuContext& cpu, WorkspaceLayout& workspace, const Shape& shape, int64_t items = 1);

  // product(item, lane) for all items; it calls multiply(..., lane). With many items each is one thread's own work,
  // with few all threads share each. args: of the plan's run, for the workspace.
  template <class Product>
  void each(const Args& args, const Product& product) const {
    float* const lanes = args.workspace(lanes_);
    if (!items_in_parallel_) {
      for (int64_t i = 0; i < items_; ++i) product(i, lanes);
      return;
    }
    cpu_->parallel_for(items_, 1, [&](int64_t first, int64_t last) {
      float* const lane = lanes + CpuContext::thread_index() * blocking_.floats();
      for (int64_t i = first; i < last; ++i) product(i, lane);
    });
  }
  void multiply(const Operand& a, const Operand& b, const Result& c, float* lane) const;

  std::string describe() const;

 private:
  struct Block;
  template <class Body>
  void share(int64_t tasks, const Body& body) const;  // among the threads, unless this product is one thread's own
  void pack_strip(const Operand& from, int64_t line0, int64_t lines, int64_t height, const Block& block,
                  float* to) const;
  void multiply_thin(const Operand& a, const Operand& b, const Result& c) const;
  void pack(const Operand& a, const Operand& b, const Block& block) const;
  void compute(const Operand& a, const Operand& b, const Result& c, const Block& block) const;

  CpuContext* cpu_;
  Shape shape_;
  int64_t items_;
  KernelShape kernel_;
  bool items_in_parallel_, forks_;
  Blocking blocking_;
  WorkspacePiece<float> lanes_;  // one, or one for each thread where each takes items of its own
};

// --- compiled once per instruction set: engine_kernel.cpp, engine_pack.cpp, engine_dot.cpp
// ---------------------------

// Packs a strip of lines that lie anywhere in memory: to[p * height + i] = line[i][p] for p < kc; 0 for i >= lines.
void pack_lines(const void* const* line, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to);
constexpr int64_t kMaxHeight = 64;  // of a strip, on any instruction set

// One register tile: value = (what sums holds, if add) + the products of this block of k; then either sums = value
// or, after the last block, c = finish(value).
struct Tile {
  int64_t rows, columns, kc;
  const float* a;
  int64_t a_line, a_k;  // one of them is 1
  const float* b;
  int64_t b_k;      // from one k to the next; the columns of a strip are adjacent. Whole vectors are read
  int64_t b_ahead;  // what to prefetch meanwhile: further down this strip, or the strip beside it
  float* sums;      // of this tile: c itself for f32, otherwise apart, (rows, columns) at sums_step
  int64_t sums_step;
  bool add, last;
  int64_t row, column;  // of the tile in c
  bool placed;          // in c it is no block of adjacent columns at a constant step
};
void run_tile(const Tile& tile, const Result& result);
void store_tile(const Tile& tile, const Result& result, float* value);  // its second half; (rows, kernel.columns)

// Products of pairs of bf16, where the CPU has them (engine_pairs.cpp); a and b of the tile are packed pairs.
bool pairs_pay();
void run_tile_of_pairs(const Tile& tile, const Result& result);

// c[line, j] = act(alpha * (line of the matrix . vector j) + bias). All lie along k; all are of dtype.
struct ThinProduct {
  DType dtype;
  const void *matrix, *thin;
  int64_t matrix_step, thin_step, k;
  int64_t vectors;  // 1 .. kMaxVectors
  void* c;
  int64_t c_line, c_thin;
  const void* bias;
  int64_t bias_line, bias_thin;
  float alpha;
  bool relu;
};
constexpr int64_t kMaxVectors = 4;
void run_thin(const ThinProduct& product, int64_t first, int64_t last);  // lines [first, last)

}  // namespace duet::engine
