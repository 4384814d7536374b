#include <sys/mman.h>

#include <fstream>

#include "device/superblock.hpp"
#include "pool/layout.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AttachTest : public PoolTest {
 protected:
  void write_at(std::uint64_t offset, const void* bytes, std::size_t count) const {
    std::fstream file(spec_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  }
  /// Changes the superblock and recomputes its checksum, as a faulty writer could.
  template <class Change>
  void change_superblock(Change change) const {
    auto parts = device::open_parts(spec_, device::Access::write);
    ASSERT_TRUE(parts);
    auto superblock = device::read_superblock(parts->front());
    ASSERT_TRUE(superblock && *superblock);
    change(**superblock);
    ASSERT_TRUE(device::write_superblock(parts->front(), **superblock));
  }
};

TEST_F(AttachTest, ChecksAddressesAgainstPool) {
  create();
  auto pool = attach();
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->bytes(), test_pool_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool->base()) % (2u << 20), 0u);
  EXPECT_EQ(pool->at(0, test_pool_bytes), pool->base());
  EXPECT_EQ(pool->at(4096, 64), pool->base() + 4096);
  EXPECT_EQ(pool->at(test_pool_bytes, 0), pool->base() + test_pool_bytes);
  EXPECT_EQ(pool->at(test_pool_bytes, 1), nullptr);
  EXPECT_EQ(pool->at(test_pool_bytes - 64, 65), nullptr);
  EXPECT_EQ(pool->at(UINT64_MAX, 64), nullptr);
  EXPECT_EQ(pool->at(64, UINT64_MAX), nullptr);
  EXPECT_EQ(pool->offset_of(pool->base() + 77), 77u);
  EXPECT_EQ(pool->offset_of(pool->base() + test_pool_bytes), std::nullopt);
  EXPECT_EQ(pool->offset_of(pool->base() - 1), std::nullopt);
  int local = 0;
  EXPECT_EQ(pool->offset_of(&local), std::nullopt);
}

TEST_F(AttachTest, AbsentPoolErrorNamesCommand) {
  const Error error = attach_error();
  EXPECT_EQ(error.code, ErrorCode::not_found);
  EXPECT_THAT(error.message, HasSubstr("penstock pool create " + spec_ + " --size 2G"));
}

