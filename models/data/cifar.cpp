// SPDX-License-Identifier: Apache-2.0
#include "models/data/cifar.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/regular_file.h"

namespace duet {
namespace {
namespace fs = std::filesystem;
constexpr int kClasses = 10;
constexpr int64_t kRecord = 1 + kColours * kImagePixels;
constexpr int64_t kMaxBytes = int64_t{1} << 32;  // far above any such file

std::vector<fs::path> batches(const std::string& folder, bool training) {
  std::error_code unreadable;
  if (!fs::is_directory(folder, unreadable))
    throw Error("data folder '{}' is not a directory that can be read", folder);
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (training ? name.starts_with("data_batch_") && name.ends_with(".bin") : name == "test_batch.bin")
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  if (found.empty())
    throw Error("data folder '{}' has no {}", folder, training ? "data_batch_*.bin" : "test_batch.bin");
  return found;
}

void append(const fs::path& path, Dataset& data) {
  RegularFile file(path.string(), kMaxBytes);
  const int64_t size = file.bytes;
  if (size == 0 || size % kRecord != 0)
    throw Error("{}: {} bytes; one or more records of {} bytes are allowed", path.string(), size, kRecord);
  std::vector<uint8_t> record(static_cast<size_t>(kRecord));
  data.x.reserve(data.x.size() + static_cast<size_t>(size / kRecord * (kRecord - 1)));
  for (int64_t i = 0; i < size / kRecord; ++i) {
    file.read(record.data(), kRecord);
    if (record[0] >= kClasses)
      throw Error("{}: label {} of sample {} is not within 0 .. {}", path.string(), record[0], i, kClasses - 1);
    data.label.push_back(record[0]);
    for (int64_t p = 1; p < kRecord; ++p) data.x.push_back(static_cast<float>(record[static_cast<size_t>(p)]) / 255);
  }
}

}  // namespace

Dataset read_cifar(const std::string& folder, bool training) {
  Dataset data{.features = kRecord - 1, .classes = kClasses, .x = {}, .token = {}, .label = {}};
  data.class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  for (const fs::path& path : batches(folder, training)) append(path, data);
  return data;
}

}  // namespace duet
