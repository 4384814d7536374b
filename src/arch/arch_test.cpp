#include "arch/arch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace penstock::arch {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t sizes[] = {0,   1,   7,   8,    41,   55,   56,   57,   63,
                                 64,  65,  111, 112,  113,  127,  128,  224,  225,
                                 255, 256, 257, 1023, 1024, 4096, 4097, 16383};
constexpr std::size_t misalignments[] = {0, 1, 3, 8, 31, 33, 63};
constexpr std::byte guard{0xa5};

/// Memory that ends at a page without access: a read or write past the end is a crash.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + mapped_ - page, page, PROT_NONE) != 0) std::abort();
    end_ = base_ + mapped_ - page;
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(base_, mapped_); }
  /// The last `bytes` before the fence.
  std::byte* last(std::size_t bytes) { return end_ - bytes; }

 private:
  std::byte* base_;
  std::byte* end_;
  std::size_t mapped_;
};

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}
std::size_t tagged_extent(std::size_t bytes) {
  return (bytes + 55) / 56 * 64;
}

void fill(std::byte* at, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i)
    at[i] = static_cast<std::byte>((i * 131 + seed * 29 + 7) >> 1);
}

std::uint64_t tag_at(const std::byte* line) {
  std::uint64_t line_tag;
  std::memcpy(&line_tag, line + 56, sizeof line_tag);
  return line_tag;
}

class TableTest : public testing::TestWithParam<Table> {
 protected:
  const Table& table() const { return GetParam(); }

  /// `copy` of every size and misalignment gives the same bytes, writes `extent` at most and reads
  /// nothing past the source.
  void expect_copies(CopyFn copy, bool to_whole_lines) {
    Fenced source(32 << 10), target(32 << 10);
    for (const std::size_t bytes : sizes) {
      const std::size_t extent = to_whole_lines ? whole_lines(bytes) : bytes;
      for (const std::size_t off : misalignments) {
        // The range ends at the fence when `off` is 0, and `off` bytes before it otherwise.
        std::byte* from = source.last(bytes + off);
        std::byte* to = target.last(whole_lines(bytes));
        fill(from, bytes, static_cast<unsigned>(bytes + off));
        std::memset(to - 128, static_cast<int>(guard), 128 + whole_lines(bytes));
        copy(to, from, bytes);
        table().full_fence();
        ASSERT_EQ(std::memcmp(to, from, bytes), 0) << bytes << " bytes, source off by " << off;
        ASSERT_TRUE(std::all_of(to - 128, to, [](std::byte b) { return b == guard; })) << bytes;
        ASSERT_TRUE(std::all_of(to + extent, to + whole_lines(bytes), [](std::byte b) {
          return b == guard;
        })) << bytes;
      }
    }
  }

  void expect_line(void (*put)(void*, const void*)) {
    Fenced source(128), target(4096);
    for (const std::size_t off : misalignments) {
      std::byte* from = source.last(64 + off);
      std::byte* to = target.last(192) + 64;
      fill(from, 64, static_cast<unsigned>(off));
      std::memset(to - 64, static_cast<int>(guard), 192);
      put(to, from);
      table().full_fence();
      ASSERT_EQ(std::memcmp(to, from, 64), 0) << "source off by " << off;
      ASSERT_TRUE(std::all_of(to - 64, to, [](std::byte b) { return b == guard; }));
      ASSERT_TRUE(std::all_of(to + 64, to + 128, [](std::byte b) { return b == guard; }));
    }
  }

