// The two queues of matching: receives in the order posted, messages in the order arrived. A
// message takes the first posted receive that fits it, a receive the first arrived message that
// fits it.
//
// A search compares the first items of a queue one by one, as in a plain list. Later items are
// found by hash tables, so that 100,000 items cost no scan. Receives are of few kinds, by what they
// leave open: bits of the tag, the source. Each kind has a table, whose key is the part that is not
// left open. Open MPI, MPICH and Intel MPI have up to four kinds: any tag or one, any source or
// one, each with the few ignored bits that their own protocols use. Each table yields its first
// fitting item; the one that stands first in the queue is the first of all. Receives of more kinds
// than there are tables share one table, where they are compared one by one.
//
// Items enter the tables when a search first goes beyond the first items, each once: adding to a
// queue costs no more than adding to a list.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "messages/intrusive_lists.hpp"
#include "messages/key_table.hpp"

namespace penstock::messages {

inline constexpr std::uint32_t any_source = ~std::uint32_t{0};

/// The match of a receive: a source, and a tag except for the bits that it ignores.
struct Asked {
  std::uint64_t tag = 0, ignore = 0;
  std::uint32_t source = any_source;

  bool fits(std::uint32_t from, std::uint64_t tag_of_message) const {
    return ((tag ^ tag_of_message) & ~ignore) == 0 && (source == any_source || source == from);
  }
};

/// Base of the items of a queue.
template <class T>
struct Item : Indexed {
  T* prev;
  T* next;
};

/// Items that are compared one by one before a table is used.
inline constexpr int scanned_items = 16;

/// The parts of a match that receives of one kind leave open.
struct Kind {
  std::uint64_t ignore = 0;
  bool any = false;
  bool operator==(const Kind&) const = default;
  static Kind of(const Asked& asked) { return {asked.ignore, asked.source == any_source}; }
  Key key_of(std::uint32_t source, std::uint64_t tag) const {
    return {tag & ~ignore, any ? any_source : source};
  }
};

/// The kinds met so far, up to a limit.
class Kinds {
 public:
  static constexpr std::size_t limit = 8;
  /// Returns the number of a kind; `limit` if there are too many.
  std::size_t number_of(const Kind& kind) {
    for (std::size_t i = 0; i < count_; ++i)
      if (kinds_[i] == kind) return i;
    if (count_ < limit) kinds_[count_++] = kind;
    return kinds_[count_ - 1] == kind ? count_ - 1 : limit;
  }
  std::size_t count() const { return count_; }
  const Kind& operator[](std::size_t number) const { return kinds_[number]; }

 private:
  std::array<Kind, limit> kinds_;
  std::size_t count_ = 0;
};

/// A list whose items are numbered; counts how many of them a table has seen.
template <class T>
class NumberedList {
 public:
  bool empty() const { return list_.empty(); }
  std::size_t size() const { return size_; }
  T* head() const { return list_.head(); }
  void push_back(T* item) {
    item->number = ++last_;
    list_.push_back(item);
    ++size_;
  }
  void remove(T* item) {
    if (item->entries != nullptr) KeyTable::remove(item);
    list_.remove(item);
    --size_;
  }
  T* pop_front() {
    T* const item = head();
    if (item != nullptr) remove(item);
    return item;
  }
  /// Calls `add` for the items behind number `seen`, which grows with each; returns false as soon
  /// as one call does.
  template <class Add>
  bool catch_up(std::uint64_t& seen, Add&& add) {
    if (seen == last_) return true;
    T* first = nullptr;
    for (T* item = list_.tail(); item != nullptr && item->number > seen; item = item->prev)
      first = item;
    for (T* item = first; item != nullptr; item = item->next) {
      if (!add(item)) return false;
      seen = item->number;
    }
    seen = last_;
    return true;
  }

