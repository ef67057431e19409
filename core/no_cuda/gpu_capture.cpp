// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_capture.h"

namespace duet {

void start_gpu_capture() {}
void stop_gpu_capture() {}

}  // namespace duet
