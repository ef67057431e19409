// SPDX-License-Identifier: Apache-2.0
// duet doctor: what was found, what is missing and how to add it, what would make measurements on this machine
// untrustworthy, and what is broken. Called by main.cpp.
#pragma once
namespace duet {

struct DoctorOptions {
  bool json = false;
};
int run_doctor(const DoctorOptions& options);  // 0, or 1 when something is broken

}  // namespace duet
