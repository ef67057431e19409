// SPDX-License-Identifier: Apache-2.0
#include "models/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "core/error.h"
#include "core/machine.h"
#include "models/data/image_file.h"

namespace duet {
namespace {
namespace fs = std::filesystem;

struct Labelled {
  std::string path;
  int32_t label;
};

std::vector<fs::path> entries(const fs::path& folder, bool folders) {
  std::error_code unreadable;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (folders ? entry.is_directory(unreadable)
                : entry.is_regular_file(unreadable) && has_image_suffix(entry.path().string()))
      found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// The folder of a half, "" where there is none.
fs::path half(const fs::path& folder, std::initializer_list<const char*> names) {
  std::error_code unreadable;
  for (const char* name : names)
    if (fs::is_directory(folder / name, unreadable)) return folder / name;
  return {};
}

std::vector<Labelled> list_of(const fs::path& folder, std::vector<std::string>& classes) {
  std::vector<std::string> names;
  std::vector<Labelled> list;
  for (const fs::path& of_class : entries(folder, true)) {
    const std::vector<fs::path> images = entries(of_class, false);
    if (images.empty()) throw Error("data folder '{}' has no image (.png .jpg .jpeg .ppm)", of_class.string());
    for (const fs::path& image : images) list.push_back({image.string(), static_cast<int32_t>(names.size())});
    names.push_back(of_class.filename().string());
  }
  if (names.size() < 2)
    throw Error("data folder '{}' has {} folder(s) of images; 2 or more classes are needed", folder.string(),
                names.size());
  if (!classes.empty() && classes != names)
    throw Error("data folder '{}' has other classes than the training", folder.string());
  classes = std::move(names);
  return list;
}

// All pixels are held as f32. Refused before the first is read, not by a kill when memory is used up.
void require_memory(const std::string& folder, size_t images, int64_t side) {
  const double needed = static_cast<double>(images) * 3 * static_cast<double>(side * side) * sizeof(float);
  const auto available = static_cast<double>(allocatable_bytes(read_machine_state()));
  if (needed > available)
    throw Error("data folder '{}': {} images of {} x {} pixels take {:.3g} GB, and {:.3g} GB of memory are available",
                folder, images, side, side, needed * 1e-9, available * 1e-9);
}

Dataset read(const std::vector<Labelled>& list, const std::vector<std::string>& classes, int64_t side) {
  Dataset data{
      .features = 3 * side * side, .classes = static_cast<int>(classes.size()), .x = {}, .token = {}, .label = {}};
  data.class_names = classes;
  data.x.resize(list.size() * static_cast<size_t>(data.features));
  const auto threads = static_cast<size_t>(std::max(1, usable_threads()));
  std::vector<std::future<void>> readers;
  for (size_t t = 0; t < threads; ++t)
    readers.push_back(std::async(std::launch::async, [&, t] {
      for (size_t i = t; i < list.size(); i += threads) {
        const std::vector<float> pixels = square_of(read_image(list[i].path), side);
        std::copy(pixels.begin(), pixels.end(), data.x.begin() + static_cast<int64_t>(i) * data.features);
      }
    }));
  for (auto& reader : readers) reader.wait();  // before one throws: the others still write
  for (auto& reader : readers) reader.get();
  for (const Labelled& image : list) data.label.push_back(image.label);
  return data;
}

}  // namespace

bool is_image_folder(const std::string& folder) {
  const fs::path train = half(folder, {"train"}), base = train.empty() ? fs::path(folder) : train;
  const std::vector<fs::path> classes = entries(base, true);
  return std::any_of(classes.begin(), classes.end(), [](const fs::path& c) { return !entries(c, false).empty(); });
}

ImageFolder read_image_folder(const std::string& folder, int64_t side) {
  const fs::path train = half(folder, {"train"}), test = half(folder, {"test", "val"});
  std::vector<std::string> classes;
  std::vector<Labelled> training = list_of(train.empty() ? fs::path(folder) : train, classes), tested;
  if (!train.empty() && !test.empty()) {
    tested = list_of(test, classes);
  } else {
    std::vector<Labelled> kept;
    for (size_t i = 0; i < training.size(); ++i) (i % 10 == 9 ? tested : kept).push_back(training[i]);
    if (tested.empty()) throw Error("data folder '{}' has {} images; 10 or more are needed", folder, training.size());
    training = std::move(kept);
  }
  require_memory(folder, training.size() + tested.size(), side);
  return {read(training, classes, side), read(tested, classes, side)};
}

}  // namespace duet
