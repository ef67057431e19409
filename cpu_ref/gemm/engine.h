// SPDX-License-Identifier: Apache-2.0
// The matrix engine: c = finish(A B) for A (m, k) and B (k, n), with sums in f32. gemm, linear, conv2d, attention and
// the recurrent layers multiply by it (cpu.tuned). A plan makes an Engine for its shape; a run calls each() and
// multiply().
//
// After Goto and van de Geijn: A is cut into strips of a few lines (its rows), at most kernel.rows, and B into strips
// of kernel.columns lines (its columns). A strip is packed so that the micro-kernel reads it contiguously: value p of
// line i goes to to[p * height + i]. Packing is also where other element types become f32, where a transposed matrix is
// transposed back, and where a convolution finds its pixels. An operand that already lies well in memory is read in
// place, because for small and thin products packing would take most of the time. A few columns beside whole vectors
// are multiplied as dot products. bf16 stays bf16, in pairs, where the CPU multiplies it faster than f32.
//
// Files: engine.cpp cuts a product and divides it among threads; engine_pack.cpp packs stored matrices;
// engine_kernel.cpp and engine_avx512bf16.cpp are the micro-kernels; engine_dot.cpp multiplies by a few vectors;
// engine_pairs.cpp decides on bf16.
#pragma once
#include <algorithm>
#include <string>

#include "core/cpu_context.h"
#include "core/dtype.h"
#include "core/plan.h"

namespace duet::engine {

// Where the values of A or B come from. A line is a row of A or a column of B; each has k values.
class Operand {
 public:
  // Packs a strip: to[(p - k0) * height + i] = value p of line line0 + i, for i < lines and k0 <= p < k1; 0 for
  // lines <= i < height.
  virtual void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const = 0;
  // The same with pairs (k, k + 1) of bf16 as elements. `to`, k0 and k1 are counted in pairs; a line has k values in
  // all. An operand whose Storage has no pairs throws Error.
  virtual void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                          float* to) const;

  // If not null, value p of line i is stored[i * line_step + p * k_step], of dtype.
  const void* stored = nullptr;
  DType dtype = DType::f32;
  int64_t line_step = 0, k_step = 0;
  const float* f32() const { return static_cast<const float*>(stored); }

 protected:
  ~Operand() = default;
};

// A stored matrix of f32, bf16 or f16, of which line_step or k_step is 1.
class Matrix final : public Operand {
 public:
  Matrix(const void* data, DType dtype, int64_t line_step, int64_t k_step);
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;
  void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                  float* to) const override;
};

// Where the lines of a result lie if they are pixels: line (image * height + i) * width + j at image * image_step +
// i * row_step + j * column_step.
struct Places {
  int64_t height, width, image_step, row_step, column_step;
  int64_t at(int64_t line) const {
    return line / width / height * image_step + line / width % height * row_step + line % width * column_step;
  }
  // How many lines from this one on, at most max_lines, are neighbours in memory.
  int64_t neighbours(int64_t line, int64_t max_lines) const {
    if (column_step != 1) return 1;
    return std::min(max_lines, row_step == width ? width * height - line % (width * height) : width - line % width);
  }
};

// What is done with the sums: c[row(i) + column(j)] = act(alpha * sum + bias[j]), rounded to dtype; with `bias_of_rows`
// bias[i]. With `accumulate`, alpha * sum is added to what c holds instead, and there is neither bias nor act.
struct Result {
  void* c;
  DType dtype;
  int64_t step;  // row(i) = i * step
  float alpha = 1;
  const void* bias = nullptr;  // of dtype
  bool bias_of_rows = false, relu = false, accumulate = false;
  const Places *rows = nullptr, *columns = nullptr;  // otherwise column(j) = j
};

// How an operand will be stored, as far as the plan knows.
struct Storage {
  DType dtype = DType::f32;
  bool along_k = false;  // k_step is 1; otherwise line_step is
  bool indexed = false;  // Operand::stored will be null
  bool pairs = false;    // of an indexed one: it has pack_pairs
  // Whether the kernel of f32 can read it without packing.
  bool in_place() const { return dtype == DType::f32 && !indexed; }
  bool has_pairs() const { return dtype == DType::bf16 && (!indexed || pairs); }
};
struct Shape {
  int64_t m, n, k;
  DType result = DType::f32;
  Storage a{}, b{};
};

// The largest register tile of this CPU.
struct KernelShape {
  int64_t rows, columns, lanes;  // columns: the width of a strip, which is 2 vectors
};
KernelShape kernel_shape();

