// Operations that differ between instruction sets: write-back, invalidate, fences, non-temporal
// copies. Such instructions stand nowhere else in the project. Chosen once by CPU feature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::arch {

inline constexpr std::size_t line_bytes = 64;

struct Features {
  bool clflush = false, clflushopt = false, clwb = false;  // x86_64
  bool sse2 = false, avx2 = false, avx512 = false;
  bool dc_civac = false;  // aarch64
  /// There is a store that reaches memory without making the line dirty in a cache (movnti).
  bool partial_nt_store = false;
};

/// Read once from the CPU. PENSTOCK_ISA (sse2|avx2|avx512|generic) can only lower it.
const Features& features();

/// `bytes` from `from` to `to`; `to` 64-byte aligned, `from` any.
using CopyFn = void (*)(void* to, const void* from, std::size_t bytes);

/// Every instruction-set dependent operation, chosen by CPU feature; see select().
struct Table {
  const char* name;
  // ranges of lines; not fenced
  void (*write_back_range)(const void* at,
                           std::size_t bytes);  // clwb, else clflushopt, else clflush
  void (*invalidate_range)(const void* at, std::size_t bytes);  // clflushopt, else clflush
  void (*store_fence)();  // sfence: earlier stores, NT stores and write-backs before later stores
  void (*full_fence)();   // mfence: the above, and invalidations before later loads
  void (*nt_word)(void* to, std::uint64_t value);  // movnti
  /// 1 to 8 bytes inside one aligned word, the rest of the line untouched; maskmovdqu.
  void (*nt_bytes)(void* to, const void* from, std::size_t bytes);
  void (*nt_line)(void* to, const void* from);  // 64 bytes, whole; `from` unaligned
  CopyFn nt_copy;     // whole lines non-temporal; the last line's tail is written as garbage-free
                      // padding only within the line
  CopyFn store_copy;  // plain stores; `to` any
  /// One line by plain stores: whole where there is a 64-byte store, else the last word last.
  void (*store_line)(void* to, const void* from);
  /// The fastest way to bring one's own lines to the device: plain stores and write-back where that
  /// was measured to be faster, else as nt_line and nt_tagged. Not fenced.
  void (*send_line)(void* to, const void* from);
  void (*send_tagged)(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
  std::size_t send_tagged_limit;  ///< up to this payload send_tagged arrives sooner than nt_tagged
  /// The least time for the writer of consecutive lines: non-temporal stores where one store is a
  /// line, plain stores with a prefetch of the line; else as send_line, send_tagged. Not fenced.
  void (*stream_line)(void* to, const void* from);
  void (*stream_tagged)(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
  /// Tagged lines (56 bytes of payload, 8-byte tag): by non-temporal stores, and by plain stores.
  void (*nt_tagged)(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
  void (*store_tagged)(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
  /// Reads tagged lines up to the first whose tag differs; returns the payload bytes that matched.
  std::size_t (*load_tagged)(void* to, const void* from, std::size_t bytes,
                             std::uint64_t first_tag);
  /// 64 bytes, the last 8-byte word read first.
  void (*load_line)(void* to, const void* from);
  void (*relax)();  // pause / yield hint for spinning
};

/// The best table for features(); never null. Thread-safe.
const Table& select();

/// Write-back and invalidation by one given instruction.
enum class Flush { clflush, clflushopt, clwb };
using RangeFn = void (*)(const void* at, std::size_t bytes);
struct FlushFunctions {
  RangeFn write_back;
  RangeFn invalidate;  // for clwb, which only writes back, this is the table's invalidate_range
};
/// nullopt where the CPU lacks the instruction, or PENSTOCK_ISA rules it out.
std::optional<FlushFunctions> flush_by(Flush flush);
const char* flush_name(Flush flush);

/// All tables that this CPU can run, the best first; for tests and measurements.
std::vector<Table> runnable_tables();

}  // namespace penstock::arch
