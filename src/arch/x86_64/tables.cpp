#include "arch/isa.hpp"
#include "arch/x86_64/x86_64.hpp"

namespace penstock::arch::isa {
namespace {

namespace x86 = penstock::arch::x86_64;

/// Latency of store and clwb against non-temporal: 56 B 290 and 450 ns, 256 B 490 and 490, 1 KB 625
/// and 570. Without 64-byte stores the former was faster at every size (16 KB: 2.2 and 2.7 us).
constexpr std::size_t avx512_send_limit = 448;

Table sse2_table(const Features& features) {
  RangeFn drop = features.clflushopt ? x86::write_back_clflushopt : x86::write_back_clflush;
  return Table{
      .name = "sse2",
      .write_back_range = features.clwb ? x86::write_back_clwb : drop,
      .invalidate_range = drop,
      .store_fence = x86::store_fence,
      .full_fence = x86::full_fence,
      .nt_word = x86::nt_word,
      .nt_bytes = x86::nt_bytes,
      .nt_line = x86::sse2::nt_line,
      .nt_copy = x86::sse2::nt_copy,
      .store_copy = x86::sse2::store_copy,
      .store_line = x86::sse2::store_line,
      .send_line = features.clwb ? x86::sse2::send_line : x86::sse2::nt_line,
      .send_tagged = features.clwb ? x86::sse2::send_tagged : x86::sse2::nt_tagged,
      .send_tagged_limit = features.clwb ? SIZE_MAX : 0,
      .stream_line = features.clwb ? x86::sse2::send_line : x86::sse2::nt_line,
      .stream_tagged = features.clwb ? x86::sse2::send_tagged : x86::sse2::nt_tagged,
      .nt_tagged = x86::sse2::nt_tagged,
      .store_tagged = x86::sse2::store_tagged,
      .load_tagged = x86::sse2::load_tagged,
      .load_line = x86::sse2::load_line,
      .relax = x86::relax,
  };
}

Table avx2_table(const Features& features) {
  Table table = sse2_table(features);
  table.name = "avx2";
  table.nt_line = x86::avx2::nt_line;
  table.nt_copy = x86::avx2::nt_copy;
  table.store_copy = x86::avx2::store_copy;
  table.nt_tagged = x86::avx2::nt_tagged;
  table.store_tagged = x86::avx2::store_tagged;
  table.load_tagged = x86::avx2::load_tagged;
  if (!features.clwb) {
    table.send_line = table.nt_line;
    table.send_tagged = table.nt_tagged;
    table.stream_line = table.nt_line;
    table.stream_tagged = table.nt_tagged;
  }
  return table;
}

Table avx512_table(const Features& features) {
  // store_tagged stays avx2's: masked 64-byte stores to lines that another core holds took half as
  // long again (16 KB: 1450 against 1050 ns one way).
  Table table = avx2_table(features);
  table.name = "avx512";
  table.nt_line = x86::avx512::nt_line;
  table.nt_copy = x86::avx512::nt_copy;
  table.nt_tagged = x86::avx512::nt_tagged;
  table.store_line = x86::avx512::store_line;
  table.load_tagged = x86::avx512::load_tagged;
  table.send_line = features.clwb ? x86::avx512::send_line : table.nt_line;
  table.send_tagged = features.clwb ? x86::avx512::send_tagged : table.nt_tagged;
  table.send_tagged_limit = avx512_send_limit;
  table.stream_line = table.nt_line;
  table.stream_tagged = table.nt_tagged;
  return table;
}

}  // namespace

std::vector<Table> tables(const Features& features) {
  std::vector<Table> result;
  if (features.avx512) result.push_back(avx512_table(features));
  if (features.avx2) result.push_back(avx2_table(features));
  if (features.sse2) result.push_back(sse2_table(features));
  return result;
}

std::optional<FlushFunctions> flush_by(const Features& features, Flush flush) {
  RangeFn drop = features.clflushopt ? x86::write_back_clflushopt : x86::write_back_clflush;
  switch (flush) {
    case Flush::clflush:
      if (!features.clflush) return std::nullopt;
      return FlushFunctions{x86::write_back_clflush, x86::write_back_clflush};
    case Flush::clflushopt:
      if (!features.clflushopt) return std::nullopt;
      return FlushFunctions{x86::write_back_clflushopt, x86::write_back_clflushopt};
    case Flush::clwb:
      if (!features.clwb) return std::nullopt;
      return FlushFunctions{x86::write_back_clwb, drop};
  }
  return std::nullopt;
}

}  // namespace penstock::arch::isa