  void expect_tagged(void (*put)(void*, const void*, std::size_t, std::uint64_t)) {
    constexpr std::uint64_t first_tag = 0xfffffffffffffffeu;  // wraps on the way
    Fenced source(32 << 10), target(32 << 10);
    for (const std::size_t bytes : sizes) {
      const std::size_t extent = tagged_extent(bytes);
      for (const std::size_t off : misalignments) {
        std::byte* from = source.last(bytes + off);
        std::byte* to = target.last(extent);
        fill(from, bytes, static_cast<unsigned>(bytes ^ off));
        std::memset(to - 64, static_cast<int>(guard), 64 + extent);
        put(to, from, bytes, first_tag);
        table().full_fence();
        for (std::size_t line = 0; line * 56 < bytes; ++line) {
          ASSERT_EQ(tag_at(to + line * 64), first_tag + line) << bytes << " bytes";
          ASSERT_EQ(std::memcmp(to + line * 64, from + line * 56,
                                std::min<std::size_t>(56, bytes - line * 56)),
                    0)
              << bytes << " bytes, line " << line << ", source off by " << off;
        }
        ASSERT_TRUE(std::all_of(to - 64, to, [](std::byte b) { return b == guard; })) << bytes;
      }
    }
  }
};

TEST_P(TableTest, IsComplete) {
  const Table& t = table();
  EXPECT_TRUE(t.write_back_range && t.invalidate_range && t.store_fence && t.full_fence &&
              t.nt_word && t.nt_bytes && t.nt_line && t.nt_copy && t.store_copy && t.store_line &&
              t.send_line && t.send_tagged && t.stream_line && t.stream_tagged && t.nt_tagged &&
              t.store_tagged && t.load_tagged && t.load_line && t.relax);
}

TEST_P(TableTest, NonTemporalCopyGivesTheBytes) {
  expect_copies(table().nt_copy, true);
}
TEST_P(TableTest, StoreCopyGivesTheBytes) {
  expect_copies(table().store_copy, false);
}
TEST_P(TableTest, StoreCopyGoesAnywhere) {
  Fenced source(32 << 10), target(32 << 10);
  for (const std::size_t bytes : sizes) {
    for (const std::size_t off : misalignments) {
      std::byte* from = source.last(bytes);
      std::byte* to = target.last(bytes + off);
      fill(from, bytes, static_cast<unsigned>(bytes ^ off));
      std::memset(to - 64, static_cast<int>(guard), 64 + bytes + off);
      table().store_copy(to, from, bytes);
      ASSERT_EQ(std::memcmp(to, from, bytes), 0) << bytes << " bytes, target off by " << off;
      ASSERT_TRUE(std::all_of(to - 64, to, [](std::byte b) { return b == guard; })) << bytes;
      ASSERT_TRUE(std::all_of(to + bytes, to + bytes + off, [](std::byte b) { return b == guard; }))
          << bytes;
    }
  }
}
TEST_P(TableTest, NonTemporalLineGivesTheBytes) {
  expect_line(table().nt_line);
}
TEST_P(TableTest, StoreLineGivesTheBytes) {
  expect_line(table().store_line);
}
TEST_P(TableTest, SendLineGivesTheBytes) {
  expect_line(table().send_line);
  expect_line(table().stream_line);
}
TEST_P(TableTest, NonTemporalTaggedGivesTheBytes) {
  expect_tagged(table().nt_tagged);
}
TEST_P(TableTest, StoreTaggedGivesTheBytes) {
  expect_tagged(table().store_tagged);
}
TEST_P(TableTest, SendTaggedGivesTheBytes) {
  expect_tagged(table().send_tagged);
  expect_tagged(table().stream_tagged);
}

TEST_P(TableTest, LoadLineGivesTheBytes) {
  alignas(64) std::byte line[64];
  fill(line, 64, 3);
  Fenced target(4096);
  for (const std::size_t off : misalignments) {
    std::byte* to = target.last(64 + off);
    table().load_line(to, line);
    ASSERT_EQ(std::memcmp(to, line, 64), 0) << "target off by " << off;
  }
}

TEST_P(TableTest, WordLeavesItsNeighboursAlone) {
  alignas(64) std::uint64_t words[8];
  for (std::size_t i = 0; i < 8; ++i) words[i] = i;
  table().nt_word(&words[3], 99);
  table().full_fence();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(words[i], i == 3 ? 99 : i);
}

