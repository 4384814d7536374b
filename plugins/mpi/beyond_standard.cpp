#include "beyond_standard.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "pmpi.hpp"
#include "schedule/reduction.hpp"

namespace penstock::mpi {

namespace {

/// Makes a communicator's errors return while it exists. MPI_Reduce_local has no communicator: its
/// errors go to the handler of MPI_COMM_SELF or, before MPI 4, of MPI_COMM_WORLD.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(Handle comm) : comm_(comm) {
    pmpi().Comm_get_errhandler(comm_, before_);
    pmpi().Comm_set_errhandler(comm_, constants().errors_return);
  }
  ~ErrorsReturn() {
    pmpi().Comm_set_errhandler(comm_, before_.get());
    pmpi().Errhandler_free(before_);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  Handle comm_;
  Slot before_;
};

/// True if MPI_COMM_SELF and MPI_COMM_WORLD exist.
bool can_ask() {
  int begun = 0, ended = 0;
  pmpi().Initialized(&begun);
  pmpi().Finalized(&ended);
  return begun != 0 && ended == 0;
}

bool reduces(Handle type, Handle op, const Layout& layout) {
  const AccessRanges reach = reach_of(layout, 1, 0);
  const auto bytes = static_cast<std::size_t>(reach.end - reach.begin);
  std::vector<std::byte> left(bytes), right(bytes);
  return pmpi().Reduce_local(left.data() - reach.begin, right.data() - reach.begin, 1, type, op) ==
         constants().success;
}

/// All pairs of byte values.
struct Pairs {
  std::vector<std::byte> left, right;
  Pairs() {
    for (unsigned pair = 0; pair < 1u << 16; ++pair) {
      left.push_back(static_cast<std::byte>(pair >> 8));
      right.push_back(static_cast<std::byte>(pair));
    }
  }
};

bool is_computed_as(coll::Datatype type, coll::Operation operation, const Pairs& of,
                    const std::vector<std::byte>& result) {
  const auto reduction = coll::Reduction::make(type, operation, 2);
  if (!reduction) return false;
  std::vector<std::byte> ours(result.size());
  reduction->pair(ours.data(), of.left.data(), of.right.data(), ours.size());
  return ours == result;
}

Meaning ask(Handle type, Handle op, std::optional<coll::Operation> operation,
            const Layout& layout) {
  if (!can_ask()) return Meaning::refused;
  const ErrorsReturn world(constants().comm_world), self(constants().comm_self);
  if (!reduces(type, op, layout)) return Meaning::refused;
  if (layout.size != 1 || !layout.contiguous || !operation) return Meaning::own;
  const Pairs pairs;
  std::vector<std::byte> result = pairs.right;
  if (pmpi().Reduce_local(pairs.left.data(), result.data(), static_cast<int>(result.size()), type,
                          op) != constants().success)
    return Meaning::refused;
  if (is_computed_as(coll::Datatype::int8, *operation, pairs, result)) return Meaning::signed_bytes;
  if (is_computed_as(coll::Datatype::uint8, *operation, pairs, result))
    return Meaning::unsigned_bytes;
  return Meaning::own;
}

}  // namespace

Meaning meaning_of(Handle type, Handle op, std::optional<coll::Operation> operation,
                   const Layout& layout) {
  static std::mutex mutex;
  // Never destroyed: calls may come from exit handlers.
  static auto* const known = new std::map<std::pair<Handle, Handle>, Meaning>;
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found = known->find({type, op});
  if (found != known->end()) return found->second;
  return (*known)[{type, op}] = ask(type, op, operation, layout);
}

}  // namespace penstock::mpi