// How one product is cut. Chosen once, when a plan is made.
struct Blocking {
  int64_t rows, columns, k;  // of a block: packed by all threads, then multiplied
  int64_t tile_rows;         // of a register tile, at most
  int64_t max_tasks;         // of a block
  bool pack_a;               // otherwise A is read in place
  // strip_by_strip, for few rows: a task takes strips of B one by one, packs each into memory of its own (without
  // pack_b: unless it is a full one, which is read in place) and multiplies it by all of A. tile_by_tile, for a narrow
  // B: B is packed first, and a task takes tiles of A one by one, packs each and multiplies it by all of B. Otherwise
  // both are packed first, and a task takes some rows of A and some strips.
  bool strip_by_strip, tile_by_tile, pack_b;
  bool thin;                               // instead of all this, dot products
  bool pairs;                              // k is counted in pairs of bf16, which stay bf16
  int64_t a_floats, b_floats, sum_floats;  // workspace; sums: where results are not f32 and k takes several blocks
  int64_t floats() const { return a_floats + b_floats + sum_floats; }
};

class Engine {
 public:
  // For `items` independent products of this shape (a batch, images, groups), or items of several such products each,
  // in the workspace of the plan that it is made for.
  Engine(CpuContext& cpu, WorkspaceLayout& workspace, const Shape& shape, int64_t items = 1,
         int64_t products_of_item = 1);

  // Calls product(item, memory) for all items; product calls multiply(..., memory). If there are many items, each one
  // is the work of one thread; if there are few, all threads share each item. args: those of the plan's run, for the
  // workspace.
  template <class Product>
  void each(const Args& args, const Product& product) const {
    float* const all = args.workspace(memory_);
    if (!items_in_parallel_) {
      for (int64_t i = 0; i < items_; ++i) product(i, all);
      return;
    }
    cpu_->parallel_for(items_, 1, [&](int64_t first, int64_t last) {
      float* const memory = all + CpuContext::thread_index() * blocking_.floats();
      for (int64_t i = first; i < last; ++i) product(i, memory);
    });
  }
  bool items_in_parallel() const { return items_in_parallel_; }
  void multiply(const Operand& a, const Operand& b, const Result& c, float* memory) const;

  std::string describe() const;

 private:
  struct Block;
  struct Strip;
  template <class Body>
  void share(int64_t tasks, const Body& body) const;  // on all threads, or on this one if it has the product to itself
  void pack_strip(const Operand& from, int64_t line0, int64_t lines, int64_t height, const Block& block,
                  float* to) const;
  void pack_columns(const Operand& b, const Strip& strip, const Block& block, float* to) const;
  void multiply_thin(const Operand& a, const Operand& b, const Result& c) const;
  void pack(const Operand& a, const Operand& b, const Block& block) const;
  void compute(const Operand& a, const Operand& b, const Result& c, const Block& block) const;

  CpuContext* cpu_;
  Shape shape_;
  int64_t items_;
  KernelShape kernel_;
  bool items_in_parallel_, forks_;
  Blocking blocking_;
  WorkspacePiece<float> memory_;  // of one product, or of one for each thread where threads take items of their own
};

// --- compiled once per instruction set -------------------------------------------------------------------------------

// Packs a strip of lines that may lie anywhere in memory (engine_pack.cpp): to[p * height + i] = line[i][p] for p < kc;
// 0 for i >= lines.
void pack_lines(const void* const* line, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to);
constexpr int64_t kMaxHeight = 64;  // of a strip, on any instruction set
// At most so many vectors make a thin product (run_thin), and so many columns beside whole vectors are multiplied as
// one.
constexpr int64_t kMaxVectors = 4, kFewColumns = kMaxVectors;

// One register tile (engine_kernel.cpp). Its value is the products of this block of k, plus, with `add`, what `sums`
// holds. The value goes to `sums`, or after the last block to c = finish(value).
struct Tile {
  int64_t rows, columns, kc;
  const float* a;
  int64_t a_line, a_k;  // one of them is 1
  const float* b;
  int64_t b_k;      // from one k to the next. The columns of a strip are adjacent, and whole vectors are read
  bool few;         // instead of all this B has at most kFewColumns columns, column j at b + j * kc with adjacent k
  int64_t b_ahead;  // what to prefetch meanwhile: later k of this strip, or the strip beside it
  float* sums;  // of this tile, (rows, columns), rows sums_step apart: in c itself for f32, otherwise in the workspace
  int64_t sums_step;
  bool add, last;       // add: sums hold those of earlier blocks of k
  int64_t row, column;  // of the tile in c
  bool placed;          // in c its rows are not at a constant step, or its columns not adjacent
};
void run_tile(const Tile& tile, const Result& result);
// The second half of run_tile. value: what the tile multiplied to, rows value_step apart.
void store_tile(const Tile& tile, const Result& result, const float* value, int64_t value_step);

// The same for pairs of bf16, where the CPU multiplies them (engine_pairs.cpp). b of the tile is packed pairs; so is a,
// or its a_k is 1 and a row has its pairs side by side.
bool pairs_are_faster();
void run_tile_of_pairs(const Tile& tile, const Result& result);

// c[line, j] = act(alpha * (line of the matrix . vector j) + bias) (engine_dot.cpp). Lines and vectors lie along k; all
// are of dtype.
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
  bool relu, accumulate;
};
void run_thin(const ThinProduct& product, int64_t first, int64_t last);  // lines [first, last)

}  // namespace duet::engine