TEST_P(TableTest, BytesLeaveTheirNeighboursAlone) {
  for (std::size_t at = 0; at < 64; ++at) {
    for (std::size_t bytes = 1; bytes <= 8 - at % 8; ++bytes) {
      alignas(64) std::byte line[64], expected[64];
      fill(line, 64, 3);
      std::byte given[8];
      fill(given, 8, 9);
      std::memcpy(expected, line, 64);
      std::memcpy(expected + at, given, bytes);
      table().nt_bytes(line + at, given, bytes);
      table().full_fence();
      ASSERT_EQ(std::memcmp(line, expected, 64), 0) << bytes << " at " << at;
    }
  }
}

TEST_P(TableTest, LoadTaggedGivesTheBytesAndNoMore) {
  Fenced source(32 << 10), target(32 << 10);
  for (const std::size_t bytes : sizes) {
    std::vector<std::byte> payload(bytes + 1);  // not null even for 0 bytes
    fill(payload.data(), bytes, 5);
    std::byte* from = source.last(tagged_extent(bytes));
    table().store_tagged(from, payload.data(), bytes, 41);
    for (const std::size_t off : misalignments) {
      std::byte* to = target.last(bytes + off);
      std::memset(to - 64, static_cast<int>(guard), 64 + bytes + off);
      ASSERT_EQ(table().load_tagged(to, from, bytes, 41), bytes);
      ASSERT_EQ(std::memcmp(to, payload.data(), bytes), 0) << bytes << " bytes, off by " << off;
      ASSERT_TRUE(std::all_of(to - 64, to, [](std::byte b) { return b == guard; }));
      ASSERT_TRUE(std::all_of(to + bytes, to + bytes + off, [](std::byte b) { return b == guard; }))
          << bytes << " bytes, off by " << off;
    }
  }
}

TEST_P(TableTest, LoadTaggedStopsAtTheFirstOtherTag) {
  constexpr std::size_t bytes = 56 * 9 + 17;
  std::vector<std::byte> payload(bytes), got(bytes);
  fill(payload.data(), bytes, 11);
  alignas(64) std::byte lines[640];
  for (std::size_t broken = 0; broken < 10; ++broken) {
    table().store_tagged(lines, payload.data(), bytes, 7);
    const std::uint64_t other = 7 + broken + 1;
    std::memcpy(lines + broken * 64 + 56, &other, sizeof other);
    std::fill(got.begin(), got.end(), guard);
    ASSERT_EQ(table().load_tagged(got.data(), lines, bytes, 7), broken * 56);
    EXPECT_EQ(std::memcmp(got.data(), payload.data(), broken * 56), 0);
    EXPECT_TRUE(std::all_of(got.begin() + static_cast<long>(broken * 56), got.end(),
                            [](std::byte b) { return b == guard; }))
        << "line " << broken;
  }
}

TEST_P(TableTest, FlushesKeepTheContents) {
  std::vector<std::byte> memory(8192), before;
  fill(memory.data(), memory.size(), 13);
  before = memory;
  for (const std::size_t bytes : sizes) {
    if (bytes > 8000) continue;
    for (const std::size_t off : misalignments) {
      table().write_back_range(memory.data() + off, bytes);
      table().invalidate_range(memory.data() + off, bytes);
      table().full_fence();
      table().store_fence();
      table().relax();
    }
  }
  EXPECT_EQ(memory, before);
}

TEST_P(TableTest, FlushesStayInsideTheirLines) {
  Fenced memory(4096);  // a flush of a page without access is a crash
  for (std::size_t bytes = 0; bytes <= 256; ++bytes) {
    table().write_back_range(memory.last(bytes), bytes);
    table().invalidate_range(memory.last(bytes), bytes);
  }
  table().full_fence();
}

