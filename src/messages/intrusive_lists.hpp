// Intrusive lists and free lists: no allocation once warm. A failed allocation returns null;
// nothing throws.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace penstock::messages {

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

/// Hands out objects of T from chunks of memory. An unused chunk is freed if another one is already
/// unused, so that a flood leaves none of its memory behind.
template <class T>
class FreeList {
 public:
  FreeList() = default;
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;
  ~FreeList() {
    for (List<Chunk>* chunks : {&full_, &roomy_})
      while (Chunk* chunk = chunks->pop_front()) std::free(chunk);
  }

  /// Makes an object of `arguments`; without any, members without initializer are undefined.
  /// Returns null if there is no memory.
  template <class... Arguments>
  T* take(const Arguments&... arguments) {
    if (roomy_.empty() && !grow()) [[unlikely]]
      return nullptr;
    Chunk* const chunk = roomy_.head();
    Cell* const cell = chunk->free;
    chunk->free = cell->next;
    empty_ -= chunk->used++ == 0;
    if (chunk->free == nullptr) [[unlikely]] {
      roomy_.remove(chunk);
      full_.push_back(chunk);
    }
    if constexpr (sizeof...(Arguments) == 0)
      return new (cell->bytes) T;
    else
      return new (cell->bytes) T(arguments...);
  }
  void give(T* object) {
    object->~T();
    Cell* const cell = reinterpret_cast<Cell*>(object);
    Chunk* const chunk = chunk_of(cell);
    if (chunk->free == nullptr) [[unlikely]] {
      full_.remove(chunk);
      roomy_.push_back(chunk);
    }
    cell->next = chunk->free;
    chunk->free = cell;
    if (--chunk->used == 0 && ++empty_ > 1) [[unlikely]]
      shrink(chunk);
  }

  std::size_t chunks() const { return chunks_; }

 private:
  union Cell {
    Cell* next;
    alignas(T) unsigned char bytes[sizeof(T)];
  };
  struct Head {
    void* prev;
    void* next;
    Cell* free;
    std::size_t used;
  };
  static constexpr std::size_t chunk_bytes = std::bit_ceil(sizeof(Head) + 64 * sizeof(Cell));
  static constexpr std::size_t chunk_cells =
      (chunk_bytes - sizeof(Head) - alignof(Cell)) / sizeof(Cell);
  struct Chunk {
    Chunk* prev;
    Chunk* next;
    Cell* free;
    std::size_t used;
    Cell cells[chunk_cells];
  };
  static_assert(sizeof(Chunk) <= chunk_bytes);

  static Chunk* chunk_of(Cell* cell) {
    return reinterpret_cast<Chunk*>(reinterpret_cast<std::uintptr_t>(cell) & ~(chunk_bytes - 1));
  }
  [[gnu::noinline]] bool grow() {
    auto* const chunk = static_cast<Chunk*>(std::aligned_alloc(chunk_bytes, chunk_bytes));
    if (chunk == nullptr) return false;
    chunk->free = nullptr;
    chunk->used = 0;
    for (std::size_t i = chunk_cells; i-- > 0;) {
      chunk->cells[i].next = chunk->free;
      chunk->free = &chunk->cells[i];
    }
    roomy_.push_back(chunk);
    ++empty_;
    ++chunks_;
    return true;
  }
  [[gnu::noinline]] void shrink(Chunk* chunk) {
    roomy_.remove(chunk);
    std::free(chunk);
    --empty_;
    --chunks_;
  }

  List<Chunk> roomy_;  ///< chunks with free cells
  List<Chunk> full_;
  std::size_t chunks_ = 0;
  std::size_t empty_ = 0;  ///< how many of them are unused
};

}  // namespace penstock::messages
