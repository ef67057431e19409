// SPDX-License-Identifier: Apache-2.0
// The page's one script: sorts and filters tables of class "sortable". The page is complete without it.
#pragma once

namespace duet::reports {

extern const char* const kPageScript;

}  // namespace duet::reports
