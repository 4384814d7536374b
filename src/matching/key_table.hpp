// Items of a queue, found by a key: a hash table of keys, each with the items that have it, in the
// order of the queue. The table grows by doubling, and goes back when it is empty. Its hash is
// drawn for each process, so that no peer can choose tags that collide. No memory is an answer,
// never an exception.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matching/intrusive_lists.hpp"

namespace penstock::matching {

struct Key {
  std::uint64_t tag = 0;
  std::uint32_t source = 0;
  bool operator==(const Key&) const = default;
};

class KeyTable;
struct Indexed;

/// An item's place in a table.
struct Entry {
  Entry* prev;
  Entry* next;
  Entry* of_same_item;  ///< in another table
  struct Group* group;
  Indexed* item;
};

/// What an item has to have, to stand in tables.
struct Indexed {
  std::uint64_t number;  ///< grows along the queue
  Entry* entries = nullptr;
};

/// The items of one key.
struct Group {
  KeyTable* table;
  Group* next;
  Key key;
  List<Entry> items;
};

class KeyTable {
 public:
  KeyTable() = default;
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  /// `item` comes behind all that the table has. False: no memory, nothing was done.
  bool add(Indexed* item, const Key& key);
  /// Takes the item out of all tables.
  static void remove(Indexed* item) {
    while (item->entries != nullptr) remove_one(item);
  }
  /// The first item of this key; those behind it by Entry::next. Null: none.
  const Entry* find(const Key& key) const;
  bool empty() const { return groups_in_use_ == 0; }
  /// Keys of the fullest bucket: what a search may have to look at.
  std::size_t longest_chain() const;

 private:
  static void remove_one(Indexed* item);
  Group** bucket_of(const Key& key) const;
  void grow();
  void shrink();

  FreeList<Entry> entries_;
  FreeList<Group> groups_;
  Group* only_ = nullptr;  ///< the table while it has one bucket
  Group** buckets_ = &only_;
  std::size_t bucket_count_ = 1;  ///< a power of two
  std::size_t groups_in_use_ = 0;
};

}  // namespace penstock::matching
