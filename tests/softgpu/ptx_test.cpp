// SPDX-License-Identifier: Apache-2.0
// What has to stand in the PTX of a kernel, where the software GPU does not show that it is missing: it has no order
// of memory accesses to lose. simt checks that order, but its barrier of the grid is not the device's
// (simt/cooperative.h).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/context.h"
#include "core/fill.h"
#include "core/gpu.h"
#include "core/registry.h"
#include "core/session.h"
#include "softgpu/device.h"

namespace duet {
namespace {

// The module of the kernels that a job launches cooperatively; null where there are none.
const softgpu::Module* cooperative_module(const std::string& op, const std::string& text) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  const Implementation* implementation = find_implementation(op, "cuda.tuned");
  if (!gpu || !implementation) return nullptr;
  const softgpu::Module* module = nullptr;
  auto& plant = softgpu::Device::get().plant;
  plant.launch = [&](const softgpu::Launch& l) {
    if (l.cooperative) module = l.kernel->module;
  };
  const Problem problem = parse_case(op, text);
  Session session(problem, *implementation, *gpu, draw_inputs(problem, FillMode::values, 7));
  gpu->enter([&] { session.run(); });
  gpu->synchronize();
  plant.launch = nullptr;
  return module;
}

// The barriers, fences, atomic additions and volatile loads of an entry, in the order of the text.
std::string order_of(const softgpu::Module& module, const softgpu::EntryText& entry) {
  std::string order;
  for (const softgpu::Statement& s : module.statements(entry)) {
    if (s.kind != softgpu::Statement::Kind::instruction) continue;
    if (s.opcode.starts_with("bar.sync") || s.opcode.starts_with("barrier.sync"))
      order += "barrier ";
    else if (s.opcode.starts_with("membar.gl") || s.opcode.starts_with("fence."))
      order += "fence ";
    else if (s.opcode.starts_with("atom.global.add"))
      order += "arrive ";
    else if (s.opcode.starts_with("ld.volatile.global") && !order.ends_with("look "))
      order += "look ";
  }
  return order;
}

TEST(GridBarrier, HasItsFencesInPtx) {
  const softgpu::Module* module = cooperative_module("gru", "T:2 B:1 I:1 H:129 dtype:f32");
  ASSERT_TRUE(module) << "no cooperative launch";
  int kernels = 0;
  for (const softgpu::EntryText& entry : module->entries()) {
    const std::string name = softgpu::readable_name(entry.name);
    if (!name.starts_with("divided_")) continue;
    ++kernels;
    // The last barrier may stand elsewhere in the text, with a jump to it.
    const std::string order = order_of(*module, entry);
    EXPECT_NE(order.find("barrier fence arrive look fence "), std::string::npos) << name << ": " << order;
  }
  EXPECT_EQ(kernels, 18) << "3 cells, 3 types, forward and backward";
}

// The cache of such loads may keep what memory held before another block wrote it.
TEST(GridBarrier, IsNotFollowedByReadOnlyLoads) {
  const softgpu::Module* module = cooperative_module("gru", "T:2 B:1 I:1 H:129 dtype:f32");
  ASSERT_TRUE(module) << "no cooperative launch";
  for (const softgpu::EntryText& entry : module->entries()) {
    const std::string name = softgpu::readable_name(entry.name);
    if (!name.starts_with("divided_")) continue;
    EXPECT_EQ(entry.body.find("ld.global.nc"), std::string_view::npos) << name;
  }
}

}  // namespace
}  // namespace duet
