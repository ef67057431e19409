// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for the page's Content-Security-Policy: it names the hashes of the only style and the only
// script that a browser may use.
#pragma once
#include <string>
#include <string_view>

namespace duet::reports {

std::string sha256_base64(std::string_view text);

}  // namespace duet::reports
