// Stores of one thread that have not reached the device, in the order in which they were made. The
// facts that decide which of them may leave lie close together, without the data: a core looks at
// two dozen of them whenever one leaves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/memory/node_view.hpp"

namespace penstock::sim {

class StoreBuffer {
 public:
  struct Store {
    std::uint64_t line;
    std::uint32_t epoch;
    std::uint8_t words;
    bool write_back;          ///< of the line, whose data is in the view; else a publish
    bool after_line;          ///< stays behind earlier stores to this line
    bool unordered;           ///< FaultModel::bulk_passes_store_fence
    std::uint32_t place = 0;  ///< of its details
  };
  struct Details {
    std::uint64_t born;
    std::uint64_t op;      ///< the same for all stores of one operation
    std::uint64_t spared;  ///< bits of its one word that are not written
    Line data;
  };

  bool empty() const { return first_ == stores_.size(); }
  std::span<const Store> stores() const { return std::span(stores_).subspan(first_); }
  const Store& front() const { return stores_[first_]; }
  const Store& back() const { return stores_.back(); }
  const Details& details(const Store& store) const { return details_[store.place]; }

  void push_back(Store store, const Details& details) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(details_.size()));
      details_.emplace_back();
    }
    store.place = free_.back();
    free_.pop_back();
    details_[store.place] = details;
    stores_.push_back(store);
  }

  /// Whether the last one may leave before those that a `store_fence` put ahead of it.
  void let_last_pass(bool unordered) { stores_.back().unordered = unordered; }

  /// Moves those before it or those after it, whichever are fewer.
  void erase(std::size_t index) {
    const auto begin = stores_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto gone = begin + static_cast<std::ptrdiff_t>(index);
    free_.push_back(gone->place);
    if (index >= stores().size() / 2) {
      stores_.erase(gone);
    } else {
      std::move_backward(begin, gone, gone + 1);
      ++first_;
    }
    if (first_ >= stores_.size() - first_) {
      stores_.erase(stores_.begin(), stores_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }
  void pop_back() { erase(stores().size() - 1); }

  void clear() {
    stores_.clear();
    details_.clear();
    free_.clear();
    first_ = 0;
  }

 private:
  std::vector<Store> stores_;  ///< from `first_` on
  std::size_t first_ = 0;
  std::vector<Details> details_;
  std::vector<std::uint32_t> free_;  ///< places of no store
};

}  // namespace penstock::sim
