#include "errors.hpp"

#include <map>
#include <mutex>

#include "base/log.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

int class_of(ErrorCode code) {
  const Constants& mpi = constants();
  switch (code) {
    case ErrorCode::invalid_argument:
      return mpi.err_rma_range;
    case ErrorCode::mismatch:
      return mpi.err_rma_sync;
    case ErrorCode::no_space:
    case ErrorCode::no_slots:
      return mpi.err_no_mem;
    case ErrorCode::peer_dead:
      return mpi.err_proc_aborted != absent ? mpi.err_proc_aborted : mpi.err_other;
    default:
      return mpi.err_other;
  }
}

/// One code of the MPI for each of ours: an MPI cannot free codes, so only the text changes.
int mpi_code(const Error& error) {
  static std::mutex mutex;
  static std::map<ErrorCode, int> codes;
  const std::lock_guard<std::mutex> guard(mutex);
  auto found = codes.find(error.code);
  if (found == codes.end()) {
    int code = 0;
    if (pmpi().Add_error_code(class_of(error.code), &code) != constants().success)
      return class_of(error.code);
    found = codes.emplace(error.code, code).first;
  }
  const auto most = static_cast<std::size_t>(constants().max_error_string) - 1;
  pmpi().Add_error_string(found->second, error.message.substr(0, most).c_str());
  return found->second;
}

/// Not every MPI prints the text of a code that was added to it.
void say(const Error& error) {
  const auto level = error.code == ErrorCode::peer_dead ? base::Level::error : base::Level::info;
  base::log(level, "{}", error.message);
}

}  // namespace

int raise(Handle win, const Error& error) {
  say(error);
  const int code = mpi_code(error);
  pmpi().Win_call_errhandler(win, code);
  return code;
}

int finish(Handle win, const Result<void>& done) {
  return done ? constants().success : raise(win, done.error());
}

int finish(Handle win, const Result<int>& done) {
  return done ? *done : raise(win, done.error());
}

int code_on_comm(const Error& error) {
  return error.code == ErrorCode::mismatch ? constants().err_truncate : mpi_code(error);
}

int raise_on_comm(Handle comm, const Error& error) {
  if (error.code == ErrorCode::mismatch)  // the MPI's own code has a text of its own
    base::log(base::Level::error, "{}", error.message);
  else
    say(error);
  const int code = code_on_comm(error);
  pmpi().Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace penstock::mpi