/// A reader that finds a tag finds its payload, or a later one. The writer overwrites the same
/// lines without pause, so that the reader meets every stage of a publish.
TEST_P(TableTest, TagIsNeverSeenBeforeItsPayload) {
  constexpr std::size_t count = 5, bytes = 56 * count;
  constexpr std::uint64_t rounds = 20'000;
  alignas(64) static std::byte lines[64 * count];
  for (const auto put : {table().nt_tagged, table().store_tagged, table().send_tagged}) {
    std::memset(lines, 0, sizeof lines);
    std::thread writer([&] {
      std::uint64_t payload[bytes / 8];
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        std::fill(std::begin(payload), std::end(payload), round);
        put(lines, payload, bytes, round * 8);
        table().store_fence();
      }
    });
    std::uint64_t torn = 0, newest = 0;
    for (std::size_t i = 0; newest < rounds; i = (i + 1) % count) {
      const std::byte* line = lines + 64 * i;
      const std::uint64_t line_tag =
          __atomic_load_n(reinterpret_cast<const std::uint64_t*>(line + 56), __ATOMIC_ACQUIRE);
      std::uint64_t got[7];
      if (table().load_tagged(got, line, 56, line_tag) != 56) continue;
      newest = line_tag / 8;
      torn += static_cast<std::uint64_t>(
          std::count_if(got, got + 7, [&](std::uint64_t word) { return word < newest; }));
    }
    writer.join();
    EXPECT_EQ(torn, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, TableTest, testing::ValuesIn(runnable_tables()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Arch, SelectsTheFirstRunnableTable) {
  EXPECT_STREQ(select().name, runnable_tables().front().name);
  EXPECT_EQ(&select(), &select());
}

TEST(Arch, FlushFunctionsFollowTheFeatures) {
  EXPECT_EQ(flush_by(Flush::clflush).has_value(), features().clflush);
  EXPECT_EQ(flush_by(Flush::clflushopt).has_value(), features().clflushopt);
  EXPECT_EQ(flush_by(Flush::clwb).has_value(), features().clwb);
  EXPECT_STREQ(flush_name(Flush::clwb), "clwb");
  EXPECT_STREQ(flush_name(Flush::clflush), "clflush");
  EXPECT_STREQ(flush_name(Flush::clflushopt), "clflushopt");
}

/// Output of this program's list of tests in an environment with PENSTOCK_ISA; it names the tables.
std::string tables_listed_with(const std::string& isa) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return "";
  const std::string command = "PENSTOCK_ISA=" + isa + " '" + self +
                              "' --gtest_list_tests --gtest_filter='*IsComplete*' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char chunk[4096];
  while (const std::size_t n = std::fread(chunk, 1, sizeof chunk, pipe)) text.append(chunk, n);
  pclose(pipe);
  return text;
}

TEST(Isa, GenericRulesOutAllOthers) {
  const std::string listed = tables_listed_with("generic");
  EXPECT_THAT(listed, HasSubstr("IsComplete/generic"));
  EXPECT_THAT(listed, Not(HasSubstr("IsComplete/sse2")));
  EXPECT_THAT(listed, Not(HasSubstr("IsComplete/avx")));
}

TEST(Isa, UnknownNameIsReportedAndIgnored) {
  const std::string listed = tables_listed_with("mmx");
  EXPECT_THAT(listed, HasSubstr("PENSTOCK_ISA is 'mmx'"));
  EXPECT_THAT(listed, HasSubstr(std::string("IsComplete/") + select().name));
}

#if defined(__x86_64__)
TEST(Isa, IsLoweredToSse2) {
  const std::string listed = tables_listed_with("sse2");
  EXPECT_THAT(listed, HasSubstr("IsComplete/sse2"));
  EXPECT_THAT(listed, Not(HasSubstr("IsComplete/avx")));
}
#endif

}  // namespace
}  // namespace penstock::arch
