// Memory that several nodes share without coherence, for tests: publishes arrive late, in any order
// that `store_fence` allows, and not at all if the node dies; loads return whatever copy the node
// holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "coherence/coherence.hpp"

namespace penstock::arena {

/// Thrown out of an operation in which a node dies.
struct Death {};

class IncoherentNode {
 public:
  IncoherentNode(std::byte* device, std::uint64_t bytes, std::mt19937_64& random)
      : device_(device), bytes_(bytes), random_(random) {}

  coherence::Memory memory() { return {coherence::Mode::simulated, &ops(), this}; }
  bool has_unordered() const { return !pending_.empty(); }
  void live() { operations_left_ = ~0ull; }
  void die_after(std::uint64_t operations) { operations_left_ = operations; }

  /// Pending publishes arrive or are lost; the line that was being written arrives in part.
  void lose_pending() {
    std::set<std::uint64_t> torn;
    for (auto& publish : pending_) {
      if (torn.count(publish.line) != 0) continue;
      const std::uint64_t fate =
          random_() % 4;  // whole half of the time, else in part or not at all
      const std::uint64_t words = fate < 2 ? 8 : fate == 2 ? 0 : random_() % 8;
      if (words < 8) torn.insert(publish.line);
      for (std::uint64_t i = 0; i < words; ++i) publish.copy_word(device_, i);
    }
    pending_.clear();
  }

 private:
  using Line = std::array<std::byte, 64>;

  struct Publish {
    std::uint64_t line;
    Line data;
    std::uint8_t words;  // a bit for each word written
    bool has_word(std::uint64_t i) const { return (words >> i & 1) != 0; }
    void copy_word(std::byte* device, std::uint64_t i) const {
      if (has_word(i)) std::memcpy(device + line * 64 + i * 8, data.data() + i * 8, 8);
    }
    void overlay_word(Line& copy, std::uint64_t i) const {
      if (has_word(i)) std::memcpy(copy.data() + i * 8, data.data() + i * 8, 8);
    }
  };

  static IncoherentNode& node(void* self) { return *static_cast<IncoherentNode*>(self); }

  std::uint64_t offset(const void* at, std::uint64_t bytes) const {
    const auto place = static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - device_);
    if (place > bytes_ || bytes > bytes_ - place) throw std::out_of_range("outside the pool");
    return place;
  }

  void step() {
    if (operations_left_-- == 0) throw Death{};
    if (random_() % 4 == 0) fetch(random_() % (bytes_ / 64));  // a prefetch of any line
    while (!pending_.empty() && random_() % 3 == 0) deliver_one();
  }

  void deliver_one() {
    const std::uint64_t line = pending_[random_() % pending_.size()].line;
    const auto first = std::find_if(pending_.begin(), pending_.end(),
                                    [line](const Publish& p) { return p.line == line; });
    for (std::uint64_t i = 0; i < 8; ++i) first->copy_word(device_, i);
    if (const auto copy = copies_.find(line); copy != copies_.end()) {
      for (std::uint64_t i = 0; i < 8; ++i) first->overlay_word(copy->second, i);
    }
    pending_.erase(first);
  }

  void publish(std::uint64_t line, const Line& data, std::uint8_t words) {
    step();
    copies_.erase(line);
    pending_.push_back({line, data, words});
  }

  void fetch(std::uint64_t line) {
    if (copies_.count(line) != 0) return;
    Line data;
    std::memcpy(data.data(), device_ + line * 64, 64);
    copies_[line] = data;
  }

  Line load(std::uint64_t line) {
    fetch(line);
    Line data = copies_[line];
    for (const auto& publish : pending_) {  // a node sees its own stores
      if (publish.line != line) continue;
      for (std::uint64_t i = 0; i < 8; ++i) publish.overlay_word(data, i);
    }
    return data;
  }

  static const coherence::Ops& ops() {
    static const coherence::Ops table = [] {
      coherence::Ops o{};
      o.publish_word = [](void* self, void* to, std::uint64_t value) {
        const auto at = node(self).offset(to, 8);
        Line data{};
        std::memcpy(data.data() + at % 64, &value, 8);
        node(self).publish(at / 64, data, static_cast<std::uint8_t>(1u << (at % 64 / 8)));
      };
      o.publish_bytes = [](void*, void*, const void*, std::size_t) {
        throw std::logic_error("the arena publishes no bytes");
      };
      o.publish_line = [](void* self, void* to, const void* from) {
        Line data;
        std::memcpy(data.data(), from, 64);
        node(self).publish(node(self).offset(to, 64) / 64, data, 0xff);
      };
      o.send_line = o.publish_line;
      o.publish_bulk = [](void* self, void* to, const void* from, std::size_t bytes) {
        const auto at = node(self).offset(to, bytes);
        for (std::size_t done = 0; done < bytes; done += 64) {
          Line data{};
          std::memcpy(data.data(), static_cast<const std::byte*>(from) + done,
                      std::min<std::size_t>(64, bytes - done));
          node(self).publish((at + done) / 64, data, 0xff);
        }
      };
      o.store_fence = [](void* self) {
        node(self).step();
        while (node(self).has_unordered()) node(self).deliver_one();
      };
      o.full_fence = o.store_fence;
      o.invalidate = [](void* self, const void* at, std::size_t bytes) {
        const auto first = node(self).offset(at, bytes);
        for (auto line = first / 64; line <= (first + bytes - 1) / 64; ++line) {
          node(self).dropping_.insert(line);
        }
      };
      o.load_fence = [](void* self) {
        for (const auto line : node(self).dropping_) node(self).copies_.erase(line);
        node(self).dropping_.clear();
      };
      o.load_word = [](void* self, const void* from) {
        const auto at = node(self).offset(from, 8);
        std::uint64_t value;
        std::memcpy(&value, node(self).load(at / 64).data() + at % 64, 8);
        return value;
      };
      o.load_line = [](void* self, void* to, const void* from) {
        const Line data = node(self).load(node(self).offset(from, 64) / 64);
        std::memcpy(to, data.data(), 64);
      };
      o.device_reads = [](void*) -> std::uint64_t { return 0; };
      return o;
    }();
    return table;
  }

  std::byte* device_;
  std::uint64_t bytes_;
  std::mt19937_64& random_;
  std::vector<Publish> pending_;
  std::map<std::uint64_t, Line> copies_;
  std::set<std::uint64_t> dropping_;
  std::uint64_t operations_left_ = ~0ull;
};

}  // namespace penstock::arena
