#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <fstream>

#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CreateTest : public PoolTest {
 protected:
  Error create_error(const CreateOptions& options) const {
    auto created = pool::create(options);
    if (!created) return created.error();
    ADD_FAILURE() << "created";
    return Error{};
  }
  struct stat status() const {
    struct stat status = {};
    ::stat(spec_.c_str(), &status);
    return status;
  }
};

TEST_F(CreateTest, InspectsWhatWasCreated) {
  CreateOptions options = create_options();
  options.max_processes = 77;
  options.max_nodes = 5;
  options.mode = coherence::Mode::hardware;
  auto created = pool::create(options);
  ASSERT_TRUE(created) << created.error().message;
  auto found = inspect(spec_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NE(found->id, 0u);
  EXPECT_EQ(found->id, created->id);
  EXPECT_EQ(found->spec, spec_);
  EXPECT_EQ(found->bytes, test_pool_bytes);
  EXPECT_EQ(found->mode, coherence::Mode::hardware);
  EXPECT_EQ(found->max_processes, 77u);
  EXPECT_EQ(found->max_nodes, 5u);
  EXPECT_GT(found->created_wall_ns, 0u);
  EXPECT_EQ(found->arena_offset + found->arena_bytes, test_pool_bytes);
  EXPECT_EQ(found->arena_offset % 4096, 0u);
}

TEST_F(CreateTest, ReservesSpaceAndLeavesNothingElse) {
  create();
  EXPECT_EQ(static_cast<std::uint64_t>(status().st_size), test_pool_bytes);
  EXPECT_GE(static_cast<std::uint64_t>(status().st_blocks) * 512, test_pool_bytes);
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(CreateTest, PermissionsIgnoreUmask) {
  const mode_t before = ::umask(0777);
  CreateOptions options = create_options();
  auto private_pool = pool::create(options);
  ::umask(before);
  ASSERT_TRUE(private_pool) << private_pool.error().message;
  EXPECT_EQ(status().st_mode & 0777, 0600u);
  options.permissions = 0640;
  options.overwrite = true;
  ASSERT_TRUE(pool::create(options));
  EXPECT_EQ(status().st_mode & 0777, 0640u);
}

TEST_F(CreateTest, SparsePoolTakesSpaceOnWrite) {
  CreateOptions options = create_options();
  options.bytes = 64ull << 30;
  options.sparse = true;
  auto made = pool::create(options);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->bytes, options.bytes);
  EXPECT_EQ(static_cast<std::uint64_t>(status().st_size), options.bytes);
  EXPECT_LT(static_cast<std::uint64_t>(status().st_blocks) * 512, 64ull << 20);
  EXPECT_TRUE(attach());
}

TEST_F(CreateTest, GroupMayAttach) {
  const group* own = ::getgrgid(::getegid());
  if (own == nullptr) GTEST_SKIP() << "this user's group has no name";
  CreateOptions options = create_options();
  options.group = own->gr_name;
  auto created = pool::create(options);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(status().st_mode & 0777, 0660u);
  EXPECT_EQ(status().st_gid, ::getegid());
}

TEST_F(CreateTest, UnknownGroupLeavesNothing) {
  CreateOptions options = create_options();
  options.group = "no-such-group";
  const Error error = create_error(options);
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("no-such-group"), HasSubstr("id -nG")));
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(CreateTest, KeepsExistingPool) {
  create();
  const std::uint64_t id = inspect(spec_)->id;
  const Error error = create_error(create_options());
  EXPECT_EQ(error.code, ErrorCode::already_exists);
  EXPECT_THAT(error.message, HasSubstr("--overwrite"));
  EXPECT_EQ(inspect(spec_)->id, id);
}

TEST_F(CreateTest, RefusesOverwriteWhileAttached) {
  create();
  const std::uint64_t id = inspect(spec_)->id;
  auto attached = attach();
  CreateOptions options = create_options();
  options.overwrite = true;
  const Error error = create_error(options);
  EXPECT_EQ(error.code, ErrorCode::unavailable);
  EXPECT_THAT(error.message, AllOf(HasSubstr("is in use"), HasSubstr("pool rm")));
  EXPECT_EQ(inspect(spec_)->id, id);
  attached.reset();
  ASSERT_TRUE(pool::create(options));
  EXPECT_NE(inspect(spec_)->id, id);
}