TEST_F(AttachTest, PermissionErrorNamesOwnerAndMode) {
  create();
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  // root may open everything, so another user tries
  Child child([&](const Child::Report&) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    if (::getuid() != 65534) ::chmod(spec_.c_str(), 0);
    auto pool = Pool::attach({.spec = spec_});
    if (pool) return 3;
    if (pool.error().code != ErrorCode::permission) return 4;
    for (const char* needed : {"belongs to", "with mode", "chmod 0660", "--group"}) {
      if (pool.error().message.find(needed) == std::string::npos) return 5;
    }
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(AttachTest, AClosedFolderAbove) {
  create();
  Child child([&](const Child::Report&) {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_write);
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    auto pool = Pool::attach({.spec = spec_});
    if (pool) return 3;
    return pool.error().message.find("namei -l") != std::string::npos ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
}

TEST_F(AttachTest, NotAPool) {
  std::ofstream(spec_) << std::string(1 << 20, 'x');
  EXPECT_EQ(attach_error().code, ErrorCode::wrong_format);
  EXPECT_THAT(attach_error().message, HasSubstr("is not a Penstock pool (it begins with 0x7878"));
}

TEST_F(AttachTest, TooShortToBeAPool) {
  std::ofstream(spec_) << "short";
  EXPECT_EQ(attach_error().code, ErrorCode::wrong_format);
  EXPECT_THAT(attach_error().message, HasSubstr("it has 5 B"));
  std::ofstream(spec_, std::ios::trunc).flush();
  EXPECT_THAT(attach_error().message, HasSubstr("it has 0 B"));
}

TEST_F(AttachTest, AFolder) {
  std::filesystem::create_directory(spec_);
  EXPECT_EQ(attach_error().code, ErrorCode::wrong_format);
  EXPECT_THAT(attach_error().message, HasSubstr("is a folder"));
}

TEST_F(AttachTest, ASocketOrPipe) {
  ASSERT_EQ(::mkfifo(spec_.c_str(), 0600), 0);
  EXPECT_THAT(attach_error().message, HasSubstr("neither a file nor a devdax device"));
}

TEST_F(AttachTest, AnotherLayoutVersion) {
  create();
  change_superblock([](device::Superblock& s) { s.layout_version = 99; });
  EXPECT_EQ(attach_error().code, ErrorCode::wrong_format);
  EXPECT_THAT(attach_error().message,
              AllOf(HasSubstr(fmt::format("layout version 99, this Penstock needs {}",
                                          device::layout_version)),
                    HasSubstr("penstock pool create " + spec_ + " --overwrite")));
}

TEST_F(AttachTest, ADamagedSuperblock) {
  create();
  for (std::uint64_t offset = 16; offset < sizeof(device::Superblock); offset += 13) {
    device::Superblock before;
    std::ifstream(spec_, std::ios::binary).read(reinterpret_cast<char*>(&before), sizeof before);
    const char flipped = static_cast<char>(reinterpret_cast<const char*>(&before)[offset] ^ 0x10);
    write_at(offset, &flipped, 1);
    const Error error = attach_error();
    EXPECT_EQ(error.code, ErrorCode::wrong_format);
    EXPECT_THAT(error.message, AllOf(HasSubstr("is damaged"), HasSubstr("checksum")));
    write_at(0, &before, sizeof before);
  }
  EXPECT_TRUE(attach());
}

TEST_F(AttachTest, ImpossibleGeometryWithACorrectChecksum) {
  create();
  const std::vector<std::function<void(device::Superblock&)>> lies = {
      [](device::Superblock& s) { s.bytes = UINT64_MAX & ~((2ull << 20) - 1); },
      [](device::Superblock& s) { s.bytes = 0; },
      [](device::Superblock& s) { s.part_count = 0; },
      [](device::Superblock& s) { s.part_count = 1u << 31; },
      [](device::Superblock& s) { s.part_index = 1; },
      [](device::Superblock& s) { s.max_processes = 1u << 30; },
      [](device::Superblock& s) { s.max_processes += 1; },
      [](device::Superblock& s) { s.max_nodes = UINT32_MAX; },
      [](device::Superblock& s) { s.stripe_bytes = 0; },
      [](device::Superblock& s) { s.stripe_bytes = 4096; },
      [](device::Superblock& s) { s.data_offset = 4096; },
      [](device::Superblock& s) { s.part_bytes = UINT64_MAX; },
      [](device::Superblock& s) { s.states_offset = UINT64_MAX - 64; },
      [](device::Superblock& s) { s.arena_offset += 64; },
      [](device::Superblock& s) { s.arena_bytes = UINT64_MAX; },
      [](device::Superblock& s) { s.mode = 17; },
      [](device::Superblock& s) { s.pool_id = 0; },
  };
  for (std::size_t i = 0; i < lies.size(); ++i) {
    device::Superblock before;
    std::ifstream(spec_, std::ios::binary).read(reinterpret_cast<char*>(&before), sizeof before);
    change_superblock(lies[i]);
    const Error error = attach_error();
    EXPECT_EQ(error.code, ErrorCode::wrong_format) << i;
    EXPECT_THAT(error.message, HasSubstr("impossible")) << i;
    write_at(0, &before, sizeof before);
  }
}

TEST_F(AttachTest, ATruncatedFile) {
  create();
  std::filesystem::resize_file(spec_, test_pool_bytes / 2);
  EXPECT_EQ(attach_error().code, ErrorCode::wrong_format);
  EXPECT_THAT(attach_error().message,
              HasSubstr("is truncated: it has 8 MiB, its superblock says 16 MiB"));
}

TEST_F(AttachTest, AnotherMode) {
  create();
  EXPECT_TRUE(attach({.mode = coherence::Mode::software}));
  const Error error = attach_error({.mode = coherence::Mode::hardware});
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr("is in software mode, hardware mode was asked for"),
                                   HasSubstr("PENSTOCK_MODE"), HasSubstr("--mode hardware")));
}

TEST_F(AttachTest, AllSlotsHeld) {
  create(/*max_processes=*/3);
  std::vector<std::unique_ptr<Pool>> attached;
  for (int i = 0; i < 3; ++i) attached.push_back(attach());
  const Error error = attach_error();
  EXPECT_EQ(error.code, ErrorCode::no_slots);
  EXPECT_THAT(error.message, AllOf(HasSubstr("all 3 process slots"),
                                   HasSubstr("penstock pool gc " + spec_), HasSubstr("--ranks 3")));
  attached.pop_back();
  EXPECT_TRUE(attach());
}

TEST_F(AttachTest, ObserverReadsAndTakesNoSlot) {
  create();
  std::filesystem::permissions(spec_, std::filesystem::perms::owner_read);
  Child child([&](const Child::Report&) {
    if (::geteuid() == 0) {
      if (::chown(spec_.c_str(), 65534, 65534) != 0) return 2;
      std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
      if (::setuid(65534) != 0) return 3;
    }
    auto observer = Pool::attach({.spec = spec_, .observer = true});
    if (!observer) return 4;
    if (!(*observer)->members().processes().empty()) return 5;
    if ((*observer)->lock() || (*observer)->token() != 0) return 6;
    (*observer)->publish_stats({.messages_sent = 1});
    (*observer)->publish_activity("nothing");
    return Pool::attach({.spec = spec_}) ? 7 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(AttachTest, TouchesOnlyMetadata) {
  create();
  const Info info = *inspect(spec_);
  const int fd = ::open(spec_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(
      ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(info.arena_offset), static_cast<off_t>(info.arena_bytes)),
      0);
  {
    auto first = attach();
    auto second = attach();
    first->members().processes();
    EXPECT_TRUE(first->lock());
    EXPECT_TRUE(first->reclaim().reap({}));
  }
  struct stat status;
  ASSERT_EQ(::fstat(fd, &status), 0);
  ::close(fd);
  // at most a huge page beyond the tables
  EXPECT_LE(static_cast<std::uint64_t>(status.st_blocks) * 512, info.arena_offset + (2u << 20));
}

TEST_F(AttachTest, ThousandAttachmentsLeakNothing) {
  create();
  auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t lines = 0;
    for (std::string line; std::getline(maps, line);) lines += line.find("pooltest") != line.npos;
    return lines;
  };
  auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  ASSERT_TRUE(attach());  // a sanitizer starts a permanent thread with the first thread
  const auto files_before = open_files();
  const auto threads_before = threads();
  std::uint64_t last_generation = 0;
  for (int i = 0; i < 1000; ++i) {
    auto pool = attach();
    ASSERT_TRUE(pool);
    last_generation = std::max(last_generation, pool->generation());
  }
  EXPECT_EQ(open_files(), files_before);
  EXPECT_EQ(threads(), threads_before);
  EXPECT_EQ(mappings(), 0u);
  EXPECT_EQ(folder_.entries(), 1u);
  EXPECT_GE(last_generation, 1000u / 16);
  auto pool = attach();
  for (const ProcessRecord& record : pool->members().processes()) {
    EXPECT_EQ(record.alive, record.slot == pool->slot());
  }
}

}  // namespace
}  // namespace penstock::pool
