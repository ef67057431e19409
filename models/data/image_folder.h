// SPDX-License-Identifier: Apache-2.0
// A folder with one folder of images for each class, as torchvision's ImageFolder reads it: <folder>/train/<class>/ and
// <folder>/test/<class>/ (or val), or <folder>/<class>/, of which every tenth image is for the test.
#pragma once
#include <string>

#include "models/data/dataset.h"

namespace duet {

bool is_image_folder(const std::string& folder);  // whether it has such folders with images

struct ImageFolder {
  Dataset training, test;  // class_names: the folders', in order
};
// Images become squares of `side` pixels (image_file.h). Threads decode them. Throws Error, naming file or folder, when
// an image cannot be read, a class has no image, there are fewer than two classes, or the test has other classes.
ImageFolder read_image_folder(const std::string& folder, int64_t side);

}  // namespace duet
