// Requests, statuses and indices of Fortran in calls in C.
#pragma once

#include <vector>

#include "fortran.hpp"
#include "pool_requests.hpp"

namespace penstock::mpi::fortran {

/// True where a call that waits for or tests requests is ours: else the MPI's own function gets it.
bool waits_by_mpif_h(const void* caller);
bool waits_by_f08(const void* caller);
bool waits_by_f08_logical(const void* caller);
/// The same for calls that free operations and datatypes.
bool frees_by_mpif_h(const void* caller);
bool frees_by_f08(const void* caller);

/// The statuses of Fortran lie in memory as those of C; MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE
/// are addresses of variables.
void* status(void* at);
void* statuses(void* at);

using Request = Out<Kind::request>;

/// An array of requests, written back after the call.
class Requests {
 public:
  Requests(int n, int* at) : at_(at), places_(n > 0 ? static_cast<std::size_t>(n) : 0) {
    for (std::size_t i = 0; i < places_.size(); ++i)
      store_at(places_.data(), i, from_fortran(Kind::request, at_[i]));
  }
  ~Requests() {
    for (std::size_t i = 0; i < places_.size(); ++i)
      at_[i] = to_fortran(Kind::request, load_at(places_.data(), i));
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  operator void*() { return places_.data(); }  // NOLINT

 private:
  int* at_;
  std::vector<Handle> places_;  ///< room for handles of either width
};

/// An index, which counts from 1 in Fortran.
class Index {
 public:
  explicit Index(int* at) : at_(at) {}
  ~Index() {
    if (*at_ != constants().undefined) ++*at_;
  }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  operator int*() { return at_; }  // NOLINT

 private:
  int* at_;
};

/// `*number` indices.
class Indices {
 public:
  Indices(int* at, const int* number) : at_(at), number_(number) {}
  ~Indices() {
    if (*number_ == constants().undefined) return;
    for (int i = 0; i < *number_; ++i) ++at_[i];
  }
  Indices(const Indices&) = delete;
  Indices& operator=(const Indices&) = delete;
  operator int*() { return at_; }  // NOLINT

 private:
  int* at_;
  const int* number_;
};

}  // namespace penstock::mpi::fortran
