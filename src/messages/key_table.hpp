// Finds items of a queue by a key: a hash table of keys, each with its items in the order of the
// queue. The table grows by doubling, and shrinks when it is empty. Its hash is drawn for each
// process, so that no peer can choose tags that collide. Lack of memory is a return value, never an
// exception.
#pragma once

#include <cstddef>
#include <cstdint>

#include "messages/intrusive_lists.hpp"

namespace penstock::messages {

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
  Entry* of_same_item;  ///< the item's entry in another table
  struct Group* group;
  Indexed* item;
};

/// Base of items that stand in tables.
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

  /// Appends `item` to the table. Returns false, and changes nothing, if there is no memory.
  bool add(Indexed* item, const Key& key);
  /// Removes the item from all tables.
  static void remove(Indexed* item) {
    while (item->entries != nullptr) remove_one(item);
  }
  /// Returns the first item of this key, or null; the others follow by Entry::next.
  const Entry* find(const Key& key) const;
  bool empty() const { return groups_in_use_ == 0; }
  /// Keys in the fullest bucket: the most that a search may have to compare.
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

}  // namespace penstock::messages
