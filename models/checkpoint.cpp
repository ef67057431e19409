// SPDX-License-Identifier: Apache-2.0
#include "models/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/atomic_file.h"
#include "core/regular_file.h"

namespace duet {
namespace {
using Json = nlohmann::json;
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kAlign = 8;
constexpr int kMaxDepth = 4;  // of values in a header: a tensor's offsets lie 3 deep
constexpr const char* kMetadata = "__metadata__";
constexpr std::array<std::pair<DType, const char*>, 8> kNames{{{DType::f64, "F64"},
                                                               {DType::f32, "F32"},
                                                               {DType::bf16, "BF16"},
                                                               {DType::f16, "F16"},
                                                               {DType::i32, "I32"},
                                                               {DType::i8, "I8"},
                                                               {DType::u8, "U8"},
                                                               {DType::f8e4m3, "F8_E4M3"}}};

std::string file_name_of(DType dtype) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const auto& n) { return n.first == dtype; })->second;
}

// The bytes of a tensor; negative where the shape is no shape or the product overflows.
int64_t bytes_of(DType dtype, const Shape& shape) {
  int64_t bytes = size_of(dtype);
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  return bytes;
}

struct Place {
  uint64_t begin, end;
  std::string tensor;
};

// Reads one entry of the header. `size`: bytes after the header.
Place parse(const std::string& path, const std::string& name, const Json& json, uint64_t size,
            Checkpoint::Entry& entry) {
  const auto field = [&](const char* key) -> const Json& {
    if (!json.is_object() || !json.contains(key)) throw Error("{}: tensor {} has no {}", path, name, key);
    return json[key];
  };
  const auto numbers = [&](const char* key) {
    const Json& list = field(key);
    const bool good = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& v) {
                        return v.is_number_unsigned() && v.get<uint64_t>() <= INT64_MAX;
                      });
    if (!good) throw Error("{}: tensor {}: {} is {}; a list of whole numbers is allowed", path, name, key, list.dump());
    return list.get<std::vector<int64_t>>();
  };
  const Json& dtype = field("dtype");
  const auto known = std::find_if(kNames.begin(), kNames.end(), [&](const auto& n) { return dtype == n.second; });
  if (known == kNames.end())
    throw Error("{}: tensor {}: dtype {} is not one of F64 F32 BF16 F16 I32 I8 U8", path, name, dtype.dump());
  entry.dtype = known->first;
  entry.shape = numbers("shape");
  const std::vector<int64_t> offsets = numbers("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<uint64_t>(offsets[1]) > size)
    throw Error("{}: tensor {}: data_offsets [{}] do not lie within the {} bytes of values: truncated?", path, name,
                fmt::join(offsets, ", "), size);
  const int64_t bytes = bytes_of(entry.dtype, entry.shape);
  if (offsets[1] - offsets[0] != bytes)
    throw Error("{}: tensor {}: {} [{}] are {} bytes, but its data_offsets hold {}", path, name, name_of(entry.dtype),
                fmt::join(entry.shape, ", "), bytes, offsets[1] - offsets[0]);
  return {static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1]), name};
}

// Throws where tensors overlap or leave holes: the format allows neither.
void require_tiling(const std::string& path, std::vector<Place> places, uint64_t size) {
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t at = 0;
  std::string before;
  for (const Place& p : places) {
    if (p.begin < at) throw Error("{}: tensors {} and {} overlap", path, before, p.tensor);
    if (p.begin > at) throw Error("{}: {} bytes before tensor {} belong to none", path, p.begin - at, p.tensor);
    at = p.end;
    before = p.tensor;
  }
  if (at != size) throw Error("{}: {} bytes at the end belong to no tensor", path, size - at);
}

// Refuses equal keys, which would hide all but the last tensor.
Json parse_header(const std::string& path, const std::string& text) {
  std::vector<std::set<std::string>> seen;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw Error("{}: not a safetensors file: its header nests {} deep", path, depth);
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key && !seen.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  try {
    Json header = Json::parse(text, watch);
    if (!twice.empty()) throw Error("{}: the header has two entries '{}'", path, twice);
    if (!header.is_object()) throw Error("{}: not a safetensors file: its header is not a JSON object", path);
    return header;
  } catch (const Json::exception& e) {
    throw Error("{}: not a safetensors file: its header is not JSON ({})", path, e.what());
  }
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Json header = Json::object();
  if (!checkpoint.metadata.empty()) header[kMetadata] = checkpoint.metadata;
  uint64_t at = 0;
  for (const auto& [name, t] : checkpoint.tensors) {
    if (bytes_of(t.dtype, t.shape) != static_cast<int64_t>(t.bytes.size()))
      throw Error("checkpoint tensor {}: {} bytes for {} [{}]", name, t.bytes.size(), name_of(t.dtype),
                  fmt::join(t.shape, ", "));
    header[name] = {{"dtype", file_name_of(t.dtype)}, {"shape", t.shape}, {"data_offsets", {at, at + t.bytes.size()}}};
    at += t.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlign - 1) / kAlign * kAlign, ' ');
  std::array<unsigned char, 8> size;
  for (size_t i = 0; i < size.size(); ++i) size[i] = static_cast<unsigned char>(text.size() >> 8 * i);

  AtomicFile file(path);
  file.write(size.data(), size.size());
  file.write(text.data(), text.size());
  for (const auto& [name, t] : checkpoint.tensors) file.write(t.bytes.data(), t.bytes.size());
  file.commit();
}

Checkpoint read_checkpoint(const std::string& path) {
  RegularFile file(path);
  const auto all = static_cast<uint64_t>(file.bytes);
  std::array<unsigned char, 8> prefix{};
  if (all < prefix.size()) throw Error("{}: {} bytes; the size of a safetensors header alone has 8", path, all);
  file.read(prefix.data(), prefix.size());
  uint64_t length = 0;
  for (size_t i = 0; i < prefix.size(); ++i) length |= uint64_t{prefix[i]} << 8 * i;
  if (length > kMaxHeader || length > all - prefix.size())
    throw Error("{}: a header of {} bytes in a file of {}: truncated, or not a safetensors file", path, length, all);
  std::string text(length, ' ');
  file.read(text.data(), static_cast<int64_t>(length));
  const uint64_t size = all - prefix.size() - length;

  Checkpoint checkpoint;
  std::vector<Place> places;
  const Json header = parse_header(path, text);
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadata) {
      for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) throw Error("{}: metadata {} is not text", path, key);
        checkpoint.metadata[key] = value;
      }
      continue;
    }
    places.push_back(parse(path, name, json, size, checkpoint.tensors[name]));
  }
  require_tiling(path, places, size);
  for (const Place& p : places) {
    std::vector<unsigned char>& bytes = checkpoint.tensors[p.tensor].bytes;
    bytes.resize(p.end - p.begin);
    file.stream.seekg(static_cast<std::streamoff>(prefix.size() + length + p.begin));
    file.read(bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  return checkpoint;
}

}  // namespace duet
