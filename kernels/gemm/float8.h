// SPDX-License-Identifier: Apache-2.0
// Products of f8e4m3 on tensor cores: the first compute capability that has them.
#pragma once

namespace duet {

inline constexpr int kFloat8Capability = 89;  // 8.9

}  // namespace duet
