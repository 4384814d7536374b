// The parts of the x86_64 tables. Each .cpp carries its instruction set as function attributes, so
// that code that runs before the CPU is identified contains nothing beyond SSE2.
#pragma once

#include "arch/arch.hpp"

namespace penstock::arch::x86_64 {

void write_back_clflush(const void* at, std::size_t bytes);
void write_back_clflushopt(const void* at, std::size_t bytes);
void write_back_clwb(const void* at, std::size_t bytes);

void store_fence();
void full_fence();
void nt_word(void* to, std::uint64_t value);
void nt_bytes(void* to, const void* from, std::size_t bytes);
void relax();

namespace sse2 {
void nt_line(void* to, const void* from);
void nt_copy(void* to, const void* from, std::size_t bytes);
void nt_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
void store_copy(void* to, const void* from, std::size_t bytes);
void store_line(void* to, const void* from);
void store_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
std::size_t load_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
void load_line(void* to, const void* from);
/// Plain stores, then clwb: only where the CPU has it.
void send_line(void* to, const void* from);
void send_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
}  // namespace sse2

namespace avx2 {
void nt_line(void* to, const void* from);
void nt_copy(void* to, const void* from, std::size_t bytes);
void store_copy(void* to, const void* from, std::size_t bytes);
void nt_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
void store_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
std::size_t load_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
}  // namespace avx2

namespace avx512 {
void nt_line(void* to, const void* from);
void nt_copy(void* to, const void* from, std::size_t bytes);
void nt_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
void store_line(void* to, const void* from);
/// Plain stores of whole lines, each written back by clwb.
void send_line(void* to, const void* from);
void send_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
std::size_t load_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag);
}  // namespace avx512

}  // namespace penstock::arch::x86_64
