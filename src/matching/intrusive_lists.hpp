// Intrusive lists and free lists: no allocation once warm. Allocation failure is a null, never an
// exception.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace penstock::matching {

/// Hands out objects of T; memory is taken in chunks and kept until the end.
template <class T>
class FreeList {
 public:
  FreeList() = default;
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;
  ~FreeList() {
    while (chunks_ != nullptr) {
      Chunk* next = chunks_->next;
      std::free(chunks_);
      chunks_ = next;
    }
  }

  /// Made of `arguments`; without any, what has no initializer is undefined. Null when memory is
  /// out.
  template <class... Arguments>
  T* take(const Arguments&... arguments) {
    if (free_ == nullptr && !grow()) [[unlikely]]
      return nullptr;
    Cell* cell = free_;
    free_ = cell->next;
    if constexpr (sizeof...(Arguments) == 0)
      return new (cell->bytes) T;
    else
      return new (cell->bytes) T(arguments...);
  }
  void give(T* object) {
    object->~T();
    Cell* cell = reinterpret_cast<Cell*>(object);
    cell->next = free_;
    free_ = cell;
  }

 private:
  static constexpr std::size_t chunk_cells = 64;
  union Cell {
    Cell* next;
    alignas(T) unsigned char bytes[sizeof(T)];
  };
  struct Chunk {
    Chunk* next;
    Cell cells[chunk_cells];
  };

  [[gnu::noinline]] bool grow() {
    auto* chunk = static_cast<Chunk*>(std::malloc(sizeof(Chunk)));
    if (chunk == nullptr) return false;
    chunk->next = chunks_;
    chunks_ = chunk;
    for (std::size_t i = chunk_cells; i-- > 0;) {
      chunk->cells[i].next = free_;
      free_ = &chunk->cells[i];
    }
    return true;
  }

  Cell* free_ = nullptr;
  Chunk* chunks_ = nullptr;
};

/// Doubly linked through T::prev and T::next; owns nothing.
template <class T>
class List {
 public:
  bool empty() const { return head_ == nullptr; }
  T* head() const { return head_; }
  T* tail() const { return tail_; }
  void push_back(T* item) {
    item->next = nullptr;
    item->prev = tail_;
    (tail_ != nullptr ? tail_->next : head_) = item;
    tail_ = item;
  }
  void remove(T* item) {
    (item->prev != nullptr ? item->prev->next : head_) = item->next;
    (item->next != nullptr ? item->next->prev : tail_) = item->prev;
  }
  T* pop_front() {
    T* item = head_;
    if (item != nullptr) remove(item);
    return item;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace penstock::matching