 private:
  List<T> list_;
  std::size_t size_ = 0;
  std::uint64_t last_ = 0;
};

/// Receives. T is an Item<T> and has `Asked asked() const` and `const void* name() const`, by which
/// its owner may find it.
template <class T>
class PostedQueue : public NumberedList<T> {
 public:
  /// Returns the first receive that takes a message, or null.
  T* find(std::uint32_t from, std::uint64_t tag) {
    int left = scanned_items;
    for (T* item = this->head(); item != nullptr; item = item->next) {
      if (item->asked().fits(from, tag)) return item;
      if (--left == 0) [[unlikely]]
        return find_beyond(item->next, from, tag);
    }
    return nullptr;
  }
  /// Returns the first receive of this name, or null.
  T* find_name(const void* name) {
    T* item = this->head();
    for (int i = 0; item != nullptr && i < scanned_items; ++i, item = item->next)
      if (item->name() == name) return item;
    if (item == nullptr) return nullptr;
    const bool whole =
        this->catch_up(named_, [this](T* at) { return names_.add(at, key_of_name(at->name())); });
    if (whole) return item_of(names_.find(key_of_name(name)));
    while (item != nullptr && item->name() != name) item = item->next;
    return item;
  }

 private:
  static Key key_of_name(const void* name) { return {reinterpret_cast<std::uintptr_t>(name), 0}; }
  static T* item_of(const Entry* entry) {
    return entry == nullptr ? nullptr : static_cast<T*>(entry->item);
  }
  static T* first_of(const Entry* entry, std::uint32_t from, std::uint64_t tag) {
    while (entry != nullptr && !static_cast<T*>(entry->item)->asked().fits(from, tag))
      entry = entry->next;
    return item_of(entry);
  }
  bool index(T* item) {
    const Asked asked = item->asked();
    const std::size_t kind = kinds_.number_of(Kind::of(asked));
    const Key key = kind == Kinds::limit ? Key{} : kinds_[kind].key_of(asked.source, asked.tag);
    return tables_[kind].add(item, key);
  }
  [[gnu::noinline]] T* find_beyond(T* item, std::uint32_t from, std::uint64_t tag) {
    if (item == nullptr) return nullptr;
    if (!this->catch_up(indexed_, [this](T* at) { return index(at); })) {
      while (item != nullptr && !item->asked().fits(from, tag)) item = item->next;
      return item;
    }
    T* first = nullptr;
    for (std::size_t kind = 0; kind <= Kinds::limit; ++kind) {
      if (tables_[kind].empty()) continue;
      const Key key = kind == Kinds::limit ? Key{} : kinds_[kind].key_of(from, tag);
      T* const found = first_of(tables_[kind].find(key), from, tag);
      if (found != nullptr && (first == nullptr || found->number < first->number)) first = found;
    }
    return first;
  }

  Kinds kinds_;
  std::array<KeyTable, Kinds::limit + 1> tables_;  ///< the last table: all other kinds
  KeyTable names_;
  std::uint64_t indexed_ = 0, named_ = 0;
};

/// Messages. T is an Item<T> and has `std::uint32_t sender() const` and `std::uint64_t tag()
/// const`.
template <class T>
class ArrivedQueue : public NumberedList<T> {
 public:
  /// Returns the first message that a receive takes, or null.
  T* find(const Asked& asked) {
    int left = scanned_items;
    for (T* item = this->head(); item != nullptr; item = item->next) {
      if (asked.fits(item->sender(), item->tag())) return item;
      if (--left == 0) [[unlikely]]
        return find_beyond(item->next, asked);
    }
    return nullptr;
  }

 private:
  [[gnu::noinline]] T* find_beyond(T* item, const Asked& asked) {
    if (item == nullptr) return nullptr;
    const std::size_t number = kinds_.number_of(Kind::of(asked));
    const bool indexed = number != Kinds::limit && this->catch_up(indexed_[number], [&](T* at) {
      return tables_[number].add(at, kinds_[number].key_of(at->sender(), at->tag()));
    });
    if (!indexed) {
      while (item != nullptr && !asked.fits(item->sender(), item->tag())) item = item->next;
      return item;
    }
    const Entry* const entry = tables_[number].find(kinds_[number].key_of(asked.source, asked.tag));
    return entry == nullptr ? nullptr : static_cast<T*>(entry->item);
  }

  Kinds kinds_;
  std::array<KeyTable, Kinds::limit> tables_;
  std::array<std::uint64_t, Kinds::limit> indexed_{};
};

}  // namespace penstock::messages