TEST_F(CreateTest, ForcedRemovalKeepsAttachedMappings) {
  create();
  const std::uint64_t id = inspect(spec_)->id;
  auto attached = attach();
  ASSERT_TRUE(attached);
  ASSERT_TRUE(pool::remove(spec_, true));
  create();
  EXPECT_NE(inspect(spec_)->id, id);
  EXPECT_TRUE(attached->alive(attached->token()));
  EXPECT_TRUE(attached->lock());
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(CreateTest, OverwriteReplacesOnlyPools) {
  const std::string text(8192, 'x');
  std::ofstream(spec_) << text;
  CreateOptions options = create_options();
  options.overwrite = true;
  const Error error = create_error(options);
  EXPECT_EQ(error.code, ErrorCode::already_exists);
  EXPECT_THAT(error.message, HasSubstr("is not a Penstock pool"));
  std::ifstream file(spec_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST_F(CreateTest, RefusesImpossibleSizes) {
  CreateOptions options = create_options();
  options.bytes = 0;
  EXPECT_THAT(create_error(options).message, HasSubstr("--size 2G"));
  options.bytes = 1 << 20;
  EXPECT_THAT(create_error(options).message,
              AllOf(HasSubstr("at least 16 MiB"), HasSubstr("--size 16M")));
  options.bytes = (16ull << 20) + 4096;
  EXPECT_THAT(create_error(options).message,
              AllOf(HasSubstr("--size 16777216"), HasSubstr("--size 18874368")));
  EXPECT_EQ(create_error(options).code, ErrorCode::invalid_argument);
  for (const std::uint64_t bytes :
       {(1ull << 48) + (2u << 20), 1ull << 63, (1ull << 63) - 1, ~0ull - (2u << 20) + 1, ~0ull}) {
    options.bytes = bytes;
    const Error error = create_error(options);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << bytes;
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("at most 256 TiB"), HasSubstr("--size 281474976710656")));
  }
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(CreateTest, RefusesImpossibleTables) {
  CreateOptions options = create_options();
  options.max_processes = 32769;
  EXPECT_THAT(create_error(options).message, HasSubstr("1 to 32768"));
  options.max_processes = 32768;
  EXPECT_THAT(create_error(options).message, HasSubstr("more than half of a pool of 16 MiB"));
  options.max_processes = 16;
  options.max_nodes = 1025;
  EXPECT_THAT(create_error(options).message, HasSubstr("--nodes"));
}

TEST_F(CreateTest, MakesSimulatedPoolWithoutSimulator) {
  CreateOptions options = create_options();
  options.mode = coherence::Mode::simulated;
  const auto created = pool::create(options);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(inspect(options.spec)->mode, coherence::Mode::simulated);
}

TEST_F(CreateTest, AMissingFolder) {
  CreateOptions options = create_options();
  options.spec = folder_.file("none/pool");
  const Error error = create_error(options);
  EXPECT_EQ(error.code, ErrorCode::not_found);
  EXPECT_THAT(error.message, HasSubstr("mkdir -p"));
}

TEST_F(CreateTest, AFolderOfOthers) {
  std::filesystem::permissions(
      folder_.path(), std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  // root may write to every folder, so another user tries
  Child child([&](const Child::Report&) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    auto created = pool::create(create_options());
    if (created) return 3;
    return created.error().code == ErrorCode::permission &&
                   created.error().message.find("may not write in") != std::string::npos
               ? 0
               : 4;
  });
  EXPECT_EQ(child.wait(), 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(CreateTest, FileLimitIsErrorNotSignal) {
  Child child([&](const Child::Report&) {
    const rlimit limit{8u << 20, 8u << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    auto created = pool::create(create_options());
    if (created) return 3;
    return created.error().code == ErrorCode::no_space &&
                   created.error().message.find("ulimit -f") != std::string::npos
               ? 0
               : 4;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(folder_.entries(), 0u);
}

/// Creates a pool on a file system of 8 MiB. Exit status 77: mounting is not permitted here.
int create_on_small_tmpfs(const std::string& at) {
  const uid_t user = ::geteuid();
  const gid_t users_group = ::getegid();
  if (::unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return 77;
  auto write = [](const char* path, const std::string& text) {
    return static_cast<bool>((std::ofstream(path) << text).flush());
  };
  // files of a user that the new namespace does not know cannot be created
  if (user != 0 && !(write("/proc/self/uid_map", fmt::format("0 {} 1", user)) &&
                     write("/proc/self/setgroups", "deny") &&
                     write("/proc/self/gid_map", fmt::format("0 {} 1", users_group)))) {
    return 77;
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (::mount("tmpfs", at.c_str(), "tmpfs", 0, "size=8m") != 0) return 77;
  auto created = create({.spec = at + "/pool", .bytes = test_pool_bytes});
  if (created) return 3;
  const std::string& message = created.error().message;
  if (created.error().code != ErrorCode::no_space) return 4;
  for (const char* needed : {"needs 16 MiB", "8 MiB free", "give a smaller --size"}) {
    if (message.find(needed) == std::string::npos) {
      std::fprintf(stderr, "%s\n", message.c_str());
      return 5;
    }
  }
  return std::filesystem::is_empty(at) ? 0 : 6;
}

TEST_F(CreateTest, FullFileSystemIsErrorAndLeavesNothing) {
  Child child([&](const Child::Report&) { return create_on_small_tmpfs(folder_.path()); });
  const int status = child.wait();
  if (status == 77) GTEST_SKIP() << "no permission to mount a small file system";
  EXPECT_EQ(status, 0);
}

TEST_F(CreateTest, ShmErrorsNameRemount) {
  // more than any machine has
  const Error error = create_error({.spec = "shm:" + unique_name(), .bytes = 1ull << 46});
  EXPECT_EQ(error.code, ErrorCode::no_space);
  EXPECT_THAT(error.message, AllOf(HasSubstr("needs 64 TiB"), HasSubstr("free"),
                                   HasSubstr("mount -o remount,size=... /dev/shm")));
}

TEST_F(CreateTest, RemovesPools) {
  create();
  auto removed = remove(spec_);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(folder_.entries(), 0u);
  removed = remove(spec_);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::not_found);
}

TEST_F(CreateTest, RefusesRemovalWhileAttached) {
  create();
  auto attached = attach();
  auto removed = remove(spec_);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::unavailable);
  EXPECT_THAT(removed.error().message,
              AllOf(HasSubstr(fmt::format("process {}", ::getpid())), HasSubstr("--force")));
  EXPECT_TRUE(remove(spec_, true));
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(CreateTest, RemoveKeepsOtherFiles) {
  std::ofstream(spec_) << std::string(8192, 'x');
  EXPECT_EQ(remove(spec_).error().code, ErrorCode::wrong_format);
  auto forced = remove(spec_, true);
  ASSERT_FALSE(forced);
  EXPECT_THAT(forced.error().message, HasSubstr("left alone"));
  EXPECT_EQ(folder_.entries(), 1u);
}

}  // namespace
}  // namespace penstock::pool
