// SPDX-License-Identifier: Apache-2.0
#include "cli/npy.h"

#include <sys/stat.h>

#include <bit>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace duet {
namespace {

static_assert(std::endian::native == std::endian::little, "files and memory have the same byte order");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 1 << 16;  // NumPy itself refuses more than 10,000
constexpr int64_t kChunk = 1 << 18;          // elements converted at a time
constexpr const char* kTypes = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1";

// The Python literal that a header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 31), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  std::string descr;
  bool fortran_order = false;
  Shape shape;

  void parse() {
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) malformed();
      seen[which] = true;
      if (which == 0) descr = string();
      if (which == 1) fortran_order = boolean();
      if (which == 2) tuple();
      if (!accept(',') && peek() != '}') malformed();
    }
    if (peek() != '\0' || !seen[0] || !seen[1] || !seen[2]) malformed();
  }

 private:
  [[noreturn]] void malformed() const {
    throw Error("{}: malformed .npy header; allowed is {{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }}",
                file_);
  }
  char peek() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (peek() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }
  std::string string() {
    const char quote = peek();
    if (quote == '[') throw Error("{}: structured arrays are not read; allowed types are {}", file_, kTypes);
    if (quote != '\'' && quote != '"') malformed();
    const size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) malformed();
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"})
      if (rest_.substr(0, word.size()) == word) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    malformed();
  }
  void tuple() {
    expect('(');
    while (!accept(')')) {
      peek();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error == std::errc::result_out_of_range)
        throw Error("{}: an extent of its shape does not fit 64 bits", file_);
      if (error != std::errc()) malformed();
      if (extent < 0) throw Error("{}: extent {} of its shape is negative; zero or more is allowed", file_, extent);
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      accept('L');  // Python 2 wrote an L behind long integers
      shape.push_back(extent);
      if (!accept(',') && peek() != ')') malformed();
    }
  }

  std::string_view rest_;
  const std::string& file_;
};

template <class T>
double as_double(const unsigned char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return static_cast<double>(value);
}

double float_at(const unsigned char* p, size_t size) {
  if (size == 2) {
    f16 half;
    std::memcpy(&half, p, sizeof half);
    return static_cast<float>(half);
  }
  return size == 4 ? as_double<float>(p) : as_double<double>(p);
}

// A whole number of any width. An unsigned 64-bit number above INT64_MAX, which no dtype can hold, is clamped to it.
int64_t whole_at(const unsigned char* p, size_t size, bool is_signed) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, size);
  if (!is_signed) return static_cast<int64_t>(std::min<uint64_t>(bits, INT64_MAX));
  const auto unused = static_cast<int>(64 - 8 * size);
  return static_cast<int64_t>(bits << unused) >> unused;
}

struct Range {
  int64_t min, max;
};
Range range_of(DType t) {
  return t == DType::u8   ? Range{0, UINT8_MAX}
         : t == DType::i8 ? Range{INT8_MIN, INT8_MAX}
                          : Range{INT32_MIN, INT32_MAX};
}

}  // namespace

