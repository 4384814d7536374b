#include "narrowed.hpp"

#include <iterator>
#include <limits>
#include <mutex>
#include <string_view>

#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

constexpr std::string_view kinds_of_calls[] = {
#define PENSTOCK_COLLECTIVE(name, lower, n, kinds) kinds,
#define PENSTOCK_COUNTED(name, lower, n, kinds) kinds,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
};

#define PENSTOCK_COLLECTIVE(name, lower, n, kinds)       \
  static_assert(std::string_view(kinds).size() % n == 0, \
                "collective_table.inc: MPI_" #name " has " #n " arguments, each of a kind");
#define PENSTOCK_COUNTED PENSTOCK_COLLECTIVE
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED

bool fits_int(Count number) {
  return number >= std::numeric_limits<int>::min() && number <= std::numeric_limits<int>::max();
}

/// The length of a call's arrays, and which of them this rank reads.
struct Arrays {
  std::size_t n = 0;
  bool first = true;   ///< the arrays of the sending side
  bool second = true;  ///< the arrays of the receiving side
};

Arrays arrays_of(CollectiveCall call, std::span<const Word> words) {
  const Handle comm = incoming(words.back());
  int inter = 0, ranks = 0, rank = 0;
  pmpi().Comm_test_inter(comm, &inter);
  const bool remote = inter != 0 && call != CollectiveCall::reduce_scatter;
  remote ? pmpi().Comm_remote_size(comm, &ranks) : pmpi().Comm_size(comm, &ranks);
  pmpi().Comm_rank(comm, &rank);
  Arrays arrays{.n = static_cast<std::size_t>(ranks)};
  if (call == CollectiveCall::gatherv || call == CollectiveCall::scatterv) {
    const int root = static_cast<int>(words[words.size() - 2]);
    arrays.first = arrays.second = root == (inter != 0 ? constants().root : rank);
  }
  if (call == CollectiveCall::alltoallv)
    arrays.first = reinterpret_cast<void*>(words[0]) != constants().in_place;  // NOLINT: a pointer
  return arrays;
}

}  // namespace

bool Narrowed::narrow_array(Word& word, std::size_t n) {
  const auto* const numbers = reinterpret_cast<const Count*>(word);  // NOLINT: a pointer in a word
  if (numbers == nullptr) return true;                               // the MPI reports it
  std::vector<int>& narrow = arrays_.emplace_back();
  for (std::size_t i = 0; i < n; ++i) {
    if (!fits_int(numbers[i])) return false;
    narrow.push_back(static_cast<int>(numbers[i]));
  }
  word = reinterpret_cast<Word>(narrow.data());
  return true;
}

bool Narrowed::narrow(CollectiveCall call, std::span<Word> words) {
  const std::string_view kinds = kinds_of_calls[static_cast<std::size_t>(call)];
  Arrays arrays;
  if (kinds.find('a') != std::string_view::npos) arrays = arrays_of(call, words);
  const std::size_t half = kinds.find('t');
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == 'i' && !fits_int(static_cast<Count>(words[i]))) return false;
    if (kinds[i] == 'a' && (i < half ? arrays.first : arrays.second) &&
        !narrow_array(words[i], arrays.n))
      return false;
  }
  return true;
}

void Narrowed::keep() {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::vector<int>>;
  const std::lock_guard<std::mutex> guard(mutex);
  std::move(arrays_.begin(), arrays_.end(), std::back_inserter(*kept));
}

}  // namespace penstock::mpi
