// Reads an input as a small program: bytes become choices and numbers. A read past the end gives
// zero, so that every input is valid and shorter ones do less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace penstock::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  std::size_t left() const { return size_; }

  std::uint8_t byte() {
    std::uint8_t value = 0;
    fill(&value, 1);
    return value;
  }
  /// 0 .. count-1
  std::uint64_t below(std::uint64_t count) {
    return count <= 256 ? byte() % count : number<std::uint32_t>() % count;
  }
  bool flag() { return (byte() & 1) != 0; }
  template <class T>
  T number() {
    T value{};
    fill(&value, sizeof value);
    return value;
  }
  void fill(void* to, std::size_t bytes) {
    const std::size_t here = bytes < size_ ? bytes : size_;
    if (here != 0) std::memcpy(to, data_, here);
    std::memset(static_cast<char*>(to) + here, 0, bytes - here);
    data_ += here;
    size_ -= here;
  }
  std::string_view text(std::size_t most) {
    const std::size_t here = most < size_ ? most : size_;
    const std::string_view view(reinterpret_cast<const char*>(data_), here);
    data_ += here;
    size_ -= here;
    return view;
  }
  std::string_view rest() { return text(size_); }

  /// A number as attackers choose it: near the edges of `bound`, of a line, of 32, 40 and 64 bits.
  std::uint64_t lie(std::uint64_t bound) {
    const std::uint8_t how = byte();
    const auto near = static_cast<std::uint64_t>(static_cast<std::int64_t>(how >> 4) - 8);
    switch (how & 15) {
      case 0:
        return near;
      case 1:
        return bound + near;
      case 2:
        return bound + near * 64;
      case 3:
        return (1ull << 32) + near;
      case 4:
        return (1ull << 40) + near;
      case 5:
        return (1ull << 63) + near;
      case 6:
        return byte();
      case 7:
        return byte() * 64ull;
      case 8:
        return byte() * 4096ull;
      case 9:
        return number<std::uint16_t>();
      case 10:
        return bound == 0 ? 0 : number<std::uint32_t>() % bound;
      case 11:
        return bound == 0 ? 0 : number<std::uint32_t>() * 64ull % bound;
      case 12:
        return 1ull << byte() % 64;
      case 13:
        return number<std::uint32_t>();
      default:
        return number<std::uint64_t>();
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace penstock::fuzz