std::string to_text(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

NpyReader::NpyReader(const std::string& path) : path_(path), file_(nullptr, std::fclose) {
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) throw Error("cannot read {}: {}", path, std::strerror(errno));
  struct stat about {};
  if (fstat(fileno(file_.get()), &about) != 0 || !S_ISREG(about.st_mode))
    throw Error("cannot read {}: a regular .npy file is expected", path);

  unsigned char start[12];
  const size_t got = std::fread(start, 1, 10, file_.get());
  if (got < 10 || std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    throw Error("{}: not a .npy file; it must begin with \\x93NUMPY, version and header length", path);
  const int version = start[6];
  if (version < 1 || version > 3) throw Error("{}: .npy version {} is not read; 1, 2 and 3 are", path, version);
  size_t length = start[8] | start[9] << 8;
  size_t begin = 10;
  if (version > 1) {
    if (std::fread(start + 10, 1, 2, file_.get()) != 2) throw Error("{}: truncated .npy header", path);
    length |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
    begin = 12;
  }
  if (length > kMaxHeaderBytes)
    throw Error("{}: .npy header of {} bytes; at most {} are allowed", path, length, kMaxHeaderBytes);
  std::string header(length, '\0');
  if (std::fread(header.data(), 1, length, file_.get()) != length) throw Error("{}: truncated .npy header", path);
  parse_header(header);

  const int64_t size = type_[1] - '0';
  int64_t bytes = size;
  for (const int64_t extent : shape_)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw Error("{}: the product of its shape {} overflows 64 bits", path, to_text(shape_));
  elements_ = bytes / size;
  const int64_t data_bytes = about.st_size - static_cast<int64_t>(begin + length);
  if (data_bytes != bytes)
    throw Error("{}: {} .npy file: shape {} of {} takes {} bytes, and {} follow the header", path,
                data_bytes < bytes ? "truncated" : "malformed", to_text(shape_), type_, bytes, data_bytes);
}

void NpyReader::parse_header(const std::string& header) {
  HeaderParser parser(header, path_);
  parser.parse();
  const std::string& d = parser.descr;
  if (!d.empty() && d[0] == '>')
    throw Error("{}: big-endian '{}' is not read; save it as '<{}'", path_, d, d.substr(1));
  type_ = !d.empty() && (d[0] == '<' || d[0] == '|' || d[0] == '=') ? d.substr(1) : d;
  const std::string_view types = kTypes;
  const bool known = type_.size() == 2 && types.find(type_) != types.npos;
  if (!known) throw Error("{}: type '{}' is not read; allowed are {}", path_, d, kTypes);
  // In one dimension both orders are the same bytes, and NumPy may write either.
  shape_ = parser.shape;
  if (parser.fortran_order && shape_.size() > 1)
    throw Error("{}: column-major (fortran_order) arrays are not read; save numpy.ascontiguousarray(it)", path_);
}

bool NpyReader::convertible(DType to) const { return (type_[0] == 'f') != is_integer(to); }
const char* NpyReader::accepted_for(DType to) { return is_integer(to) ? "i1 i2 i4 i8 u1 u2 u4 u8 b1" : "f2 f4 f8"; }

void NpyReader::read(DType to, void* data) {
  if (!convertible(to))
    throw Error("{}: holds {}, where {} ({}) is expected", path_, type_, name_of(to), accepted_for(to));
  const auto size = static_cast<size_t>(type_[1] - '0');
  const bool is_signed = type_[0] == 'i';
  const Range range = range_of(to);
  std::vector<unsigned char> chunk;
  for (int64_t first = 0; first < elements_; first += kChunk) {
    const int64_t n = std::min(kChunk, elements_ - first);
    chunk.resize(static_cast<size_t>(n) * size);
    if (std::fread(chunk.data(), 1, chunk.size(), file_.get()) != chunk.size())
      throw Error("{}: ended early, at element {} of {}", path_, first, elements_);
    for (int64_t i = 0; i < n; ++i) {
      const unsigned char* p = chunk.data() + static_cast<size_t>(i) * size;
      if (!is_integer(to)) {
        store_double(data, to, first + i, float_at(p, size));
        continue;
      }
      const int64_t whole = whole_at(p, size, is_signed);
      if (whole < range.min || whole > range.max)
        throw Error("{}: element {} is {}, outside {} .. {} of {}", path_, first + i, whole, range.min, range.max,
                    name_of(to));
      store_double(data, to, first + i, static_cast<double>(whole));
    }
  }
}

void write_npy(AtomicFile& file, DType dtype, const Shape& shape, const void* data) {
  static constexpr const char* kDescr[] = {"<f8", "<f4", "<f4", "<f2", "<i4", "|i1", "|u1", "<f4"};  // by DType
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   kDescr[static_cast<size_t>(dtype)], to_text(shape));
  constexpr size_t kPrefix = 10, kAlign = 64;  // the format asks that the elements begin at a multiple of 64 bytes
  header.append((kAlign - (kPrefix + header.size() + 1) % kAlign) % kAlign, ' ');
  header += '\n';
  std::string prefix(kMagic);
  prefix += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file.write(prefix.data(), prefix.size());
  file.write(header.data(), header.size());

  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  const bool as_f32 = dtype == DType::bf16 || dtype == DType::f8e4m3;  // NumPy has neither
  if (!as_f32) return file.write(data, static_cast<size_t>(elements * size_of(dtype)));
  std::vector<float> chunk;
  for (int64_t first = 0; first < elements; first += kChunk) {
    chunk.clear();
    for (int64_t i = first; i < std::min(elements, first + kChunk); ++i)
      chunk.push_back(static_cast<float>(load_as_double(data, dtype, i)));
    file.write(chunk.data(), chunk.size() * sizeof(float));
  }
}

}  // namespace duet
