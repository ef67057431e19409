// SPDX-License-Identifier: Apache-2.0
// A copy over the link between host and device, or within one of them. x, y: (n), dense; they do not overlap.
//   h2d  x lies in host memory of the kind `memory`, y on the device
//   d2h  the other way round
//   d2d  both lie on the device
// On the CPU both lie in its memory, so that it has one direction and one kind: the defaults.
//   mapped    a kernel copies through the link
//   managed   a kernel, or for d2h the host, copies x, whose pages move over when they are touched. x is restored
//             before each run, so that its pages are where they come from; d2h has the host's own copy in its time.
//   prefetched  the same, but the runtime is asked to move the pages before the copy
#pragma once
#include "ops/study/study.h"

namespace duet {

enum class TransferDirection : uint8_t { h2d, d2h, d2d };
inline std::vector<std::string> names_of(TransferDirection) { return {"h2d", "d2h", "d2d"}; }
enum class TransferMemory : uint8_t { pageable, pinned, mapped, managed, prefetched };
inline std::vector<std::string> names_of(TransferMemory) {
  return {"pageable", "pinned", "mapped", "managed", "prefetched"};
}

struct Transfer {
  using Direction = TransferDirection;
  using Memory = TransferMemory;
  static constexpr const char* name = "study/transfer";
  static constexpr const char* formula = "y[i] = x[i], x and y on different sides of the link";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr Roofs roofs{.gpu = false};  // the link takes the time

  int64_t n = 0;
  Direction direction = Direction::h2d;
  Memory memory = Memory::pageable;
  bool async = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
    field.option("direction", direction, "from host to device, back, or within the device");
    field.option("memory", memory, "kind of the host memory");
    field.option("async", async, "the copy is only enqueued; else the host waits for it");
  }
  std::string invalid() const {
    if (direction == Direction::d2d && memory != Memory::pageable) return "memory: d2d has no host memory";
    if (async && memory > Memory::pinned) return "async: allowed with pageable and pinned memory, which are copied";
    return only_f32(dtype);
  }
  void infer(Shapes s) { n = s[x][0]; }
  bool moves_pages() const { return memory >= Memory::managed; }
  std::vector<TensorSpec> tensors() const {
    TensorSpec from = x.of(dtype, {n});
    if (moves_pages()) from.role = Role::inout;
    return {from, y.of(dtype, {n})};
  }
  HostMemory host_memory(int slot) const {
    if (direction == Direction::d2d) return HostMemory::none;
    const bool up = direction == Direction::h2d, on_host = slot == (up ? x.index : y.index);
    if (moves_pages() && slot == x.index) return up ? HostMemory::managed : HostMemory::managed_on_device;
    if (!on_host) return HostMemory::none;
    return memory == Memory::pinned   ? HostMemory::pinned
           : memory == Memory::mapped ? HostMemory::mapped
                                      : HostMemory::pageable;
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/study/transfer.cpp

  static Cases cases(Scale scale) {
    const Cases test{{"nothing", "n:0"}, {"one element", "n:1"}, {"several pages, the last short", "n:5003"}};
    const Words ways{"memory:pageable",
                     "memory:pageable async:1",
                     "memory:pinned",
                     "memory:pinned async:1",
                     "memory:mapped",
                     "memory:managed",
                     "memory:prefetched",
                     "direction:d2h",
                     "direction:d2h async:1",
                     "direction:d2h memory:pinned",
                     "direction:d2h memory:pinned async:1",
                     "direction:d2h memory:mapped",
                     "direction:d2h memory:managed",
                     "direction:d2h memory:prefetched",
                     "direction:d2d"};
    const Cases sizes{{"16 MiB", "n:4194304"},
                      {"4 KiB: what a copy costs at least", "n:1024"},
                      {"64 KiB", "n:16384"},
                      {"1 MiB", "n:262144"}};
    const Cases large{{"64 MiB: beyond the caches of a CPU", "n:16777216"}};
    const Cases more{{"256 MiB", "n:67108864"}, {"1 GiB", "n:268435456"}};
    if (scale == Scale::test) return across(ways, test);
    return concat({by_scale(scale, {}, sizes, {}), by_scale(scale, {}, large, {}),
                   by_scale(scale, {}, across(ways, sizes), across(ways, concat({large, more})))});
  }
};

}  // namespace duet
