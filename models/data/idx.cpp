// SPDX-License-Identifier: Apache-2.0
#include "models/data/idx.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "core/error.h"
#include "core/regular_file.h"

namespace duet {
namespace {
namespace fs = std::filesystem;
constexpr int64_t kMaxBytes = int64_t{1} << 32;  // far above any such file, far below an overflow
constexpr int kDigits = 10;

uint32_t big_endian(const uint8_t* b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

std::string locate(const std::string& folder, const std::string& stem, int rank) {
  std::error_code unreadable;
  if (!fs::is_directory(folder, unreadable))
    throw Error("data folder '{}' is not a directory that can be read", folder);
  std::vector<std::string> tried;
  for (const char* separator : {"-", "."}) {
    tried.push_back(fmt::format("{}{}idx{}-ubyte", stem, separator, rank));
    if (fs::exists(fs::path(folder) / tried.back(), unreadable)) return (fs::path(folder) / tried.back()).string();
  }
  const bool packed = fs::exists(fs::path(folder) / (tried[0] + ".gz"), unreadable);
  throw Error("data folder '{}' has no {}{}", folder, fmt::join(tried, " or "),
              packed ? "; unpack the .gz file first" : "");
}

}  // namespace

IdxFile read_idx(const std::string& path, int rank) {
  RegularFile file(path, kMaxBytes);
  const int64_t size = file.bytes, header = 4 + 4 * rank;
  std::vector<uint8_t> head(static_cast<size_t>(header));
  if (size < header)
    throw Error("{}: {} bytes; the header of an IDX file of rank {} alone has {}", path, size, rank, header);
  file.read(head.data(), header);
  const uint32_t magic = big_endian(head.data()), wanted = 0x0800u | static_cast<uint32_t>(rank);
  if (magic != wanted)
    throw Error("{}: magic number 0x{:08x} is not 0x{:08x} (IDX, unsigned bytes, rank {})", path, magic, wanted, rank);

  IdxFile idx;
  int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    idx.shape.push_back(big_endian(head.data() + 4 + 4 * axis));
    if (__builtin_mul_overflow(elements, idx.shape.back(), &elements) || elements > kMaxBytes) elements = kMaxBytes + 1;
  }
  if (size != header + elements)
    throw Error("{}: {} bytes, but a header of {} bytes and {} elements would be {}", path, size, header,
                fmt::join(idx.shape, " x "), header + elements);
  idx.bytes.resize(static_cast<size_t>(elements));
  file.read(idx.bytes.data(), elements);
  return idx;
}

Dataset read_mnist(const std::string& folder, bool training) {
  const std::string stem = training ? "train" : "t10k";
  const std::string image_path = locate(folder, stem + "-images", 3), label_path = locate(folder, stem + "-labels", 1);
  const IdxFile images = read_idx(image_path, 3), labels = read_idx(label_path, 1);
  if (images.shape[1] != kDigitSide || images.shape[2] != kDigitSide)
    throw Error("{}: images of {} x {}; {} x {} are allowed", image_path, images.shape[1], images.shape[2], kDigitSide,
                kDigitSide);
  if (images.shape[0] != labels.shape[0])
    throw Error("{}: {} labels for {} images", label_path, labels.shape[0], images.shape[0]);
  if (labels.shape[0] == 0) throw Error("{}: 0 samples; at least 1 is needed", image_path);

  Dataset data{.features = kDigitPixels, .classes = kDigits, .x = {}, .token = {}, .label = {}};
  data.x.reserve(images.bytes.size());
  for (const uint8_t v : images.bytes) data.x.push_back(static_cast<float>(v) / 255);
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= kDigits)
      throw Error("{}: label {} of sample {} is not within 0 .. {}", label_path, labels.bytes[i], i, kDigits - 1);
    data.label.push_back(labels.bytes[i]);
  }
  return data;
}

}  // namespace duet
